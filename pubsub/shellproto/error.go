package shellproto

import (
	"errors"
	"fmt"
	"slices"
)

// Error is why an operation failed, with the exit status for a script: those of docs/cli.md.
type Error struct {
	Exit int
	Text string
}

// Exit statuses of answers, as docs/cli.md has them.
const (
	ExitError       = 1
	ExitUsage       = 2
	ExitTimeout     = 3
	ExitConflict    = 5
	ExitPermission  = 7
	ExitUnreachable = 8
	ExitNotFound    = 10
)

func (e *Error) Error() string { return e.Text }

// Failf returns an Error.
func Failf(exit int, format string, args ...any) error {
	return &Error{exit, fmt.Sprintf(format, args...)}
}

// Failure returns the last frame of a request that failed.
func Failure(id uint64, err error) Frame {
	f := Frame{ID: id, End: true, Error: err.Error(), Exit: ExitError}
	if known := new(Error); errors.As(err, &known) {
		f.Exit = known.Exit
	}
	return f
}

func (r Request) op() (Op, bool) {
	at := slices.IndexFunc(Ops, func(op Op) bool { return op.Name == r.Op })
	if at < 0 {
		return Op{}, false
	}
	return Ops[at], true
}

// Streams reports whether the request is answered until it is cancelled.
func (r Request) Streams() bool {
	op, _ := r.op()
	return op.Streams
}

// Permit returns why a user may not ask this.
func (r Request) Permit(who Who) error {
	op, known := r.op()
	switch {
	case r.Version != Version:
		return Failf(ExitError, "version %d of the shell's protocol: the daemon has version %d", r.Version, Version)
	case !known:
		return Failf(ExitUsage, "%.40q: no command of the daemon's version", r.Op)
	case !op.Writes:
		return nil
	case !r.Write:
		return Failf(ExitPermission, "changes the node: must be in a shell that was started with --write")
	case !who.Admin:
		return Failf(ExitPermission, "not permitted to uid %d: must be root or in the group %s", who.UID, AdminGroup)
	}
	return nil
}
