package clitest

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestFaultsOfSummariesAreFound(t *testing.T) {
	t.Parallel()
	for summary, want := range map[string]string{
		"List the nodes":         "",
		"":                       "must begin with",
		"The nodes of the fleet": "must begin with",
		"list the nodes":         "must begin with",
		"Lists the nodes":        "must begin with",
		"List the nodes.":        "full stop",
		"List\nthe nodes":        "must begin with",
		"List the\nnodes":        "one line",
		"List " + strings.Repeat("ä", maxSummary): "at most 70",
	} {
		if got := summaryFault(summary); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", summary, got, want)
		}
	}
}

func TestACommandIsShownByAnExampleOfItself(t *testing.T) {
	t.Parallel()
	root := &cobra.Command{Use: "edgespan"}
	list := &cobra.Command{Use: "list", Short: "List", Run: func(*cobra.Command, []string) {}}
	other := &cobra.Command{Use: "other", Short: "Show", Run: func(*cobra.Command, []string) {}}
	root.AddCommand(list, other)
	for example, want := range map[string]bool{
		"": false, "  edgespan list": true, "  edgespan other": false, "  list": false,
		"  cat x | edgespan list # all": true, "  edgespan list \\\n    -o json": true,
	} {
		if list.Example = example; shown(list, root) != want {
			t.Errorf("%q: %v", example, !want)
		}
	}
}
