// Package dhcpclient is the pure core of a DHCP client of one port (RFC 2131 §4.4): what it sends when, which offers
// it takes, and how long it keeps a lease.
//
// It never touches the host, a clock or a random source: time and random numbers arrive with each event. It trusts no
// server: lease.go checks all that a reply says before anything of it is used.
//
// Read events.go first, then client.go and lease.go.
package dhcpclient
