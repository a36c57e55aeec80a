// Package rest owns what the three APIs share (nodeapi, fleetapi, configdbapi): roles and who a caller is, the
// audit's entry, what requests, bodies and answers may take and in which turn, entity tags, events, schemas, and the
// errors that a caller branches on.
//
// It never knows a route, nor what a request means.
//
// Read first: caller.go, then answers.go and turns.go (docs/adr/0037).
package rest
