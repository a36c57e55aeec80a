package nodecli

import (
	"testing"

	"edgespan/cmd/edgespan/clitest"
)

// program has the commands of this package.
var program = clitest.RootOf(Commands)

// cli runs a command line of them.
func cli(t *testing.T, env map[string]string, stdin string, args ...string) clitest.Said {
	t.Helper()
	return clitest.Run(t, program, env, stdin, args...)
}
