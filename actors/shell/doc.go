// Package shell owns both ends of the debug shell's remoting (docs/adr/0095): on the daemon's side a second actor
// system whose only actors are gateways, one for each shell, and on the other side the session of a shell. They speak
// protoactor-go's remoting protocol on a Unix socket, of which one envelope type to one target passes.
//
// It never knows what an operation does: that is Node's. No message of a shell reaches an actor of the node's own
// system, and nothing that a shell sends or does not read makes the daemon wait or keep more than its bounds.
//
// Read server.go first, then gateway.go.
package shell
