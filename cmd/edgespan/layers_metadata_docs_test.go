package main

import (
	"os"
	"strings"
	"testing"
)

// TestEveryExampleOfTheMetadataPage runs the console blocks of docs/metadata.md from the
// first to the last: "$ cat FILE" makes the file that it shows, after another command
// stand its messages and what it prints.
func TestEveryExampleOfTheMetadataPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/metadata.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	ran := map[string]bool{}
	for i, block := range strings.Split(string(text), "```") {
		block, is := strings.CutPrefix(block, "console\n$ ")
		if i%2 == 0 || !is {
			continue
		}
		for _, example := range strings.Split(block, "\n$ ") {
			line, output, _ := strings.Cut(strings.TrimSuffix(example, "\n")+"\n", "\n")
			argv := strings.Fields(line)
			if argv[0] == "cat" {
				if err := os.WriteFile(argv[1], []byte(output), 0o600); err != nil {
					t.Fatal(err)
				}
				continue
			}
			ran[argv[2]] = true
			if got := cli(t, nil, "", argv[1:]...); got.err+got.out != output {
				t.Errorf("%s\nexit %d and\n%s%swant\n%s", line, got.code, got.err, got.out, output)
			}
		}
	}
	if !ran["metadata"] || !ran["validate"] || !ran["actions"] {
		t.Errorf("examples of %v only", ran)
	}
}
