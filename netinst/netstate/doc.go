// Package netstate is the vocabulary of what is on a host: objects, a State of
// them, and the Plan of Ops that leads from one State to another.
//
// It is pure: it never touches the host, and it does not know why an object is
// wanted. See docs/architecture.md.
//
// Read first: object.go, then plan.go.
package netstate
