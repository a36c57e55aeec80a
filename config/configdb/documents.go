package configdb

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"edgespan/config"
)

// MaxDepth limits the nesting of a document. It is far above the depth of facts (12 in the largest known) and within
// what common JSON readers accept.
const MaxDepth = 1000

// MaxSize limits the bytes of a document that Parse reads. The packages that receive documents set far lower limits.
const MaxSize = 1 << 30

// Parse parses one JSON value (RFC 8259) in UTF-8 into its canonical form; nothing may follow the value. RFC 8259 §8.2
// permits half of a surrogate pair in a key; such a key keeps its escape (\ud800), since UTF-8 can't encode it and
// another character would change it. An error has line, column and expectation. Parse makes one pass over the text, and
// a second one if some keys are not sorted.
func Parse(text []byte) (JSON, error) { return parseUpTo(text, MaxSize) }

// ParseBody is Parse for untrusted text: it refuses more than MaxBodyValues members and elements.
func ParseBody(text []byte) (JSON, error) { return parseUpTo(text, MaxBodyValues) }

func parseUpTo(text []byte, values int) (JSON, error) {
	if len(text) > MaxSize {
		return nil, malformed("the document is too large (%d bytes): must be at most %d", len(text), MaxSize)
	}
	p := parser{text: text, values: values}
	if !utf8.Valid(text) {
		p.at = config.InvalidUTF8(text)
		return nil, p.syntaxError("it is not UTF-8", "must be JSON in UTF-8")
	}
	p.out = make([]byte, 0, len(text))
	p.skipBlanks()
	if p.at == len(text) {
		return nil, p.syntaxError("it is empty", "must be one JSON value")
	}
	err := p.readValue(0)
	if p.values < 0 {
		return nil, tooLarge("the document has too many values: must be at most %d", values)
	}
	if err == nil {
		p.skipBlanks()
		if p.at < len(text) {
			err = p.syntaxError("something follows the value", "must be one JSON value")
		}
	}
	if err != nil {
		return nil, err
	}
	if len(p.sorted) == 0 {
		return p.out, nil
	}
	w := rewriter{p: &p, out: make([]byte, 0, len(p.out))}
	w.span(0, len(p.out))
	return w.out, nil
}

// ParseObject parses a document that must be one JSON object.
func ParseObject(text []byte) (Object, error) {
	v, err := Parse(text)
	if err != nil {
		return Object{}, err
	}
	return ObjectOf(v)
}

// parser reads a document and writes each token in canonical spelling, in the order of the document. It records the
// objects whose members must be reordered.
type parser struct {
	text    []byte
	at      int
	values  int // number of values that may still follow
	out     []byte
	open    []member // members of the unfinished objects, the innermost object last
	objects []order  // in the order of their opening brackets
	sorted  []member // members of the objects that are not in order
}

// member is one "key":value of an object; its fields are offsets in parser.out.
type member struct {
	from, colon, to int
	objects         int  // number of objects that began before it
	escaped         bool // the key has an escape
}

// key returns the spelling of a member's key without its quotes.
func (m member) key(out []byte) []byte { return out[m.from+1 : m.colon-1] }

// keyed is a member with the decoded text of its key.
type keyed struct {
	text string
	member
}

// earlier caches the decoded text of the previous key.
type earlier struct {
	text string
	is   bool
}

// checkOrder reports whether b sorts after a, the member before it. It decodes each key once.
func (e *earlier) checkOrder(out []byte, a, b member) bool {
	if !a.escaped && !b.escaped {
		e.is = false
		return bytes.Compare(a.key(out), b.key(out)) < 0
	}
	before := e.text
	if !e.is {
		before = unquote(a.key(out))
	}
	e.text, e.is = unquote(b.key(out)), true
	return before < e.text
}

// order describes how to write the members of an object; if moved is false, they keep their order.
type order struct {
	from, to    int // in parser.out
	first, last int // in parser.sorted
	after       int // number of objects that had begun when it ended
	moved       bool
}

