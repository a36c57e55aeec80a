package main

import (
	"testing"

	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
)

// TestTheHelpOfEachCommand holds summaries to the imperative and parses each example.
func TestTheHelpOfEachCommand(t *testing.T) {
	t.Parallel()
	clitest.CheckHelp(t, func() *cobra.Command {
		return newRoot(&reach.App{Streams: term.Streams{Env: func(string) string { return "" }}})
	})
}
