// Package api answers the control socket: which resources there are, whether they are ready and why not, what happened,
// and what is wrong with the node (design, "Debugging"; docs/rest.md). It owns the node's topics, which it reads, and
// the forms of its answers.
//
// It never sends an actor a message and never reads the host, except for the facts that Doctor is given. Read topics.go
// first, then resources.go.
package api
