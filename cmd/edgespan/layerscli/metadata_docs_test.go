package layerscli

import (
	"os"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
)

// TestEveryExampleOfTheMetadataPage runs the console blocks of docs/metadata.md from the
// first to the last: "$ cat FILE" makes the file that it shows, after another command
// stand its messages and what it prints.
func TestEveryExampleOfTheMetadataPage(t *testing.T) {
	text, err := os.ReadFile("../../../docs/metadata.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	ran := map[string]bool{}
	for _, e := range clitest.ConsoleExamples(string(text)) {
		argv := strings.Fields(e.Command)
		if argv[0] == "cat" {
			if err := os.WriteFile(argv[1], []byte(e.Output), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		ran[argv[2]] = true
		if got := cli(t, nil, "", argv[1:]...); got.Err+got.Out != e.Output {
			t.Errorf("%s\nexit %d and\n%s%swant\n%s", e.Command, got.Code, got.Err, got.Out, e.Output)
		}
	}
	if !ran["metadata"] || !ran["validate"] || !ran["actions"] {
		t.Errorf("examples of %v only", ran)
	}
}
