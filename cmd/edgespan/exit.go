package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"edgespan/config"
	"edgespan/config/edit"
	"edgespan/config/httpapi"
	"edgespan/config/layers"
	"edgespan/config/operate"
	"edgespan/platform/confdir"
	"edgespan/platform/keystone"
)

// The exit codes of every command.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitTimeout     = 3
	exitRejected    = 4
	exitConflict    = 5
	exitPartial     = 6
	exitPermission  = 7
	exitUnreachable = 8
	exitNotFound    = 10
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

// withClass is err, which ends its command with code.
func withClass(code int, err error) error { return &classed{code, err} }

// usagef is a command line that says nothing we understand.
func usagef(format string, args ...any) error {
	return withClass(exitUsage, fmt.Errorf(format, args...))
}

// unreadable is a file that was named and can't be read; one that is missing exits 10.
func unreadable(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return withClass(exitNotFound, err)
	}
	return err
}

// statusError is another program's exit code, passed on without a word.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// exitCode is the code of err: of all that it holds the first that is asked for here counts.
func exitCode(err error) int {
	var status statusError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, exitClass(exitUsage)):
		return exitUsage
	case isRejected(err):
		return exitRejected
	case errors.Is(err, httpapi.ErrConflict), errors.Is(err, exitClass(exitConflict)):
		return exitConflict
	case errors.Is(err, httpapi.ErrUnreachable), errors.As(err, new(*keystone.Away)):
		return exitUnreachable
	case errors.Is(err, httpapi.ErrNotFound), errors.Is(err, exitClass(exitNotFound)), errors.As(err, new(*operate.NotFoundError)):
		return exitNotFound
	case errors.Is(err, httpapi.ErrPermission), errors.Is(err, exitClass(exitPermission)), errors.Is(err, os.ErrPermission), errors.Is(err, keystone.ErrRefused):
		return exitPermission
	case errors.Is(err, httpapi.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.Is(err, httpapi.ErrBusy):
		return exitError // before Incomplete: nothing at all was shown
	case errors.As(err, new(*httpapi.Incomplete)):
		return exitPartial
	}
	return exitError
}

// isRejected says whether a config was judged and found wanting.
func isRejected(err error) bool {
	return errors.As(err, new(*httpapi.Rejected)) || errors.As(err, new(config.Faults)) || errors.As(err, new(*confdir.Broken)) ||
		errors.As(err, new(layers.Clashes)) || errors.As(err, new(edit.Faults))
}

// report says err on stderr, a line for each fault, and returns its exit code.
func (s streams) report(err error) int {
	if err == nil {
		return exitOK
	}
	var rejected *httpapi.Rejected
	lines := strings.Split(err.Error(), "\n")
	if errors.As(err, &rejected) {
		lines = rejected.Faults
	}
	if errors.As(err, new(statusError)) {
		lines = nil // the other program has said it
	}
	for _, l := range lines {
		// A fault quotes what was typed; a line stays one line and harmless to a terminal.
		s.say("%s", printable(l))
	}
	return exitCode(err)
}

// printable escapes what would move a terminal's cursor or end the line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return '\ufffd'
		}
		return r
	}, strings.ToValidUTF8(strings.ReplaceAll(s, "\n", "; "), "\ufffd"))
}
