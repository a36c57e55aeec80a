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

// usageError is a command line that says nothing we understand.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// exitCode is the code of err.
func exitCode(err error) int {
	var usage *usageError
	var rejected *httpapi.Rejected
	var incomplete *httpapi.Incomplete
	var status statusError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &rejected), errors.As(err, new(config.Faults)),
		errors.As(err, new(*confdir.Broken)), errors.As(err, new(layers.Clashes)),
		errors.As(err, new(edit.Faults)):
		return exitRejected
	case errors.Is(err, httpapi.ErrConflict):
		return exitConflict
	case errors.Is(err, httpapi.ErrUnreachable), errors.As(err, new(*keystone.Away)):
		return exitUnreachable
	case errors.Is(err, httpapi.ErrNotFound), errors.As(err, new(*noKey)), errors.As(err, new(*noContextError)), errors.As(err, new(*noParameterError)), errors.As(err, new(*operate.NotFoundError)), errors.Is(err, os.ErrNotExist) && errors.As(err, new(*inputError)):
		return exitNotFound
	case errors.Is(err, httpapi.ErrPermission), errors.Is(err, os.ErrPermission), errors.Is(err, keystone.ErrRefused):
		return exitPermission
	case errors.Is(err, httpapi.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.Is(err, httpapi.ErrBusy):
		return exitError // before Incomplete: nothing at all was shown
	case errors.As(err, &incomplete):
		return exitPartial
	}
	return exitError
}

// report says err on stderr, a line for each fault, and returns its exit code.
func (a *app) report(err error) int {
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
		a.say("%s", printable(l))
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
