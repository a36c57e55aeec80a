// Package flowexport connects to where the flow log is sent: a collector by UDP or TCP, or a Unix socket on which a
// program listens. It uses the host's own routes, and reads nothing: what the other end sends stays in a small buffer
// of the kernel.
//
// It never decides what is sent, or when to connect again (actors/node/flows does).
package flowexport
