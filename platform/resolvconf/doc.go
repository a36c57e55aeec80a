// Package resolvconf reads the DNS servers that other programs of the machine have
// learnt: systemd-resolved, systemd-networkd, NetworkManager, DHCP clients. It owns the
// reading of their files, and one inotify that tells when to read them again.
//
// The files are those of others: each is bounded, opened without waiting, and only if it
// is a regular file below the root; what can't be read is skipped, and said so. It never
// chooses among servers and never changes anything.
package resolvconf
