// Package httpapi is the REST shell of the node: HTTP and JSON on the control
// socket, and the client of it that the command line uses. It owns the
// routes, the problem+json form of errors and the socket file, and what it
// and the controller's APIs share: roles, the audit's entry, limits, entity tags, events, schemas.
//
// It never decides anything about networks and never talks to an actor by itself:
// what a request means is the Backend's business.
//
// Read first: api.go, then handler.go; answers.go and places.go for what all three APIs share.
package httpapi
