package rest

import (
	"errors"
	"strings"
)

// Sentinels that a caller branches on; the command line has an exit code for each.
var (
	// ErrConflict says that someone else rules here: another daemon, or a controller.
	ErrConflict = errors.New("conflict")
	// ErrBusy says that the daemon can not take the request now and that trying again may help.
	ErrBusy = errors.New("busy")
	// ErrNotFound says that no such object exists.
	ErrNotFound = errors.New("not found")
	// ErrPermission says that the caller may not do this.
	ErrPermission = errors.New("permission denied")
	// ErrUnreachable says that no daemon answers on the socket (client only).
	ErrUnreachable = errors.New("daemon not reachable")
	// ErrTimeout says that the daemon did not answer in time (client only).
	ErrTimeout = errors.New("timeout")
)

// Rejected is a config that validation refused: one line per fault, all of them.
type Rejected struct{ Faults []string }

// Error joins the faults with line ends.
func (r *Rejected) Error() string { return strings.Join(r.Faults, "\n") }

// Incomplete is a list of which parts are missing, each named with its cause.
type Incomplete struct{ Missing []string }

// Error names the missing parts.
func (i *Incomplete) Error() string { return "incomplete answer: " + strings.Join(i.Missing, "; ") }
