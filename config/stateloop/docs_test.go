package stateloop

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestThePageHasTheTable compares docs/state-loop.md with the table: each row of the wanted
// generation, in its order, and no other; and what else of the page the code decides.
func TestThePageHasTheTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/state-loop.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	var want strings.Builder
	want.WriteString("| desired | reported | state | review | reason | by |\n|---|---|---|---|---|---|\n")
	for _, r := range table.Rows {
		reason := "the node's message"
		switch {
		case r.Generation == other:
			continue // one sentence says it of all, and a test of the table that it is so
		case r.Stale:
			reason = StaleReport + "…"
		case r.Reported == none:
			reason = ""
		}
		fmt.Fprintf(&want, "| %s | %s | %s | %s | %s | %s |\n", r.Desired, r.Reported, r.State, r.Review, reason, r.Note)
	}
	if !strings.Contains(page, "\n\n"+want.String()+"\n") {
		t.Errorf("docs/state-loop.md has not this table:\n%s", want.String())
	}
	for s, class := range table.Classes {
		found := false
		for line := range strings.Lines(page) {
			cells := strings.Split(line, "|")
			found = found || len(cells) == 5 && strings.Contains(cells[1], string(s)) &&
				strings.TrimSpace(cells[2]) == string(class)
		}
		if !found {
			t.Errorf("docs/state-loop.md does not say that %s is %s", s, class)
		}
	}
	words := make([]string, len(reportableStates))
	for i, s := range reportableStates {
		words[i] = string(s)
	}
	if request := "by state in the order " +
		strings.Join(words, ", "); !strings.Contains(strings.Join(strings.Fields(page), " "), request) {
		t.Errorf("docs/state-loop.md does not say %q", request)
	}
	for _, h := range []Health{Red, Unknown, Yellow, Green} {
		if !strings.Contains(page, "\n| "+string(h)+" | ") {
			t.Errorf("docs/state-loop.md does not say when a peer is %s", h)
		}
	}
}
