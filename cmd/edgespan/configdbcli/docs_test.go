package configdbcli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/clitest"
	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"

	"github.com/spf13/cobra"
)

const factsPage = "../../../docs/configdb.md"

// TestEveryExampleOfTheFactsPage runs the console blocks of the chapter "Command line" of docs/configdb.md, from the
// first to the last; stdout comes before stderr, and < FILE is stdin.
func TestEveryExampleOfTheFactsPage(t *testing.T) {
	text, err := os.ReadFile(factsPage)
	if err != nil {
		t.Fatal(err)
	}
	_, chapter, found := strings.Cut(string(text), "\n## Command line\n")
	chapter, _, _ = strings.Cut(chapter, "\n## ")
	if !found {
		t.Fatalf("%s has no chapter Command line", factsPage)
	}
	env := clitest.ServeFacts(t)
	files := t.TempDir()
	var ran []string
	for _, e := range clitest.ConsoleExamples(chapter) {
		line, file, piped := strings.Cut(e.Command, " < ")
		words := clitest.ShellWords(line)
		if words[0] == "cat" {
			if err := os.WriteFile(filepath.Join(files, words[1]), []byte(e.Output), 0o600); err != nil {
				t.Fatal(err)
			}
			continue
		}
		var stdin []byte
		if piped {
			if stdin, err = os.ReadFile(filepath.Join(files, file)); err != nil {
				t.Fatal(err)
			}
		}
		cmd, _, err := program(&reach.App{Streams: term.Streams{Env: os.Getenv}}).Find(words[1:])
		if err != nil {
			t.Errorf("%s: %v", e.Command, err)
			continue
		}
		ran = append(ran, strings.Replace(cmd.CommandPath(), "edgespan config ", "edgespan ", 1))
		if got := cli(t, env, string(stdin), words[1:]...); !clitest.MatchElided(got.Out+got.Err, e.Output) {
			t.Errorf("$ %s\nexit %d and\n%s%swant\n%s", e.Command, got.Code, got.Out, got.Err, e.Output)
		}
	}
	// Those of a tree of files need one, and a watch has no end.
	elsewhere := []string{"edgespan watch", "edgespan import hiera", "edgespan export hiera", "edgespan verify hiera",
		"edgespan verify"}
	root := program(&reach.App{Streams: term.Streams{Env: os.Getenv}})
	config, _, err := root.Find([]string{"config"})
	if err != nil {
		t.Fatal(err)
	}
	var look func(*cobra.Command)
	look = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			look(sub)
		}
		path := strings.Replace(c.CommandPath(), "edgespan config ", "edgespan ", 1)
		if !c.HasSubCommands() && !slices.Contains(ran, path) && !slices.Contains(elsewhere, path) {
			t.Errorf("%s has no example of %s", factsPage, c.CommandPath())
		}
	}
	look(config)
}
