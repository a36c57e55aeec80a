// Package nodeapi is the REST API of the node: HTTP and JSON on the control socket, and its client for the command
// line. It owns the routes, their wire forms and the socket file.
//
// It never decides anything about networks and never talks to an actor: the Backend carries out the requests.
//
// Read api.go first, then handler.go.
package nodeapi
