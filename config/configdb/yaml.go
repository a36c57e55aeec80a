package configdb

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"

	"edgespan/config"
)

// What a document in YAML may have. JSON may be larger, and is YAML.
const (
	maxTokens    = 1 << 20  // words; a document of 70 KB has some 10,000
	maxYAMLDepth = 250      // levels
	maxAliases   = 16 << 20 // bytes that all aliases of a document stand for
)

// FromYAML reads the first document of a YAML stream, and says whether there are more. It takes
// what files below /etc/hiera have in them, as Ruby's Psych reads them for Puppet:
//   - plain scalars are what Psych makes of them: yes, no, on and off are booleans, 0777 is octal, 0x1F
//     and 0b11 are numbers, 1_000 and 1,000 are 1000, 12:30 is 45000 (base 60, as Psych has
//     it), 09 is a string. So is any date: JSON has none, and what a date is to mean the reader of the
//     string may say;
//   - what Psych takes for a string and YAML 1.2's core schema for a number (1e400, 0o17) is a number;
//   - a number that JSON can spell keeps its literal (1.0, 12345678901234567890);
//   - keys are strings; numbers and booleans become strings as they are shown in JSON, null, lists and
//     mappings are refused as keys, and so are two that are equal then;
//   - << merges over the keys before it, and is overridden by those after it;
//   - aliases may stand for 16 MiB in all;
//   - !!binary stays the text that it is, !!str, !!int, !!float, !!bool, !!null, !!seq and !!map are obeyed, other
//     tags refused. .inf and .nan are refused, with their path: JSON has no such number.
//
// A stream without a document is null. Every error is of kind Malformed.
func FromYAML(text []byte) (v JSON, more bool, err error) {
	if v, err := Parse(text); err == nil {
		return v, false, nil
	}
	if !utf8.Valid(text) {
		return nil, false, malformed("the document is no YAML: it is no UTF-8 (byte %d): UTF-8 is allowed",
			config.InvalidUTF8(text))
	}
	defer func() { // the scanner is not ours: what it can't take is a bad document
		if recover() != nil {
			v, more, err = nil, false, malformed("the document is no YAML: it can't be split into words")
		}
	}()
	r := yamlReader{anchors: map[string]JSON{}}
	if err := r.scan(string(text)); err != nil {
		return nil, false, err
	}
	if len(r.toks) == 0 {
		return JSON("null"), r.more, nil
	}
	if v, err = r.block(0, false); err != nil {
		return nil, false, err
	}
	if t := r.peek(); t != nil {
		return nil, false, r.fault(t, "unexpected "+config.Quote(t.Value), "")
	}
	if nesting(v) > MaxDepth {
		return nil, false, malformed("the document is nested too deep by its aliases: %d levels are allowed", MaxDepth)
	}
	return v, r.more, nil
}

// yamlReader makes JSON of the words of one document. goccy's own parser takes quadratic time for the
// keys of one mapping (20,000: 14 s).
type yamlReader struct {
	toks    []*token.Token
	pos     int
	path    []string
	anchors map[string]JSON
	aliases int  // bytes
	more    bool // documents follow
}

// scan collects the words of the first document, without comments and directives.
func (r *yamlReader) scan(doc string) error {
	var s scanner.Scanner
	s.Init(doc)
	started, directive := false, 0
	for {
		toks, err := s.Scan()
		for _, t := range toks {
			switch {
			case t.Type == token.CommentType, directive > 0 && t.Position.Line == directive:
			case t.Type == token.DirectiveType && !started:
				directive = t.Position.Line
			case t.Type == token.InvalidType:
				return r.fault(t, "it can't be split into words here", "")
			case t.Type == token.DocumentEndType:
				started = true
			case t.Type == token.DocumentHeaderType && !started && len(r.toks) == 0:
				started = true
			case t.Type == token.DocumentHeaderType, t.Type == token.DirectiveType, r.more:
				r.more = true
			default:
				started = true
				r.toks = append(r.toks, t)
			}
		}
		switch {
		case r.more, errors.Is(err, io.EOF):
			return nil
		case len(r.toks) > maxTokens:
			return malformed("the document is too large: it has more than %d words of YAML: %d are allowed, JSON may be longer",
				maxTokens, maxTokens)
		case err != nil:
			return malformed("the document is no YAML: %v", err)
		}
	}
}

// fault is what is wrong at a word.
func (r *yamlReader) fault(t *token.Token, what, allowed string) error {
	text := fmt.Sprintf("the document is no YAML: %s: line %d column %d", what, t.Position.Line, t.Position.Column)
	if len(r.path) > 0 {
		text += " (" + spell(r.path) + ")"
	}
	if allowed != "" {
		text += ": " + allowed
	}
	return malformed("%s", text)
}

func (r *yamlReader) peek() *token.Token {
	if r.pos >= len(r.toks) {
		return nil
	}
	return r.toks[r.pos]
}

func (r *yamlReader) next() *token.Token {
	t := r.peek()
	r.pos++
	return t
}

// isKey says whether the word ahead is a key: a ':' follows it on the line where it ends.
func (r *yamlReader) isKey() bool {
	if r.pos+1 >= len(r.toks) {
		return false
	}
	t, colon := r.toks[r.pos], r.toks[r.pos+1]
	return (isScalar(t) || t.Type == token.MergeKeyType) && colon.Type == token.MappingValueType &&
		colon.Position.Line == t.Position.Line
}

// properties are the tag and the anchor before a value.
type properties struct {
	tag, anchor string
	at          *token.Token // the last of them; nil for none
}

