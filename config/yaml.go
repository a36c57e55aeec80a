package config

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxWords limits the cost of a YAML document before it is parsed: a word becomes at most three nodes of some 200
// bytes. A network of ten fields has about 20 words, an app with two rules about 50.
const maxWords = 1 << 20

// maxPercents limits the lines that look like a directive: the library takes quadratic time for them.
const maxPercents = 100

// errYAMLDeep matches the library's own error for documents deeper than 10,000 levels.
var errYAMLDeep = errors.New("exceeded max depth")

// YAML holds the first document of a stream as nodes with their lines and columns. Anchors, tags and merge keys are not
// resolved: the reader of the nodes resolves or refuses them.
type YAML struct {
	Root      *yaml.Node // nil: the stream has no document
	Directive int        // line of a directive before the document, 0 for none; directives are ignored
	Next      int        // line where another document begins, 0 for none
	bare      map[place]bool
}

// place is a line and a column, counted from 1.
type place struct{ line, column int }

// YAMLError is an error in a YAML document, with its position.
type YAMLError struct {
	Line, Column int // 0: unknown
	What         string
	Deep         bool // nested too deep
}

// Error returns the text with the position in front.
func (e *YAMLError) Error() string {
	switch {
	case e.Line == 0:
		return e.What
	case e.Column == 0:
		return fmt.Sprintf("line %d: %s", e.Line, e.What)
	}
	return fmt.Sprintf("line %d column %d: %s", e.Line, e.Column, e.What)
}

// ReadYAML reads the first document of a stream of YAML 1.2 in UTF-8 and ignores all later ones.
func ReadYAML(text string) (y YAML, err error) {
	text, y.Directive, y.Next = firstDocument(text)
	switch words, percents := countWords(text); {
	case words > maxWords:
		return y, &YAMLError{What: fmt.Sprintf("it has more than %d words; JSON can be longer", maxWords)}
	case percents > maxPercents:
		return y, &YAMLError{What: fmt.Sprintf("it has more than %d lines that begin with %%", maxPercents)}
	}
	y.Root, err = decodeYAML(strings.NewReader(text))
	if err != nil {
		return y, yamlError(text, err)
	}
	y.bare = findBareTags(text)
	if r := y.Root; r != nil && r.Kind == yaml.ScalarNode && r.Value == "" && r.Anchor == "" && IsPlain(r) &&
		y.Tag(r) == "" {
		y.Root = nil // only markers
	}
	return y, nil
}

// decodeYAML reads one document; root is nil if there is none.
func decodeYAML(r io.Reader) (root *yaml.Node, err error) {
	defer func() { // the library may panic on input it can't handle: report that as a bad document
		if recover() != nil {
			root, err = nil, errors.New("it can't be split into words")
		}
	}()
	dec := yaml.NewDecoder(r)
	var document, other yaml.Node
	switch err := dec.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	switch err := dec.Decode(&other); { // the decoder stops where a document is complete
	case err == nil:
		return nil, errors.New("something follows the document")
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	return document.Content[0], nil
}

// Tag returns the tag of a node, or "".
func (y *YAML) Tag(n *yaml.Node) string {
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		return n.ShortTag()
	case y.bare[place{n.Line, n.Column}]:
		return "!"
	}
	return ""
}

// IsPlain reports whether a scalar is unquoted and not a block.
func IsPlain(n *yaml.Node) bool {
	return n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
}

// bareTag matches a tag that is only "!", with an optional anchor before it.
var bareTag = regexp.MustCompile(`(?:&[^\s,\[\]{}]+\s+)?!(?:[\s,\[\]{}]|$)`)

// findBareTags finds the places of the tags that are only "!", which the library drops. It also finds such texts inside
// of scalars; no node begins there, so they do no harm.
func findBareTags(text string) map[place]bool {
	var out map[place]bool
	at, here := 0, place{1, 1}
	for _, found := range bareTag.FindAllStringIndex(text, -1) {
		for at < found[0] {
			if n := lineBreakLength(text[at:]); n > 0 {
				at, here = at+n, place{here.line + 1, 1}
				continue
			}
			_, n := utf8.DecodeRuneInString(text[at:])
			at += n
			here.column++
		}
		if out == nil {
			out = map[place]bool{}
		}
		out[here] = true
	}
	return out
}

// lineBreakLength returns the length of the line break at the start of a text (YAML 1.1, as in the library), or 0.
func lineBreakLength(text string) int {
	switch {
	case strings.HasPrefix(text, "\r\n"):
		return 2
	case text == "":
		return 0
	case text[0] == '\n' || text[0] == '\r':
		return 1
	case strings.HasPrefix(text, "\u0085"):
		return 2
	case strings.HasPrefix(text, "\u2028") || strings.HasPrefix(text, "\u2029"):
		return 3
	}
	return 0
}

