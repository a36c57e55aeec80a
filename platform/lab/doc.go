// Package lab builds a test environment for a node in network namespaces: the node with an uplink, a provider with a
// DNS and an HTTP server, and a namespace for each app. The demo and the scenario tests use it. It owns those
// namespaces, one folder, and every process that it or the daemon starts in them.
//
// It never touches the network of the machine, and uses the daemon only as a program with a command line.
//
//	       node                    isp
//	es1 ── uplink0 ─────────────── node0        198.51.100.53  DNS
//	 │     192.0.2.2/24            192.0.2.1    198.51.100.80  HTTP on 80 and 443
//	 ├── app-web
//	 └── app-client
//
// With Options.Second the node has uplink1 as well, 203.0.113.2/24, to a second provider, isp2, whose servers have the
// same two addresses. Options.Uplinks adds up to two more.
//
// Each uplink can fail: Break, SetLoss and SetDelay script the faults of its link, its gateway and what is behind it.
package lab
