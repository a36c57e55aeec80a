// Package netinst is the pure core of one network instance: its types, the host
// state that a config with its adapters and ports asks for (Desired), and the
// bridge manager's state machine (Manager).
//
// It never touches the host, a clock or a random source: time and observations
// arrive as fields of events, host changes leave as a desired netstate.State.
//
// Read first: types.go, then manager.go and desired.go.
package netinst
