package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"

	"github.com/spf13/cobra"
)

// Of two commands with one name cobra runs the one that was added first, and says nothing.
func TestNoTwoCommandsHaveOneName(t *testing.T) {
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		var names []string
		for _, sub := range c.Commands() {
			if slices.Contains(names, sub.Name()) {
				t.Errorf("%s: has two commands %s", c.CommandPath(), sub.Name())
			}
			names = append(names, sub.Name())
			look(sub)
		}
	}
	look(program(&reach.App{Streams: term.Streams{Env: func(string) string { return "" }}}))
}

// `rollback` is the node's, and goes on to be that of layers where it has a REVISION: it says which it was.
func TestTheOldRollbackOfLayersSaysWhatToType(t *testing.T) {
	f := clitest.SmallFleet()
	env := clitest.ServeFleet(t, f)
	const hint = "deprecated: use 'edgespan history rollback "
	for line, want := range map[string]struct {
		asks, says string
		old        bool
	}{
		"rollback 3": {`write ops.Restore{Revision:3 Layers:[]} message "" dry false if map[]`, hint + "3'", true},
		"rollback 3 network -m x --dry-run": {`write ops.Restore{Revision:3 Layers:[network]} message "x" dry true if map[]`,
			hint + "3 network'", true},
		"history rollback 3 network -m x": {`write ops.Restore{Revision:3 Layers:[network]} message "x" dry false if map[]`,
			"", false},
		"rollback x":        {"", "REVISION: invalid value", true},
		"rollback 3 -o xml": {"", "-o: invalid value", true},
		"rollback -m x": {"", "--message: not a flag of 'edgespan rollback': use 'edgespan history rollback'",
			false},
		"rollback --dry-run":           {"", "--dry-run: not a flag of", false},
		"rollback --controller http:x": {"", "--controller: not a flag of", false},
	} {
		got := cli(t, env, "", strings.Fields(line)...)
		if heard := strings.Join(f.TakeRequests(), "; "); heard != want.asks ||
			(got.Code == term.ExitUsage) != (heard == "") ||
			!strings.Contains(got.Err, want.says) || strings.Contains(got.Err, hint) != want.old {
			t.Errorf("edgespan %s: exit %d, asks %q\n%s%s", line, got.Code, heard, got.Out, got.Err)
		}
	}
	got := cli(t, env, "", "rollback", "--socket", filepath.Join(t.TempDir(), "none"))
	if len(f.TakeRequests()) > 0 || got.Code != term.ExitUnreachable {
		t.Errorf("without a REVISION it asks no daemon: exit %d: %s", got.Code, got.Err)
	}
	help := cli(t, env, "", "rollback", "--help").Out
	if !strings.Contains(help, "of a controller use edgespan history rollback") || strings.Contains(help, "--message") {
		t.Errorf("its help is\n%s", help)
	}
}

func TestVersion(t *testing.T) {
	if got := cli(t, nil, "", "version"); got != (clitest.Said{Code: 0, Out: "edgespan " + version + "\n", Err: ""}) {
		t.Errorf("%+v", got)
	}
}

// program is the root of the whole program.
func program(a *reach.App) *cobra.Command { return newRoot(a) }

// cli runs a command line of the whole program.
func cli(t *testing.T, env map[string]string, stdin string, args ...string) clitest.Said {
	t.Helper()
	return clitest.Run(t, program, env, stdin, args...)
}
