// Package rest is the one frame of the three APIs (nodeapi, fleetapi, configdbapi). It owns the table of routes with
// their parameters and the OpenAPI document that follows from it; how a request of the controller's APIs comes in,
// what it, its body and its answer may take and in which turn, and how it is audited and answered; problems, entity
// tags and streams; roles and who a caller is; the core of all clients, and the errors that a caller branches on.
//
// It never knows a route, nor what a request means: an API says so.
//
// Read first: frame.go, then route.go and client.go; answers.go and turns.go for what a caller may take
// (docs/adr/0037).
package rest
