// Package agent owns one node's config actor: the shell around config/nodeconf/commitconfirm, which
// judges. It turns what a controller says, what people ask for, what the disk, the host and
// the actions answer and what the clock does into events, and carries the effects out.
// A node has one at its tree; the fleet simulator runs thousands of them in one process.
//
// It never judges a config or an undo (config/nodeconf/commitconfirm, and the Judge that it is given), never
// touches a host, a file or a wire: they are interfaces. Nothing in the actor's turn blocks:
// slots are written, actions run and the machine is restarted in goroutines of its own, each
// at most once at a time, and their ends come back as messages. What an incarnation before
// left under way is ignored.
//
// On the disk are the four slots of config/nodeconf/commitconfirm, and one more: the notes, which say who
// rules the node and who holds it locally.
//
// Read first: options.go, then shell.go.
package agent
