// Package watch reads the DNS and DHCP messages of apps on their way, on the links of networks: on the bridge of a
// local network, and on the link of each adapter of a switch. It owns one packet socket for each protocol and link,
// with a filter in the kernel, and the parsers of what these deliver.
//
// It never sends, changes or delays a packet: the kernel counts and drops the copies that are not read in time. It
// believes nothing of a message but its form, and spends a bounded time on each.
//
// Read watch.go first.
package watch
