package daemon

import (
	"testing"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/edgespan/reach"
)

// cli runs a command line of this package's commands.
func cli(t *testing.T, env map[string]string, stdin string, args ...string) clitest.Said {
	t.Helper()
	root := clitest.RootOf(func(a *reach.App) []*cobra.Command { return []*cobra.Command{New(a, "v1.2.3"), NewJoin(a)} })
	return clitest.Run(t, root, env, stdin, args...)
}
