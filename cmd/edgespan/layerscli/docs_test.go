package layerscli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
)

// TestEveryExampleOfTheLayersPage runs the console blocks of docs/layers.md from the first
// to the last in a copy of the real files. "$ cat FILE" makes the file that it shows;
// after another command stand its messages and what it prints; "..." is any lines.
func TestEveryExampleOfTheLayersPage(t *testing.T) {
	text, err := os.ReadFile("../../../docs/layers.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../../config/testdata/terragraph")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	commands := map[string]bool{}
	for _, e := range clitest.ConsoleExamples(string(text)) {
		words := strings.Fields(e.Command)
		switch {
		case words[0] == "cat" && len(words) == 2:
			if err := os.WriteFile(filepath.Base(words[1]), []byte(e.Output), 0o600); err != nil {
				t.Fatal(err)
			}
		case words[0] == "edgespan" && len(words) > 2:
			commands[words[2]] = true
			got := cli(t, nil, "", words[1:]...)
			if !clitest.MatchElided(got.Err+got.Out, e.Output) {
				t.Errorf("%s\nexit %d and\n%s%swant\n%s", e.Command, got.Code, got.Err, got.Out, e.Output)
			}
		default:
			t.Errorf("%s: edgespan and cat are allowed", e.Command)
		}
	}
	for _, c := range []string{"effective", "md5", "versions", "explain", "optimize", "set", "modify", "unset",
		"print-flags", "migrate", "lint"} {
		if !commands[c] {
			t.Errorf("docs/layers.md has no example of %s", c)
		}
	}
}
