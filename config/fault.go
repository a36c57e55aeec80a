package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fault is one problem of a document: its path, the problem, and the expected value.
type Fault struct {
	Path        []string // from the root; empty for the document itself
	Problem     string   // "invalid type string"
	Expectation string   // "must be a boolean"; "" if the problem implies it
}

const (
	longestSegment = 256 // longer ones are shortened in messages; no valid key is (a host name has 253)
	shownValue     = 40  // characters of a value or an overlong key that a message shows
)

// Error returns the fault in one line: "path.to.key: problem: expectation".
func (f Fault) Error() string {
	path := slices.Clone(f.Path)
	for i, s := range path {
		if len(s) > longestSegment {
			path[i] = Shorten(s)
		}
	}
	var parts []string
	for _, s := range []string{FormatPath(path), f.Problem, f.Expectation} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// Faults holds all faults of one document, sorted by path.
type Faults []Fault

// Error returns one line per fault; Lines limits the faults of one kind.
func (fs Faults) Error() string { return strings.Join(fs.Lines(), "\n") }

// Is reports that faults are errors of the class Rejected.
func (fs Faults) Is(target error) bool { return target == Rejected }

// Add appends a fault.
func (fs *Faults) Add(path []string, problem, expectation string) {
	*fs = append(*fs, Fault{path, problem, expectation})
}

// Sort sorts the faults by path, then by problem.
func (fs Faults) Sort() {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		if c := slices.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return strings.Compare(a.Problem, b.Problem)
	})
}

// FormatPath returns a path as text: its segments joined by '.'. A segment that contains a '.', '"', '*', '=', a space
// or an unprintable character is written as a JSON string.
func FormatPath(path []string) string {
	out := make([]string, len(path))
	for i, s := range path {
		out[i] = s
		if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, needsQuotes) {
			out[i] = Printable(s)
		}
	}
	return strings.Join(out, ".")
}

// ParsePath parses the output of FormatPath. It refuses text that is not UTF-8, since no document contains such a key.
func ParsePath(s string) ([]string, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("path %s: invalid UTF-8", Printable(s))
	}
	var path []string
	for {
		segment, rest := s, ""
		if strings.HasPrefix(s, `"`) {
			quoted, err := jsonPrefix(s)
			if err != nil {
				return nil, fmt.Errorf("path %s: %w", s, err)
			}
			if err := json.Unmarshal([]byte(quoted), &segment); err != nil {
				return nil, fmt.Errorf("path %s: %w", s, err)
			}
			rest = s[len(quoted):]
		} else if i := strings.IndexByte(s, '.'); i >= 0 {
			segment, rest = s[:i], s[i:]
		}
		if segment == "" && !strings.HasPrefix(s, `"`) {
			return nil, errors.New("empty segment in a path: keys are joined by '.', one with a '.' in it is quoted in \"\"")
		}
		path = append(path, segment)
		if rest == "" {
			return path, nil
		}
		if rest[0] != '.' {
			return nil, fmt.Errorf("path %s: a '.' must follow a segment in \"\"", s)
		}
		s = rest[1:]
	}
}

// jsonPrefix returns the JSON string at the start of s.
func jsonPrefix(s string) (string, error) {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[:i+1], nil
		}
	}
	return "", errors.New(`closing '"' required`)
}

func needsQuotes(r rune) bool {
	return strings.ContainsRune(`."*=\ `, r) || !unicode.IsPrint(r)
}

// Printable returns s as a JSON string with every unprintable character escaped, so that a terminal shows it on one
// line.
func Printable(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff: // a surrogate pair: JSON has no other escape for it
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// OrList joins words as "a, b or c".
func OrList(vs []string) string {
	if len(vs) < 2 {
		return strings.Join(vs, "")
	}
	return strings.Join(vs[:len(vs)-1], ", ") + " or " + vs[len(vs)-1]
}

// Shorten cuts s after shownValue characters.
func Shorten(s string) string {
	n := 0
	for i := range s {
		if n == shownValue {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// Truncate shortens s to at most limit bytes and appends an ellipsis if it removed anything.
func Truncate(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

// maxArgument limits the bytes of one text in a message.
const maxArgument = 8 << 10

// Sprintf is fmt.Sprintf with long texts cut: a caller may send megabytes, and messages escape them.
func Sprintf(format string, args ...any) string {
	for i, a := range args {
		if s, ok := a.(string); ok && len(s) > maxArgument {
			args = slices.Clone(args)
			args[i] = Truncate(s, maxArgument)
		}
	}
	return fmt.Sprintf(format, args...)
}

// Quote quotes and shortens a value for a message.
func Quote(s string) string { return fmt.Sprintf("%q", Shorten(s)) }

// Below returns a new path below path; the result never shares memory with another path.
func Below(path []string, more ...string) []string {
	return slices.Concat(path, more)
}
