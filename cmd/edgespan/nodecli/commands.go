package nodecli

import (
	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/reach"
)

// commands is one run of a command that asks a node's daemon.
type commands struct{ *reach.App }

// Commands returns the commands that ask a node's daemon.
func Commands(with *reach.App) []*cobra.Command {
	a := commands{with}
	return []*cobra.Command{
		newApply(a), newPlan(a), newConfirm(a), newRollback(a), newRelease(a), newGet(a), newWait(a), newExplain(a),
		newEvents(a), newFlows(a), newDiff(a), newWatch(a), newPort(a), newACL(a), newLogLevel(a),
		newDoctor(a), newMetrics(a),
	}
}
