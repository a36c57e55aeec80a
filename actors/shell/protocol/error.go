package protocol

import "fmt"

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
