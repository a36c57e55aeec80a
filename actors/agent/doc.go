// Package agent owns the config actor of one node: the shell around config/nodeconf/commitconfirm, which makes the
// decisions. It turns messages of the controller, requests of people, results of the disk, the host and the actions,
// and timers into events, and runs the effects. A node's tree has one agent; the fleet simulator runs thousands of them
// in one process.
//
// It never validates a config or decides about an undo (commitconfirm and the given Validator do), and never touches a
// host, a file or a wire: those are interfaces. Nothing blocks in the actor's turn: writes of slots, actions and
// restarts run in separate goroutines, at most one of each kind at a time, and return as messages. Messages from an
// earlier incarnation are ignored.
//
// The disk holds the four slots of config/nodeconf/commitconfirm, and the notes, which say whether a controller manages
// the node and who holds it locally.
//
// Read options.go first, then shell.go.
package agent