// cutLine splits the first line, with its break, off a text.
func cutLine(text string) (line, rest string) {
	for i := 0; i < len(text); i++ {
		if text[i] >= ' ' && text[i] < 0x80 {
			continue
		}
		if n := lineBreakLength(text[i:]); n > 0 {
			return text[:i+n], text[i+n:]
		}
	}
	return text, ""
}

// firstDocument cuts a stream at the end of its first document, at a line with --- or ... that cannot occur inside a
// document (YAML 1.2 §9.1.2). It blanks everything before the document, as the library takes quadratic time for
// directives; line numbers stay the same.
func firstDocument(stream string) (document string, directive, next int) {
	begun, ended := false, false
	before, from, to := 0, 0, len(stream) // lines before the document, and its bounds
	rest := stream
	for line := 1; rest != "" && next == 0; line++ {
		l, at := "", len(stream)-len(rest)
		l, rest = cutLine(rest)
		ends := isMark(l, "...")
		switch {
		case ended && !ends && !isComment(l), begun && isMark(l, "---"):
			next = line
			if !ended {
				to = at
			}
		case begun && ends && !ended:
			to, ended = at, true
		case !begun && (ends || l[0] == '%'):
			before, from = line, at+len(l)
			if !ends {
				directive = line
			}
		case !isComment(l):
			begun = true
		}
	}
	return strings.Repeat("\n", before) + stream[from:to], directive, next
}

// isMark reports whether a line begins with a document marker.
func isMark(line, mark string) bool {
	rest, ok := strings.CutPrefix(line, mark)
	return ok && (rest == "" || rest[0] == ' ' || rest[0] == '\t' || lineBreakLength(rest) > 0)
}

// isComment reports whether a line contains only a comment.
func isComment(line string) bool {
	line = strings.TrimLeft(line, " \t")
	return line == "" || line[0] == '#' || lineBreakLength(line) > 0
}

// countWords estimates the number of nodes of a document by the characters at which nodes begin, and counts the lines
// that begin with %.
func countWords(text string) (words, percents int) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ',', '[', ']', '{', '}':
			words++
		case ':', '-', '?':
			if i+1 == len(text) || strings.IndexByte(" \t\r\n,[]{}", text[i+1]) >= 0 || i > 0 && text[i-1] == '"' {
				words++
			}
		case '%':
			if i > 0 && (text[i-1] < ' ' || text[i-1] >= 0x80) {
				percents++
			}
		}
	}
	return words, percents
}

// yamlError converts an error of the library. The library reports the line where the unfinished construct began, which
// may be the first one, and counts lines from 0 or from 1.
func yamlError(text string, err error) error {
	what := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if number, rest, ok := strings.Cut(strings.TrimPrefix(what, "line "), ": "); ok && what != number+": "+rest {
		if n, bad := strconv.Atoi(number); bad == nil {
			what, line = rest, n
		}
	}
	if strings.HasPrefix(what, errYAMLDeep.Error()) {
		return &YAMLError{What: errYAMLDeep.Error(), Deep: true}
	}
	grammar := strings.HasPrefix(what, "did not find expected ") && !strings.Contains(what, "alphabetic")
	if !grammar && !strings.HasPrefix(what, "unknown anchor ") {
		return &YAMLError{Line: line, What: escapeUnprintable(Truncate(what, 200))}
	}
	// The position where the library stopped reading is the place of the error, unless it read to the end.
	r := &slowReader{text: text}
	_, _ = decodeYAML(r)
	if !r.ended {
		line = countLines(strings.TrimRight(text[:r.at], " \t\r\n"))
	} else if grammar && line > 1 {
		line++
	}
	return &YAMLError{Line: line, What: escapeUnprintable(Truncate(what, 200))}
}

func countLines(text string) int {
	n := 0
	for text != "" {
		_, text = cutLine(text)
		n++
	}
	return max(n, 1)
}

// slowReader returns one byte per Read, so that it knows how far the decoder has read.
type slowReader struct {
	text  string
	at    int
	ended bool
}

// Read returns the next byte.
func (r *slowReader) Read(p []byte) (int, error) {
	if r.at == len(r.text) {
		r.ended = true
		return 0, io.EOF
	}
	n := copy(p[:min(1, len(p))], r.text[r.at:])
	r.at += n
	return n, nil
}

// EscapeStart returns the start of a text with unprintable characters escaped.
func EscapeStart(s string) string { return escapeUnprintable(Shorten(s)) }

func escapeUnprintable(s string) string {
	q := Printable(s)
	return q[1 : len(q)-1]
}
