package clitest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// noImperative matches a summary whose first word is no imperative.
var noImperative = regexp.MustCompile(`^(The|A|An|What|Which|Who|Where|How|All|Another|[a-z])\b`)

// CheckHelp fails if a command's summary is not an imperative on one line, or if an example in its help names a
// command, a flag or arguments that do not exist. It parses each example with a new tree of commands, and runs none.
func CheckHelp(t *testing.T, tree func() *cobra.Command) {
	t.Helper()
	for _, c := range allCommands(tree()) {
		if s := c.Short; s == "" || noImperative.MatchString(s) || strings.ContainsAny(s, "\n") || strings.HasSuffix(s, ".") {
			t.Errorf("%s: the summary %q: must be an imperative on one line", c.CommandPath(), s)
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(c.Example, "\\\n", ""), "\n") {
			for _, words := range typedCommands(line) {
				root := tree()
				if len(words) == 0 || words[0] != root.Name() {
					continue
				}
				found, rest, err := root.Find(words[1:])
				if err == nil {
					err = found.ParseFlags(rest)
				}
				if err == nil {
					err = found.ValidateArgs(found.Flags().Args())
				}
				if err != nil {
					t.Errorf("help of %s: %s: %v", c.CommandPath(), strings.Join(words, " "), err)
				}
			}
		}
	}
}

func allCommands(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			all = append(all, allCommands(sub)...)
		}
	}
	return all
}

// typedCommands splits a line like a shell, at quotes, pipes, && and a comment, and returns the words of each command.
// It leaves out redirections with < and >.
func typedCommands(line string) [][]string {
	var all [][]string
	var words []string
	skip := false
	for _, w := range regexp.MustCompile(`'[^']*'|"[^"]*"|[^\s'"]+(?:'[^']*'|"[^"]*")?\S*`).FindAllString(line, -1) {
		switch {
		case w == "&&" || w == "|":
			all, words = append(all, words), nil
		case strings.HasPrefix(w, "#"):
			return append(all, words)
		case strings.HasPrefix(w, "<") || strings.HasPrefix(w, ">"):
			skip = len(w) == 1
		case skip:
			skip = false
		default:
			words = append(words, strings.Trim(w, `'"`))
		}
	}
	if words != nil {
		all = append(all, words)
	}
	return all
}
