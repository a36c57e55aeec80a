package rest

import (
	"strings"

	"edgespan/config"
)

// Sentinels that a caller branches on; the command line has an exit code for each.
var (
	// ErrConflict says that someone else rules here: another daemon, or a controller.
	ErrConflict = config.Conflict.NewError("conflict")
	// ErrBusy says that the daemon can not take the request now and that trying again may help.
	ErrBusy = config.Busy.NewError("busy")
	// ErrNotFound says that no such object exists.
	ErrNotFound = config.NotFound.NewError("not found")
	// ErrPermission says that the caller may not do this.
	ErrPermission = config.Permission.NewError("permission denied")
	// ErrUnreachable says that no daemon answers on the socket (client only).
	ErrUnreachable = config.Unreachable.NewError("daemon not reachable")
	// ErrTimeout says that the daemon did not answer in time (client only).
	ErrTimeout = config.Timeout.NewError("timeout")
)

// Rejected is a config that validation refused: one line per fault, all of them.
type Rejected struct{ Faults []string }

// Error joins the faults with line ends.
func (r *Rejected) Error() string { return strings.Join(r.Faults, "\n") }

// Is says that it is rejected.
func (r *Rejected) Is(target error) bool { return target == config.Rejected }

// Incomplete is a list of which parts are missing, each named with its cause.
type Incomplete struct{ Missing []string }

// Error names the missing parts.
func (i *Incomplete) Error() string { return "incomplete answer: " + strings.Join(i.Missing, "; ") }

// Is says that it is partial.
func (i *Incomplete) Is(target error) bool { return target == config.Partial }
