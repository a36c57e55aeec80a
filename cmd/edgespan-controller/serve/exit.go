package serve

import (
	"errors"

	"github.com/spf13/cobra"

	"edgespan/cmd/term"
	"edgespan/config/fleet/backup"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/datadir"
	"edgespan/platform/store/bolt"
)

// classed is err with the exit class of those errors that only a controller meets: it has the
// store and the data folder in its own hands.
func classed(err error) error {
	switch {
	case errors.As(err, new(*ops.Refused)):
		return term.WithClass(term.ExitRejected, err)
	case errors.Is(err, datadir.ErrLocked), errors.Is(err, bolt.ErrLocked), errors.As(err, new(history.Conflicts)),
		errors.Is(err, fleetapi.ErrRefused), errors.Is(err, backup.ErrRestoring):
		return term.WithClass(term.ExitConflict, err)
	case errors.As(err, new(*ops.NotFoundError)):
		return term.WithClass(term.ExitNotFound, err)
	}
	return err
}

// classAll has the errors of a command, and of all below it, say their class.
func classAll(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return classed(run(cmd, args)) }
	}
	for _, c := range cmd.Commands() {
		classAll(c)
	}
}
