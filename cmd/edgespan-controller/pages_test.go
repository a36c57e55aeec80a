package main

import (
	"os"
	"strings"
	"testing"

	"edgespan/cmd/edgespan-controller/serve"
	"edgespan/cmd/term"
)

// TestCommandsOfThePages holds the command lines of this program on the pages for operators
// against the commands and flags that there are.
func TestCommandsOfThePages(t *testing.T) {
	known := map[string]int{}
	for _, page := range []string{"../../docs/high-availability.md", "../../docs/operations.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", "")) {
			words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "$ "))
			if len(words) == 0 || words[0] != "edgespan-controller" {
				continue
			}
			for i, w := range words {
				if w == "#" {
					words = words[:i]
					break
				}
			}
			root := newRoot(serve.New(term.Streams{Env: func(string) string { return "" }}, ""))
			cmd, rest, err := root.Find(words[1:])
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err == nil && cmd.Args != nil {
				err = cmd.Args(cmd, cmd.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s: %s: %v", page, strings.Join(words, " "), err)
			}
			known[cmd.Name()]++
		}
	}
	if known["restore"] < 2 || known["edgespan-controller"] < 3 {
		t.Errorf("the pages have %v", known)
	}
}
