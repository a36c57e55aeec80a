// Package nodeapi is the REST shell of the node: HTTP and JSON on the control socket, and the client of it that the
// command line uses. It owns the routes, their forms on the wire and the socket file.
//
// It never decides anything about networks and never talks to an actor by itself: what a request means is the
// Backend's business.
//
// Read first: api.go, then handler.go.
package nodeapi
