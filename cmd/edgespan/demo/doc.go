// Package demo implements the command `demo`, which shows a node at work in a lab of network namespaces, step by step.
// It also implements the process that serves DNS and HTTP in the lab.
//
// It never touches the machine's own network. It runs the daemon as a process of its own and asks it with the ordinary
// command line.
//
// Read first: demo.go, then steps.go.
package demo
