// Package fleetapi is the REST API of the controller: HTTP and JSON below /api/v1/fleet/, permissions, the audit log,
// problem+json for errors, the description of the API (OpenAPI), and its client for the command line.
//
// It never decides anything about a config or a node and never talks to an actor: the Backend carries out the requests.
//
// Read table.go first, then handler.go.
package fleetapi
