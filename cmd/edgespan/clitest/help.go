package clitest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// maxSummary is the longest summary that a list of commands shows on one line.
const maxSummary = 70

// verbs are the words that a summary can begin with.
const verbs = `Abort Accept Add Adopt Apply Ask Assign Back Build Change Check Compare Compute Confirm Count Create ` +
	`Delete Deploy Derive Drain End Explain Export Import Issue Join List Make Manage Merge Migrate Override Pause Plan ` +
	`Print Push Read Register Reject Remove Rename Replace Restore Resume Revert Revoke Roll Rotate Run Set Show ` +
	`Trust Undeploy Upload Validate Wait Watch Write`

// CheckHelp fails if a command's summary is not a short imperative, if a command without subcommands has no example of
// itself, or if an example in its help names a command, a flag or arguments that do not exist. It parses each example
// with a new tree of commands, and runs none.
func CheckHelp(t *testing.T, tree func() *cobra.Command) {
	t.Helper()
	for _, c := range allCommands(tree()) {
		if fault := summaryFault(c.Short); fault != "" {
			t.Errorf("%s: the summary %q: %s", c.CommandPath(), c.Short, fault)
		}
		if !c.HasAvailableSubCommands() && !shown(c, tree()) {
			t.Errorf("%s: no example of it in its help", c.CommandPath())
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

// summaryFault says what is wrong with the summary of a command; "" is nothing.
func summaryFault(s string) string {
	word, _, _ := strings.Cut(s, " ")
	switch {
	case !slices.Contains(strings.Fields(verbs), strings.TrimSuffix(word, ",")):
		return "must begin with one of " + verbs
	case strings.Contains(s, "\n") || strings.HasSuffix(s, "."):
		return "must be one line without a full stop"
	case utf8.RuneCountInString(s) > maxSummary:
		return fmt.Sprintf("must have at most %d characters", maxSummary)
	}
	return ""
}

// shown says whether one of the examples in a command's help is the command itself, by any of its names.
func shown(c, root *cobra.Command) bool {
	for line := range strings.SplitSeq(strings.ReplaceAll(c.Example, "\\\n", ""), "\n") {
		for _, words := range typedCommands(line) {
			if len(words) == 0 || words[0] != root.Name() {
				continue
			}
			if found, _, err := root.Find(words[1:]); err == nil && found.Short == c.Short && found.Name() == c.Name() {
				return true
			}
		}
	}
	return false
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
