// Package rest is the HTTP frame of the three APIs (nodeapi, fleetapi, configdbapi). It owns the table of routes with
// their parameters and the OpenAPI document generated from it; the limits on the controller's requests, bodies and
// answers, and the order in which they are served; the audit log and the answers; problems, entity tags and streams;
// roles and callers; the core of all clients, and the errors that callers branch on.
//
// It never knows a route or the meaning of a request: an API defines those.
//
// Read first: frame.go, then route.go and client.go; answers.go and turns.go for the limits on callers (docs/adr/0037).
package rest
