// Package demo is the command `demo`: a node at work in a lab of network namespaces, shown step
// by step, and the process that serves DNS and HTTP inside of the lab.
//
// It never touches the machine's own network, and runs the daemon as a process of its own, which
// it asks with the command line that everybody has.
//
// Read first: demo.go, then steps.go.
package demo