func (r *yamlReader) properties() (p properties, err error) {
	for t := r.peek(); t != nil; t = r.peek() {
		switch {
		case t.Type == token.TagType && p.tag == "":
			p.tag, p.at = r.next().Value, t
		case t.Type == token.AnchorType && p.anchor == "" && r.pos+1 < len(r.toks):
			r.next()
			p.anchor, p.at = r.next().Value, t
		case t.Type == token.TagType || t.Type == token.AnchorType:
			return p, r.fault(t, "a value has two tags or anchors, or an anchor no name", "one of each is allowed")
		default:
			return p, nil
		}
	}
	return p, nil
}

// block reads what stands ahead. inline it began on the line of its key, where no block can
// begin.
func (r *yamlReader) block(depth int, inline bool) (JSON, error) {
	if t := r.peek(); depth > maxYAMLDepth {
		return nil, r.fault(t, "it is nested too deep", fmt.Sprintf("%d levels are allowed", maxYAMLDepth))
	}
	p, err := r.properties()
	if err != nil {
		return nil, err
	}
	t := r.peek()
	var v JSON
	switch {
	case p.at != nil && (t == nil || closes(t) || t.Type == token.CollectEntryType):
		v, err = r.scalar(p.at, "", p.tag, true)
	case p.at != nil && t.Position.Line == p.at.Position.Line && r.isKey() && !inline:
		return nil, r.fault(p.at, "a key has a tag or an anchor", "they are allowed before values")
	default:
		v, err = r.content(depth, inline && (p.at == nil || t.Position.Line == p.at.Position.Line), p.tag)
	}
	if err == nil && p.anchor != "" {
		r.anchors[p.anchor] = v
	}
	return v, err
}

func (r *yamlReader) content(depth int, inline bool, tag string) (JSON, error) {
	t := r.peek()
	switch {
	case t == nil:
		return nil, malformed("the document is no YAML: it ends too early")
	case isScalar(t) && (inline || !r.isKey()):
		r.next()
		return r.scalar(t, t.Value, tag, t.Type != token.SingleQuoteType && t.Type != token.DoubleQuoteType)
	case t.Type == token.LiteralType || t.Type == token.FoldedType:
		r.next()
		text := ""
		if c := r.peek(); c != nil && c.Type == token.StringType && c.Position.Line > t.Position.Line {
			text = r.next().Value
		}
		return r.scalar(t, text, tag, false)
	case t.Type == token.AliasType && tag == "":
		return r.alias()
	}
	var v JSON
	var err error
	switch {
	case t.Type == token.MappingStartType || t.Type == token.SequenceStartType:
		v, err = r.flow(depth)
	case r.isKey() && !inline:
		v, err = r.blockMapping(depth)
	case t.Type == token.SequenceEntryType && !inline:
		v, err = r.blockList(depth)
	default:
		return nil, r.fault(t, "unexpected "+config.Quote(t.Value), "a scalar, a list or a mapping is allowed here")
	}
	if err == nil && tag != "" && tag != "!" && tag != map[byte]string{'{': "!!map", '[': "!!seq"}[v[0]] {
		return nil, r.fault(t, "the tag "+config.Quote(tag)+" stands before "+kindOf(v), tagsAllowed)
	}
	return v, err
}

func (r *yamlReader) alias() (JSON, error) {
	t := r.next()
	name := r.next()
	if name == nil {
		return nil, r.fault(t, "an alias has no name", "")
	}
	v, known := r.anchors[name.Value]
	if !known {
		return nil, r.fault(t, "the alias "+config.Quote(name.Value)+" names no anchor that ends before it", "")
	}
	if r.aliases += len(v); r.aliases > maxAliases {
		return nil, r.fault(t, "its aliases stand for too much", fmt.Sprintf("%d bytes are allowed", maxAliases))
	}
	return v, nil
}

func (r *yamlReader) blockMapping(depth int) (JSON, error) {
	var m mapping
	column := r.peek().Position.Column
	for r.isKey() && r.peek().Position.Column == column {
		key := r.next()
		if err := r.entry(&m, key, func() (JSON, error) { return r.value(r.next(), column, depth) }); err != nil {
			return nil, err
		}
	}
	if t := r.peek(); t != nil && t.Position.Column >= column {
		return nil, r.fault(t, "unexpected "+config.Quote(t.Value), "a key and ':' are allowed here")
	}
	return m.json(), nil
}

// value reads what belongs to a key whose ':' was just read: the rest of the line, or the
// deeper lines below, or nothing.
func (r *yamlReader) value(colon *token.Token, column, depth int) (JSON, error) {
	t := r.peek()
	switch {
	case t == nil:
	case t.Position.Line == colon.Position.Line:
		p := r.pos
		for p < len(r.toks) && r.toks[p].Position.Line == t.Position.Line &&
			(r.toks[p].Type == token.TagType || r.toks[p].Type == token.AnchorType) {
			p++
			if r.toks[p-1].Type == token.AnchorType {
				p++ // its name
			}
		}
		if p > r.pos && (p >= len(r.toks) || r.toks[p].Position.Line > t.Position.Line && !r.deeper(r.toks[p], column)) {
			props, err := r.properties() // and nothing that they belong to
			if err != nil {
				return nil, err
			}
			v, err := r.scalar(t, "", props.tag, true)
			if err == nil && props.anchor != "" {
				r.anchors[props.anchor] = v
			}
			return v, err
		}
		return r.block(depth+1, true)
	case r.deeper(t, column):
		return r.block(depth+1, false)
	}
	return JSON("null"), nil
}

// deeper says whether a word on a later line belongs to the key in a column.
func (r *yamlReader) deeper(t *token.Token, column int) bool {
	return t.Position.Column > column || t.Position.Column == column && t.Type == token.SequenceEntryType
}
