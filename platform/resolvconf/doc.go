// Package resolvconf reads the DNS servers that other programs of the machine have learnt: systemd-resolved,
// systemd-networkd, NetworkManager, DHCP clients. It has one inotify instance that reports when to read their files
// again.
//
// The files belong to other programs: each is bounded, opened without blocking, and only if it is a regular file below
// the root. The package skips and reports what it can't read. It never chooses among servers and never changes
// anything.
package resolvconf
