// Package reach finds the daemon or controller that a command of edgespan asks: the daemon by its control socket, the
// controller by flags, environment or a context. It also implements the command `context`.
//
// It never knows what is asked. It sends a token only to the controller that the token belongs to: controller.go
// decides that; term.Target refuses to send it unencrypted over a network.
//
// Read first: app.go, then controller.go.
package reach
