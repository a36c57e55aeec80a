package main

import (
	reachpkg "edgespan/cmd/edgespan/reach"
	"github.com/spf13/cobra"
)

// nodeProgram is one run of a command that asks a node's daemon.
type nodeProgram struct{ *reachpkg.App }

// nodeCommands are the commands that ask a node's daemon.
func nodeCommands(with *reachpkg.App) []*cobra.Command {
	a := nodeProgram{with}
	return []*cobra.Command{
		newApply(a), newPlan(a), newConfirm(a), newRollback(a), newRelease(a), newGet(a), newWait(a), newExplain(a), newEvents(a), newDiff(a), newWatch(a),
		newDoctor(a),
	}
}
