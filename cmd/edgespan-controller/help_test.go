package main

import (
	"testing"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan-controller/serve"
	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/term"
)

// TestTheHelpOfEachCommand holds summaries to the imperative and parses each example.
func TestTheHelpOfEachCommand(t *testing.T) {
	t.Parallel()
	clitest.CheckHelp(t, func() *cobra.Command {
		return newRoot(serve.New(term.Streams{Env: func(string) string { return "" }}, version))
	})
}
