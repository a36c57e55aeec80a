package clitest

import (
	"slices"
	"strings"
)

type consoleExample struct{ Command, Output string }

// ConsoleExamples returns the commands of a page's console blocks, each with the text up to the next one.
func ConsoleExamples(text string) []consoleExample {
	var out []consoleExample
	inside := false
	for line := range strings.Lines(text) {
		command, ok := strings.CutPrefix(line, "$ ")
		switch {
		case strings.HasPrefix(line, "```"):
			inside = strings.TrimSpace(line) == "```console"
		case inside && ok:
			out = append(out, consoleExample{Command: strings.TrimSpace(command)})
		case inside && len(out) > 0:
			out[len(out)-1].Output += line
		}
	}
	return out
}

// MatchElided compares line by line; "..." in want matches any number of lines.
func MatchElided(got, want string) bool {
	var lines []string
	for line := range strings.Lines(got) {
		lines = append(lines, line)
	}
	parts := strings.Split("\n"+want, "\n...\n")
	for i, part := range parts {
		var desired []string
		for line := range strings.Lines(strings.TrimPrefix(part, "\n")) {
			desired = append(desired, strings.TrimSuffix(line, "\n")+"\n")
		}
		last := len(lines) - len(desired)
		at := 0
		if i > 0 { // after dots: anywhere, but the last part at the end
			if at = 0; i == len(parts)-1 {
				at = max(last, 0)
			}
		}
		for at < last && i > 0 && i < len(parts)-1 && !slices.Equal(lines[at:at+len(desired)], desired) {
			at++
		}
		if at > last || !slices.Equal(lines[at:at+len(desired)], desired) {
			return false
		}
		lines = lines[at+len(desired):]
	}
	return len(lines) == 0 || strings.HasSuffix(want, "...\n")
}

// ShellWords splits a command line at spaces outside of single quotes.
func ShellWords(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
			continue
		}
		out = append(out, strings.Fields(part)...)
	}
	return out
}
