package nodeconf

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fault is one thing wrong in a document: where, what, and what is allowed.
type Fault struct {
	Path    []string // from the root; empty for the document itself
	What    string   // "is a string"
	Allowed string   // "a boolean is allowed"; "" where nothing is
}

const (
	longestSegment = 256 // longer ones are shortened in messages; no valid key is (a host name has 253)
	shownValue     = 40  // characters of a value or an overlong key that a message shows
)

// Error is the fault in one line: "path.to.key: what: allowed".
func (f Fault) Error() string {
	path := slices.Clone(f.Path)
	for i, s := range path {
		if len(s) > longestSegment {
			path[i] = shorten(s)
		}
	}
	var parts []string
	for _, s := range []string{FormatPath(path), f.What, f.Allowed} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// Faults are all faults of one document, sorted by path.
type Faults []Fault

// Error is one line for each fault.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

func (fs *Faults) add(path []string, what, allowed string) {
	*fs = append(*fs, Fault{path, what, allowed})
}

func (fs Faults) sort() {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		if c := slices.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return strings.Compare(a.What, b.What)
	})
}

// FormatPath spells a path: segments joined by '.', one that has a '.', '"',
// '*', '=', a space or an unprintable character in it as a JSON string.
func FormatPath(path []string) string {
	out := make([]string, len(path))
	for i, s := range path {
		out[i] = s
		if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, needsQuotes) {
			out[i] = quoteSegment(s)
		}
	}
	return strings.Join(out, ".")
}

func needsQuotes(r rune) bool {
	return strings.ContainsRune(`."*=\ `, r) || !unicode.IsPrint(r)
}

// quoteSegment is a JSON string of s in which every unprintable character is
// escaped, so that it stays on one line of a terminal.
func quoteSegment(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff: // a surrogate pair, as JSON has no other way
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// shorten cuts s after shownValue characters.
func shorten(s string) string {
	n := 0
	for i := range s {
		if n == shownValue {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// quote shows a value in a message.
func quote(s string) string { return fmt.Sprintf("%q", shorten(s)) }

// is is the usual What of a value that is not allowed.
func is(s string) string { return "is " + quote(s) }

// sub is a path below path; it never shares memory with another.
func sub(path []string, more ...string) []string {
	return append(slices.Clip(slices.Clone(path)), more...)
}
