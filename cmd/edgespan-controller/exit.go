package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"edgespan/config"
	"edgespan/config/backup"
	"edgespan/config/edit"
	"edgespan/config/history"
	"edgespan/config/httpapi"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/operate"
	"edgespan/platform/confdir"
	"edgespan/platform/datadir"
	"edgespan/platform/store/bolt"
)

// The exit codes of every command.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitTimeout     = 3
	exitRejected    = 4
	exitConflict    = 5
	exitPermission  = 7
	exitUnreachable = 8
	exitNotFound    = 10
)

// usageError is a command line that says nothing we understand.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{fmt.Errorf(format, args...)} }

// missingError is a file that was named and is not there.
type missingError struct{ err error }

func (e *missingError) Error() string { return e.err.Error() }
func (e *missingError) Unwrap() error { return e.err }

// exitCode is the code of err.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, new(*usageError)):
		return exitUsage
	case errors.As(err, new(*httpapi.Rejected)), errors.As(err, new(config.Faults)), errors.As(err, new(edit.Faults)),
		errors.As(err, new(*operate.Refused)), errors.As(err, new(*confdir.Broken)):
		return exitRejected
	case errors.Is(err, httpapi.ErrConflict), errors.Is(err, datadir.ErrLocked), errors.Is(err, bolt.ErrLocked),
		errors.As(err, new(history.Conflicts)), errors.As(err, new(*foreignFleetError)), errors.Is(err, fleetapi.ErrRefused),
		errors.Is(err, backup.ErrRestoring), errors.As(err, new(*inUseError)):
		return exitConflict
	case errors.Is(err, httpapi.ErrUnreachable):
		return exitUnreachable
	case errors.Is(err, httpapi.ErrNotFound), errors.As(err, new(*operate.NotFoundError)), errors.As(err, new(*missingError)):
		return exitNotFound
	case errors.Is(err, httpapi.ErrPermission), errors.Is(err, os.ErrPermission):
		return exitPermission
	case errors.Is(err, httpapi.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	}
	return exitError
}

// report says err on stderr, a line for each fault, and returns its exit code.
func (a *app) report(err error) int {
	if err == nil {
		return exitOK
	}
	lines := strings.Split(err.Error(), "\n")
	var rejected *httpapi.Rejected
	if errors.As(err, &rejected) {
		lines = rejected.Faults
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
	}, strings.ToValidUTF8(s, "\ufffd"))
}
