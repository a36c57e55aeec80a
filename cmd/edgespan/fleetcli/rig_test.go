package fleetcli

import (
	"testing"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
)

// program has the commands of this package, those below `node` too.
var program = clitest.RootOf(Commands, func(a *reach.App) []*cobra.Command {
	node := term.Group("node", "")
	node.AddCommand(NodeCommands(a)...)
	return []*cobra.Command{node}
})

// cli runs a command line of them.
func cli(t *testing.T, env map[string]string, stdin string, args ...string) clitest.Said {
	t.Helper()
	return clitest.Run(t, program, env, stdin, args...)
}
