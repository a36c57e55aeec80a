// Package fleetapi is the REST shell of the controller: HTTP and JSON below /api/v1/fleet/,
// who may do what, the audit of what was done, problem+json for errors, the description of
// all of it (OpenAPI), and the client that the command line uses.
//
// It never decides anything about a config or a node and never talks to an actor by itself:
// what a request means is the Backend's business.
//
// Read first: table.go, then handler.go.
package fleetapi
