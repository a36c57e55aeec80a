// Package api answers the questions that the control socket is asked: what there is, whether it
// is ready and why not, what happened, what is in the way (design, "Debugging"; docs/rest.md). It
// owns the topics of a node, which it reads, and the forms of its answers.
//
// It never tells an actor anything and never looks at the host, save for the facts that Doctor
// is given. Read topics.go first, then resources.go.
package api
