package layerscli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/config"
	"edgespan/config/layers/schema"
)

const addingPage = "../../../docs/adding-configuration.md"

// TestEveryExampleOfAddingConfiguration runs the console blocks of the page from the first
// to the last in one folder: "$ cat FILE" makes the file that it shows.
func TestEveryExampleOfAddingConfiguration(t *testing.T) {
	text, err := os.ReadFile(addingPage)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	commands := map[string]bool{}
	for _, e := range clitest.ConsoleExamples(string(text)) {
		words := strings.Fields(e.Command)
		if words[0] == "cat" {
			if err := os.MkdirAll(filepath.Dir(words[1]), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(words[1], []byte(e.Output), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		commands[words[2]] = true
		if got := cli(t, nil, "", words[1:]...); got.Err+got.Out != e.Output {
			t.Errorf("%s\nexit %d and\n%s%swant\n%s", e.Command, got.Code, got.Err, got.Out, e.Output)
		}
	}
	for _, c := range []string{"lint", "effective", "validate", "print-flags", "actions", "migrate"} {
		if !commands[c] {
			t.Errorf("%s has no example of %s", addingPage, c)
		}
	}
}

// Each property of ours in the page's table is one that the named field of our schema has.
func TestThePropertiesOfThePageAreThoseOfTheSchema(t *testing.T) {
	text, err := os.ReadFile(addingPage)
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-zA-Z.]+)` \\|.*\\| (?:`(.*)` )?\\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) != 11 {
		t.Errorf("%d properties, want 11", len(rows))
	}
	for _, row := range rows {
		if row[2] == "" && row[1] == "unsupported" { // none of our fields is one yet
			continue
		}
		entry := described(schema.NodeMetadata(), strings.Split(row[2], "."))
		if _, has := config.Lookup(entry, strings.Split(row[1], ".")); !has {
			t.Errorf("%s has no %s", row[2], row[1])
		}
	}
}

// described is what metadata says of a path, with * for a free key.
func described(doc config.Object, path []string) config.Object {
	for _, key := range path {
		if v, ok := config.Lookup(doc, []string{"objVal", "properties"}); ok {
			doc, _ = v.(config.Object)
		}
		if key == "*" {
			key = "mapVal"
		}
		doc, _ = doc[key].(config.Object)
	}
	return doc
}
