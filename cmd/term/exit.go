package term

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"

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

// classed is an error with an exit code.
type classed struct {
	code int
	err  error
}

func (e *classed) Error() string { return e.err.Error() }
func (e *classed) Unwrap() error { return e.err }

// Is makes errors.Is(err, exitClass(code)) work.
func (e *classed) Is(target error) bool {
	c, ok := target.(exitClass)
	return ok && int(c) == e.code
}

// exitClass is an exit code as a target of errors.Is.
type exitClass int

func (c exitClass) Error() string { return fmt.Sprintf("exit class %d", int(c)) }

// WithClass returns err with an exit code.
func WithClass(code int, err error) error { return &classed{code, err} }

// Usagef returns an error with the exit code of a wrong command line.
func Usagef(format string, args ...any) error {
	return WithClass(ExitUsage, fmt.Errorf(format, args...))
}

// Unreadable returns the error for a named file that can't be read. The exit code of a missing file is ExitNotFound.
func Unreadable(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return WithClass(ExitNotFound, err)
	}
	return err
}

// Missing returns the error for a named file that can't be read, with the exit code ExitNotFound. The error of an
// invalid file (confdir.Broken) is unchanged, and means rejected.
func Missing(err error) error {
	if errors.As(err, new(*confdir.Broken)) {
		return err
	}
	return WithClass(ExitNotFound, err)
}

// StatusError is the exit code of another program, which has already printed its error.
type StatusError int

func (e StatusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// classes lists the classes of errors with their exit codes. The first class that an error has counts.
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
	{config.Busy, ExitError}, // before Partial: nothing was printed at all
	{config.Partial, ExitPartial},
}

// ExitCode returns the exit code of err.
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

// Report prints err on stderr, one line for each fault, and returns its exit code.
func (s Streams) Report(err error) int {
	if err == nil {
		return ExitOK
	}
	var rejected *rest.Rejected
	lines := strings.Split(err.Error(), "\n")
	if errors.As(err, &rejected) {
		lines = rejected.Faults
	}
	if errors.As(err, new(StatusError)) {
		lines = nil // the other program has printed it
	}
	for _, l := range lines {
		// A fault quotes user input, which must not break the line or control the terminal.
		s.Printf("%s", Printable(l))
	}
	return ExitCode(err)
}

// moves reports whether a character moves a terminal's cursor, ends the line, or sets the order of others.
func moves(r rune) bool {
	return r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}

// Printable escapes the characters that move a terminal's cursor, end the line, or show other characters in another
// order (Unicode Standard Annex 9): names and messages come from others.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if moves(r) {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(strings.ReplaceAll(s, "\n", "; "), "\ufffd"))
}
