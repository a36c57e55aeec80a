// Package reach is how a command of edgespan finds whom it asks: the daemon of a node by its
// control socket, a controller by flags, environment or a context, and the command that keeps
// the contexts.
//
// It never knows what is asked. A token goes to the controller it belongs to and to no other:
// controller.go decides that; term.Target refuses what would show it to the network.
//
// Read first: app.go, then controller.go.
package reach
