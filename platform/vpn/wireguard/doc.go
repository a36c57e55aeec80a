// Package wireguard makes, changes, observes and removes the WireGuard interfaces of VPN networks: links of the kernel
// where it has WireGuard, else processes of our own, each with wireguard-go on a tun device (package helper, ADR 0089).
// Both outlive the daemon. It keeps the private keys that a config lacks, and resolves the names of peers.
//
// It never decides which tunnels should exist, never touches a link or process without edgespan's mark, and writes no
// secret but the kept keys to a file, and none to a log.
//
// Read tunnels.go first.
package wireguard
