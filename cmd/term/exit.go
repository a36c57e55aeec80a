package term

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"edgespan/config"
	"edgespan/config/httpapi/rest"
	"edgespan/platform/confdir"
)

// The exit codes of every command.
const (
	ExitOK          = 0
	ExitError       = 1
	ExitUsage       = 2
	ExitTimeout     = 3
	ExitRejected    = 4
	ExitConflict    = 5
	ExitPartial     = 6
	ExitPermission  = 7
	ExitUnreachable = 8
	ExitNotFound    = 10
)

// classed is an error that says itself how its command ends.
type classed struct {
	code int
	err  error
}

func (e *classed) Error() string { return e.err.Error() }
func (e *classed) Unwrap() error { return e.err }

// Is makes errors.Is(err, exitClass(code)) ask for the class.
func (e *classed) Is(target error) bool {
	c, is := target.(exitClass)
	return is && int(c) == e.code
}

// exitClass is an exit code that errors.Is looks for.
type exitClass int

func (c exitClass) Error() string { return fmt.Sprintf("exit class %d", int(c)) }

// WithClass is err, which ends its command with code.
func WithClass(code int, err error) error { return &classed{code, err} }

// Usagef is a command line that says nothing we understand.
func Usagef(format string, args ...any) error {
	return WithClass(ExitUsage, fmt.Errorf(format, args...))
}

// Unreadable is a file that was named and can't be read; one that is missing exits 10.
func Unreadable(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return WithClass(ExitNotFound, err)
	}
	return err
}

// Missing is a file that was named and can't be read; one that was read and is broken is rejected.
func Missing(err error) error {
	if errors.As(err, new(*confdir.Broken)) {
		return err
	}
	return WithClass(ExitNotFound, err)
}

// StatusError is another program's exit code, passed on without a word.
type StatusError int

func (e StatusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// classes are those of errors with their exit codes, in the order in which they count: of all that an error holds the
// first one here does.
var classes = []struct {
	is   error
	code int
}{
	{exitClass(ExitUsage), ExitUsage},
	{config.Rejected, ExitRejected},
	{config.Conflict, ExitConflict},
	{config.Unreachable, ExitUnreachable},
	{config.NotFound, ExitNotFound},
	{config.Permission, ExitPermission}, {os.ErrPermission, ExitPermission},
	{config.Timeout, ExitTimeout}, {context.DeadlineExceeded, ExitTimeout},
	{config.Busy, ExitError}, // before what is partial: nothing at all was shown
	{config.Partial, ExitPartial},
}

// ExitCode is the code of err.
func ExitCode(err error) int {
	var status StatusError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &status):
		return int(status)
	}
	for _, c := range classes {
		if errors.Is(err, c.is) || errors.Is(err, exitClass(c.code)) {
			return c.code
		}
	}
	return ExitError
}

// report says err on stderr, a line for each fault, and returns its exit code.
func (s Streams) report(err error) int {
	if err == nil {
		return ExitOK
	}
	var rejected *rest.Rejected
	lines := strings.Split(err.Error(), "\n")
	if errors.As(err, &rejected) {
		lines = rejected.Faults
	}
	if errors.As(err, new(StatusError)) {
		lines = nil // the other program has said it
	}
	for _, l := range lines {
		// A fault quotes what was typed; a line stays one line and harmless to a terminal.
		s.Printf("%s", Printable(l))
	}
	return ExitCode(err)
}

// Printable escapes what would move a terminal's cursor or end the line.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(strings.ReplaceAll(s, "\n", "; "), "\ufffd"))
}
