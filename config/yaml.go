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

// maxWords bounds what a document of YAML costs before it is understood: a word becomes three nodes of some 200 bytes
// at most. A network of ten fields has about 20, an app with two rules about 50.
const maxWords = 1 << 20

// maxPercents bounds the lines of a document that look like a directive: the library takes quadratic time for those.
const maxPercents = 100

// errYAMLDeep is a document that the library refuses at 10,000 levels, by itself.
var errYAMLDeep = errors.New("exceeded max depth")

// YAML is the first document of a stream as its nodes, each with its line and its column. Anchors, tags and merge keys
// are as they stand there: who reads the nodes obeys or refuses them.
type YAML struct {
	Root      *yaml.Node // nil: there is none
	Directive int        // line of a directive before it, 0 for none; it is not obeyed
	Next      int        // line where another document begins, 0 for none
	bare      map[place]bool
}

// place is a line and a column, from 1 on.
type place struct{ line, column int }

// YAMLError says what is wrong with a document of YAML, and where.
type YAMLError struct {
	Line, Column int // 0: unknown
	What         string
	Deep         bool // it is nested too deep for any reader
}

// Error has the place in front.
func (e *YAMLError) Error() string {
	switch {
	case e.Line == 0:
		return e.What
	case e.Column == 0:
		return fmt.Sprintf("line %d: %s", e.Line, e.What)
	}
	return fmt.Sprintf("line %d column %d: %s", e.Line, e.Column, e.What)
}

// ReadYAML reads the first document of a stream of YAML 1.2 in UTF-8; the ones after it are not looked at.
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
	y.bare = bareTags(text)
	if r := y.Root; r != nil && r.Kind == yaml.ScalarNode && r.Value == "" && r.Anchor == "" && IsPlain(r) &&
		y.Tag(r) == "" {
		y.Root = nil // marks alone
	}
	return y, nil
}

// decodeYAML reads one document; there may be none.
func decodeYAML(r io.Reader) (root *yaml.Node, err error) {
	defer func() { // the library is not ours: what it can't take is a bad document
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
	switch err := dec.Decode(&other); { // it stops where a document is complete
	case err == nil:
		return nil, errors.New("something follows the document")
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	return document.Content[0], nil
}

// Tag is the tag that stands before a node, "" for none.
func (y *YAML) Tag(n *yaml.Node) string {
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		return n.ShortTag()
	case y.bare[place{n.Line, n.Column}]:
		return "!"
	}
	return ""
}

// IsPlain says whether a scalar stands without quotes, on its own lines.
func IsPlain(n *yaml.Node) bool {
	return n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
}

// bareTag is the tag that is nothing but "!", and an anchor before it.
var bareTag = regexp.MustCompile(`(?:&[^\s,\[\]{}]+\s+)?!(?:[\s,\[\]{}]|$)`)

// bareTags are the places of tags that are "!", and of such as stand in a text: no node begins at those. The library
// leaves these tags out.
func bareTags(text string) map[place]bool {
	var out map[place]bool
	at, here := 0, place{1, 1}
	for _, found := range bareTag.FindAllStringIndex(text, -1) {
		for at < found[0] {
			if n := breakAt(text[at:]); n > 0 {
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

// breakAt is how many bytes of a text are the break of a line (YAML 1.1, as the library has it), 0 for none.
func breakAt(text string) int {
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

// cutLine takes the first line off a text, with its break.
func cutLine(text string) (line, rest string) {
	for i := 0; i < len(text); i++ {
		if text[i] >= ' ' && text[i] < 0x80 {
			continue
		}
		if n := breakAt(text[i:]); n > 0 {
			return text[:i+n], text[i+n:]
		}
	}
	return text, ""
}

// firstDocument cuts a stream at the end of its first document, at a line with --- or ... that nothing inside a
// document can look like (YAML 1.2 §9.1.2). What stands before it is left out, as the library takes quadratic time for
// directives; the lines keep their numbers.
func firstDocument(stream string) (document string, directive, next int) {
	begun, ended := false, false
	before, from, to := 0, 0, len(stream) // lines before the document, and its place
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

// isMark says whether a line begins with the mark of a document.
func isMark(line, mark string) bool {
	rest, is := strings.CutPrefix(line, mark)
	return is && (rest == "" || rest[0] == ' ' || rest[0] == '\t' || breakAt(rest) > 0)
}

// isComment says whether a line has nothing but a comment.
func isComment(line string) bool {
	line = strings.TrimLeft(line, " \t")
	return line == "" || line[0] == '#' || breakAt(line) > 0
}

// countWords is about how many nodes a document has, since each begins at one of these, and how many of its lines begin
// with %.
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

// yamlError makes an error of the library's: its line is where what it was in the middle of began, which may be the
// first one, and counted from 0 or from 1.
func yamlError(text string, err error) error {
	what := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if number, rest, is := strings.Cut(strings.TrimPrefix(what, "line "), ": "); is && what != number+": "+rest {
		if n, bad := strconv.Atoi(number); bad == nil {
			what, line = rest, n
		}
	}
	if strings.HasPrefix(what, errYAMLDeep.Error()) {
		return &YAMLError{What: errYAMLDeep.Error(), Deep: true}
	}
	grammar := strings.HasPrefix(what, "did not find expected ") && !strings.Contains(what, "alphabetic")
	if !grammar && !strings.HasPrefix(what, "unknown anchor ") {
		return &YAMLError{Line: line, What: inner(Cut(what, 200))}
	}
	// How far it read says where it was, if that is not the end.
	r := &slowReader{text: text}
	_, _ = decodeYAML(r)
	if !r.ended {
		line = countLines(strings.TrimRight(text[:r.at], " \t\r\n"))
	} else if grammar && line > 1 {
		line++
	}
	return &YAMLError{Line: line, What: inner(Cut(what, 200))}
}

func countLines(text string) int {
	n := 0
	for text != "" {
		_, text = cutLine(text)
		n++
	}
	return max(n, 1)
}

// slowReader gives one byte at a time, so that it knows how far somebody has read.
type slowReader struct {
	text  string
	at    int
	ended bool
}

// Read gives the next byte.
func (r *slowReader) Read(p []byte) (int, error) {
	if r.at == len(r.text) {
		r.ended = true
		return 0, io.EOF
	}
	n := copy(p[:min(1, len(p))], r.text[r.at:])
	r.at += n
	return n, nil
}

// Inner is the begin of a text with what is not printable escaped.
func Inner(s string) string { return inner(Shorten(s)) }

func inner(s string) string {
	q := Printable(s)
	return q[1 : len(q)-1]
}