// errTooMany stops a parser; its caller returns the detailed error.
var errTooMany = errors.New("too many values")

// readValue reads one value at a nesting depth.
func (p *parser) readValue(depth int) error {
	if p.values--; p.values < 0 {
		return errTooMany
	}
	if p.at == len(p.text) {
		return p.syntaxError("it ends too early", "must be a value here")
	}
	switch c := p.text[p.at]; c {
	case '{':
		return p.readObject(depth + 1)
	case '[':
		return p.readArray(depth + 1)
	case '"':
		return p.readLiteral()
	case 't':
		return p.readWord("true")
	case 'f':
		return p.readWord("false")
	case 'n':
		return p.readWord("null")
	default:
		if c == '-' || isDigit(c) {
			return p.readNumber()
		}
	}
	return p.syntaxError("no value here",
		"must be an object, a list, a string in \"\", a number, true, false or null")
}

func (p *parser) readObject(depth int) error {
	if depth > MaxDepth {
		return p.depthError()
	}
	index, first, inOrder, before := len(p.objects), len(p.open), true, earlier{}
	if len(p.objects) == cap(p.objects) {
		p.objects = slices.Grow(p.objects, len(p.objects)+16)
	}
	p.objects = append(p.objects, order{from: len(p.out)})
	p.next()
	p.skipBlanks()
	for !p.atByte('}') {
		if len(p.open) > first {
			if !p.atByte(',') {
				return p.syntaxError("the object goes on without a comma", "must be ',' or '}' here")
			}
			p.next()
			p.skipBlanks()
		}
		m, err := p.readMember(depth)
		if err != nil {
			return err
		}
		if last := len(p.open) - 1; inOrder && last >= first {
			inOrder = before.checkOrder(p.out, p.open[last], m)
		}
		if len(p.open) == cap(p.open) {
			p.open = slices.Grow(p.open, len(p.open)+16)
		}
		p.open = append(p.open, m)
		p.skipBlanks()
	}
	p.next()
	o := &p.objects[index]
	o.to, o.after = len(p.out), len(p.objects)
	if !inOrder {
		o.moved, o.first = true, len(p.sorted)
		p.sort(p.open[first:])
		o.last = len(p.sorted)
	}
	p.open = p.open[:first]
	return nil
}

// readMember reads a key and its value.
func (p *parser) readMember(depth int) (m member, err error) {
	if !p.atByte('"') {
		return m, p.syntaxError("no key here", "must be a string in \"\" here")
	}
	m.from, m.objects = len(p.out), len(p.objects)
	if m.escaped, err = p.readString(); err != nil {
		return m, err
	}
	p.skipBlanks()
	if !p.atByte(':') {
		return m, p.syntaxError("a key has no value", "must be ':' here")
	}
	m.colon = len(p.out)
	p.next()
	p.skipBlanks()
	err = p.readValue(depth)
	m.to = len(p.out)
	return m, err
}

// sort records the members of an object in the order of their keys, and of equal keys only the last.
func (p *parser) sort(ms []member) {
	if cap(p.sorted)-len(p.sorted) < len(ms) {
		p.sorted = slices.Grow(p.sorted, max(len(ms), len(p.sorted)))
	}
	if slices.ContainsFunc(ms, func(m member) bool { return m.escaped }) {
		all := make([]keyed, len(ms)) // decodes each key once
		for i, m := range ms {
			all[i] = keyed{unquote(m.key(p.out)), m}
		}
		slices.SortStableFunc(all, func(a, b keyed) int { return cmp.Compare(a.text, b.text) })
		for i, m := range all {
			if i+1 == len(all) || m.text != all[i+1].text {
				p.sorted = append(p.sorted, m.member)
			}
		}
		return
	}
	slices.SortStableFunc(ms, func(a, b member) int { return bytes.Compare(a.key(p.out), b.key(p.out)) })
	for i, m := range ms {
		if i+1 == len(ms) || !bytes.Equal(m.key(p.out), ms[i+1].key(p.out)) {
			p.sorted = append(p.sorted, m)
		}
	}
}

