package main

import (
	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/reach"
)

// nodeProgram is one run of a command that asks a node's daemon.
type nodeProgram struct{ *reach.App }

// nodeCommands are the commands that ask a node's daemon.
func nodeCommands(with *reach.App) []*cobra.Command {
	a := nodeProgram{with}
	return []*cobra.Command{
		newApply(a), newPlan(a), newConfirm(a), newRollback(a), newRelease(a), newGet(a), newWait(a), newExplain(a), newEvents(a), newDiff(a), newWatch(a),
		newDoctor(a),
	}
}
