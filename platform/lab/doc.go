// Package lab is a small world for a node: network namespaces of its own with an
// uplink, a provider behind it that has a DNS and an HTTP server, and a namespace for
// each app. The demo and the scenario tests run in it. It owns those namespaces, one
// folder, and every process that it or the daemon starts inside them.
//
// It never touches the network of the machine, never judges the daemon and knows
// nothing of its insides: it starts the program and asks its command line.
//
//	       node                    isp
//	es1 ── uplink0 ─────────────── node0        198.51.100.53  DNS
//	 │     192.0.2.2/24            192.0.2.1    198.51.100.80  HTTP on 80 and 443
//	 ├── app-web
//	 └── app-client
//
// With Options.Second the node has uplink1 as well, 203.0.113.2/24, to a second
// provider, isp2, whose servers have the same two addresses.
package lab