func (p *parser) readArray(depth int) error {
	if depth > MaxDepth {
		return p.depthError()
	}
	p.next()
	p.skipBlanks()
	for first := true; !p.atByte(']'); first = false {
		if !first {
			if !p.atByte(',') {
				return p.syntaxError("the list goes on without a comma", "must be ',' or ']' here")
			}
			p.next()
			p.skipBlanks()
		}
		if err := p.readValue(depth); err != nil {
			return err
		}
		p.skipBlanks()
	}
	p.next()
	return nil
}

func (p *parser) readWord(w string) error {
	if !bytes.HasPrefix(p.text[p.at:], []byte(w)) {
		return p.syntaxError("unknown word", "must be true, false or null, or a string in \"\"")
	}
	p.at += len(w)
	p.out = append(p.out, w...)
	return nil
}

// readNumber reads a number and keeps its literal.
func (p *parser) readNumber() error {
	from := p.at
	if p.atByte('-') {
		p.at++
	}
	switch {
	case p.atByte('0'):
		p.at++
	case !p.readDigits():
		return p.syntaxError("a number has no digit", "must be digits here")
	}
	if p.at < len(p.text) && isDigit(p.text[p.at]) {
		return p.syntaxError("a number begins with 0", "must be 0 alone before a point")
	}
	if p.atByte('.') {
		p.at++
		if !p.readDigits() {
			return p.syntaxError("a number ends with a point", "must be digits here")
		}
	}
	if p.atByte('e') || p.atByte('E') {
		p.at++
		if p.atByte('+') || p.atByte('-') {
			p.at++
		}
		if !p.readDigits() {
			return p.syntaxError("a number has no exponent after its e", "must be digits here")
		}
	}
	p.out = append(p.out, p.text[from:p.at]...)
	return nil
}

// readDigits reads a run of digits and reports whether there is at least one.
func (p *parser) readDigits() bool {
	from := p.at
	for p.at < len(p.text) && isDigit(p.text[p.at]) {
		p.at++
	}
	return p.at > from
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func (p *parser) atByte(c byte) bool { return p.at < len(p.text) && p.text[p.at] == c }

// next copies one character to the output.
func (p *parser) next() {
	p.out = append(p.out, p.text[p.at])
	p.at++
}

func (p *parser) skipBlanks() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\n', '\r', '\t':
			p.at++
		default:
			return
		}
	}
}

func (p *parser) depthError() error {
	return p.syntaxError("it is nested too deep", fmt.Sprintf("must be at most %d levels", MaxDepth))
}

// syntaxError returns an error with the current position of the parser.
func (p *parser) syntaxError(what, allowed string) error {
	before := p.text[:p.at]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	if p.at == len(p.text) && p.at > 0 && what != "it is empty" {
		what = "it ends too early"
	}
	return malformed("invalid JSON: %s: line %d column %d (byte %d): %s", what, line, column, p.at, allowed)
}

// rewriter writes the parser's output with the members of each object in the order of their keys. It writes every byte
// once, at any depth.
type rewriter struct {
	p    *parser
	next int // index into p.objects
	out  []byte
}

// span writes the output between two offsets; w.next is the first object that begins there.
func (w *rewriter) span(from, to int) {
	for w.next < len(w.p.objects) {
		o := w.p.objects[w.next]
		if o.from >= to {
			break
		}
		w.next++
		if !o.moved {
			continue
		}
		w.out = append(append(w.out, w.p.out[from:o.from]...), '{')
		for i, m := range w.p.sorted[o.first:o.last] {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			w.next = m.objects
			w.span(m.from, m.to)
		}
		w.out = append(w.out, '}')
		from, w.next = o.to, o.after
	}
	w.out = append(w.out, w.p.out[from:to]...)
}
