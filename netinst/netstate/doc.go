// Package netstate models the objects of a host's network. It owns the objects, the State that is a set of them, and
// the Plan of Ops that leads from one State to another.
//
// It is pure: it never touches the host, and it never decides which objects are desired. See docs/architecture.md.
//
// Read object.go first, then plan.go.
package netstate
