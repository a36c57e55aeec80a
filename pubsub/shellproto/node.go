package shellproto

import (
	"context"
	"fmt"
)

// Who is the user at the other end of a shell's connection, as the kernel knows it, or an operator of a controller.
type Who struct {
	UID   uint32
	PID   int32  // of the process that has connected
	Name  string // of an operator; "" for a user of this machine
	Admin bool   // may change something: root, or a member of the group for it
}

// String names the user for the audit.
func (w Who) String() string {
	if w.Name != "" {
		return "operator " + w.Name
	}
	return fmt.Sprintf("uid %d, pid %d", w.UID, w.PID)
}

// Emit passes one answer on. Of a stream it drops the answer if the shell reads too slowly, otherwise it waits.
// dropped is how many others the node has left out itself. An error means that no more is wanted.
type Emit func(answer any, dropped uint64) error

// Node answers requests.
type Node interface {
	// Do carries out an operation of Ops, which the caller may do, until it is done or ctx ends. It is called in
	// several goroutines at a time, and may block.
	Do(ctx context.Context, who Who, r Request, emit Emit) error
}
