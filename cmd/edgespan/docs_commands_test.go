package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"edgespan/cmd/edgespan/reach"
	"edgespan/cmd/term"
)

// commandSpan is a command line of this program in the prose or a table of a page.
var commandSpan = regexp.MustCompile("`edgespan ([a-z][^`]*)`")

// faultOf says what is wrong with the words of a command line: no such command or flag and, where it is told in full,
// the number of arguments.
func faultOf(words []string, full bool) error {
	root := program(&reach.App{Streams: term.Streams{Env: os.Getenv}})
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(words)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	args := cmd.Flags().Args()
	switch {
	case err != nil:
		return err
	case cmd.HasSubCommands() && len(args) > 0:
		return term.Usagef("%s: is no command", strings.Join(words, " "))
	case full && cmd.Args != nil:
		return cmd.Args(cmd, args)
	}
	return nil
}

// TestEveryCommandThatAPageNamesExists looks up each `edgespan …` of the pages. Those of docs/troubleshooting.md are
// to
// be
// typed, so their arguments count too.
func TestEveryCommandThatAPageNamesExists(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	typed := 0
	for _, page := range append(pages, "../../README.md", "../../CONTRIBUTING.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		full := filepath.Base(page) == "troubleshooting.md"
		for _, m := range commandSpan.FindAllStringSubmatch(string(text), -1) {
			line, _, _ := strings.Cut(m[1], " #")
			if err := faultOf(strings.Fields(line), full); err != nil {
				t.Errorf("%s: edgespan %s: %v", page, line, err)
			}
			if full {
				typed++
			}
		}
	}
	if typed < 40 {
		t.Errorf("docs/troubleshooting.md names %d commands", typed)
	}
	for _, wrong := range []string{"nodes frob", "get ni --frob", "nodes describe"} {
		if faultOf(strings.Fields(wrong), true) == nil {
			t.Errorf("edgespan %s is taken", wrong)
		}
	}
}
