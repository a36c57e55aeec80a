package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryExampleOfTheLayersPage runs the console blocks of docs/layers.md from the first
// to the last in a copy of the real files. "$ cat FILE" makes the file that it shows;
// after another command stand its messages and what it prints; "..." is any lines.
func TestEveryExampleOfTheLayersPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/layers.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../config/testdata/terragraph")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	commands := map[string]bool{}
	for _, e := range consoleExamples(string(text)) {
		words := strings.Fields(e.command)
		switch {
		case words[0] == "cat" && len(words) == 2:
			if err := os.WriteFile(filepath.Base(words[1]), []byte(e.output), 0o600); err != nil {
				t.Fatal(err)
			}
		case words[0] == "edgespan" && len(words) > 2:
			commands[words[2]] = true
			got := cli(t, nil, "", words[1:]...)
			if !sameButDots(got.err+got.out, e.output) {
				t.Errorf("%s\nexit %d and\n%s%swant\n%s", e.command, got.code, got.err, got.out, e.output)
			}
		default:
			t.Errorf("%s: edgespan and cat are allowed", e.command)
		}
	}
	for _, c := range []string{"effective", "md5", "versions", "explain", "optimize", "set", "modify", "unset", "print-flags", "migrate", "lint"} {
		if !commands[c] {
			t.Errorf("docs/layers.md has no example of %s", c)
		}
	}
}

type consoleExample struct{ command, output string }

// consoleExamples are the commands of a document's console blocks, each with what stands
// between it and the next.
func consoleExamples(text string) []consoleExample {
	var out []consoleExample
	inside := false
	for line := range strings.Lines(text) {
		command, is := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = strings.TrimSpace(line) == "```console"
		case inside && is:
			out = append(out, consoleExample{command: strings.TrimSpace(command)})
		case inside && len(out) > 0:
			out[len(out)-1].output += line
		}
	}
	return out
}

// sameButDots compares line by line; "..." in want is any number of lines.
func sameButDots(got, want string) bool {
	var lines []string
	for line := range strings.Lines(got) {
		lines = append(lines, line)
	}
	parts := strings.Split("\n"+want, "\n...\n")
	for i, part := range parts {
		var wanted []string
		for line := range strings.Lines(strings.TrimPrefix(part, "\n")) {
			wanted = append(wanted, strings.TrimSuffix(line, "\n")+"\n")
		}
		last := len(lines) - len(wanted)
		at := 0
		if i > 0 { // behind dots: anywhere, the last part at the end
			if at = 0; i == len(parts)-1 {
				at = max(last, 0)
			}
		}
		for at < last && i > 0 && i < len(parts)-1 && !slices.Equal(lines[at:at+len(wanted)], wanted) {
			at++
		}
		if at > last || !slices.Equal(lines[at:at+len(wanted)], wanted) {
			return false
		}
		lines = lines[at+len(wanted):]
	}
	return len(lines) == 0 || strings.HasSuffix(want, "...\n")
}

func TestDotsStandForAnyLines(t *testing.T) {
	for _, c := range []struct {
		got, want string
		same      bool
	}{
		{"a\nb\n", "a\nb\n", true},
		{"a\nb\n", "a\n", false},
		{"a\n", "a\nb\n", false},
		{"a\nb\nc\nd\n", "a\n...\nd\n", true},
		{"a\nb\nc\nd\n", "a\n...\nc\n", false},
		{"a\nb\nc\nd\n", "...\nc\n...\n", true},
		{"a\nb\nc\nd\n", "...\nx\n...\n", false},
		{"a\nb\n", "a\n...\n", true},
		{"", "", true},
	} {
		if got := sameButDots(c.got, c.want); got != c.same {
			t.Errorf("%q is %q: %v", c.got, c.want, got)
		}
	}
}
