package rest

import (
	"strings"

	"edgespan/config"
)

// Sentinel errors; the command line has an exit code for each.
var (
	// ErrConflict: another daemon, or a controller, manages this.
	ErrConflict = config.Conflict.NewError("conflict")
	// ErrBusy: the daemon can't handle the request now; trying again may help.
	ErrBusy = config.Busy.NewError("busy")
	// ErrNotFound: no such object exists.
	ErrNotFound = config.NotFound.NewError("not found")
	// ErrPermission: the caller may not do this.
	ErrPermission = config.Permission.NewError("permission denied")
	// ErrUnreachable: no daemon answers on the socket (client only).
	ErrUnreachable = config.Unreachable.NewError("daemon not reachable")
	// ErrTimeout: the daemon did not answer in time (client only).
	ErrTimeout = config.Timeout.NewError("timeout")
)

// Rejected is a config that failed validation, with one line for each fault.
type Rejected struct{ Faults []string }

// Error joins the faults with newlines.
func (r *Rejected) Error() string { return strings.Join(r.Faults, "\n") }

// Is matches config.Rejected.
func (r *Rejected) Is(target error) bool { return target == config.Rejected }

// Incomplete lists the missing parts of an answer, each with its cause.
type Incomplete struct{ Missing []string }

// Error lists the missing parts.
func (i *Incomplete) Error() string { return "incomplete answer: " + strings.Join(i.Missing, "; ") }

// Is matches config.Partial.
func (i *Incomplete) Is(target error) bool { return target == config.Partial }
