package nodeconf

import (
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"

	"edgespan/config"
)

// maxTokens bounds the memory of a YAML document's tokens, about 200 bytes each.
// A network of ten fields has about 40, an app with two rules about 100.
const maxTokens = 1 << 20

// yamlReader makes a tree of the tokens of one document. It stands in for
// goccy's own parser, which recurses once for each sibling key and copies all
// of them each time: 80 000 keys take it 12 s, a million overflow the stack,
// and no program survives that.
type yamlReader struct {
	toks []*token.Token
	pos  int
}

// readYAML reads one document of mappings, lists and scalars, in block or flow
// style; anchors, aliases, tags, directives, merge and complex keys are refused.
// A document of nothing but comments is nil.
func readYAML(doc string) (root *node, err error) {
	defer func() { // the scanner is not ours: what it can't take is a bad document
		if p := recover(); p != nil {
			root, err = nil, errors.New("is no YAML: it can't be split into words")
		}
	}()
	r := &yamlReader{}
	if err := r.scan(doc); err != nil {
		return nil, err
	}
	if len(r.toks) == 0 {
		return nil, nil
	}
	root, err = r.block(0, false)
	if err != nil {
		return nil, err
	}
	if t := r.peek(); t != nil {
		return nil, yamlError(t, "unexpected "+config.Quote(t.Value))
	}
	return root, nil
}

func yamlError(t *token.Token, what string) error {
	return fmt.Errorf("is no YAML: line %d column %d: %s", t.Position.Line, t.Position.Column, what)
}

// scan collects the tokens, without comments and document marks.
func (r *yamlReader) scan(doc string) error {
	var s scanner.Scanner
	s.Init(doc)
	started, ended := false, false
	for {
		toks, err := s.Scan()
		for _, t := range toks {
			switch t.Type {
			case token.CommentType:
				continue
			case token.DocumentHeaderType:
				if started {
					return yamlError(t, "a second document")
				}
				started = true
				continue
			case token.DocumentEndType:
				ended = true
				continue
			case token.InvalidType:
				return yamlError(t, oneLine(t.Error))
			case token.AnchorType, token.AliasType, token.TagType, token.DirectiveType,
				token.MergeKeyType, token.MappingKeyType:
				return yamlError(t, "anchors, aliases, tags, directives, merge and complex keys are not allowed")
			}
			if ended {
				return yamlError(t, "a second document")
			}
			started = true
			r.toks = append(r.toks, t)
		}
		if len(r.toks) > maxTokens {
			return fmt.Errorf("is no YAML: it has more than %d words; JSON may be longer", maxTokens)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
}

func oneLine(s string) string {
	if s == "" {
		return "an invalid character"
	}
	return quoteInner(s)
}

// quoteInner is s with what is not printable escaped.
func quoteInner(s string) string {
	q := config.Printable(config.Shorten(s))
	return q[1 : len(q)-1]
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

// isKey says whether the token ahead is a key: a ':' follows it on its line.
func (r *yamlReader) isKey() bool {
	if r.pos+1 >= len(r.toks) {
		return false
	}
	t, colon := r.toks[r.pos], r.toks[r.pos+1]
	return isScalar(t) && colon.Type == token.MappingValueType && colon.Position.Line == t.Position.Line
}

// block reads what stands ahead; inline it began on the line of its key, where
// block style can't.
func (r *yamlReader) block(depth int, inline bool) (*node, error) {
	t := r.peek()
	switch {
	case depth > maxDepth:
		return nil, errDeep
	case t.Type == token.MappingStartType || t.Type == token.SequenceStartType:
		return r.flow(depth)
	case r.isKey() && !inline:
		return r.blockMapping(depth)
	case t.Type == token.SequenceEntryType && !inline:
		return r.blockList(depth)
	case t.Type == token.LiteralType || t.Type == token.FoldedType:
		r.next()
		n := &node{kind: text}
		if c := r.peek(); c != nil && c.Type == token.StringType && c.Position.Line > t.Position.Line {
			n.text = r.next().Value
		}
		return n, nil
	case isScalar(t):
		return scalar(r.next()), nil
	}
	return nil, yamlError(t, "unexpected "+config.Quote(t.Value))
}

func (r *yamlReader) blockMapping(depth int) (*node, error) {
	n := &node{kind: mapping}
	column := r.peek().Position.Column
	for r.isKey() && r.peek().Position.Column == column {
		key := r.next().Value
		v, err := r.value(r.next(), column, depth)
		if err != nil {
			return nil, err
		}
		n.fields = append(n.fields, field{key, v})
	}
	if t := r.peek(); t != nil && t.Position.Column >= column {
		return nil, yamlError(t, "unexpected "+config.Quote(t.Value))
	}
	return n, nil
}

// value reads what belongs to a key whose ':' was just read: the rest of the
// line, or the deeper lines below, or nothing.
func (r *yamlReader) value(colon *token.Token, column, depth int) (*node, error) {
	t := r.peek()
	switch {
	case t == nil:
		return &node{kind: null}, nil
	case t.Position.Line == colon.Position.Line:
		return r.block(depth+1, true)
	case t.Position.Column > column, t.Position.Column == column && t.Type == token.SequenceEntryType:
		return r.block(depth+1, false)
	}
	return &node{kind: null}, nil
}

func (r *yamlReader) blockList(depth int) (*node, error) {
	n := &node{kind: list}
	column := r.peek().Position.Column
	for t := r.peek(); t != nil && t.Type == token.SequenceEntryType && t.Position.Column == column; t = r.peek() {
		r.next()
		item := &node{kind: null}
		if in := r.peek(); in != nil && in.Position.Column > column {
			var err error
			if item, err = r.block(depth+1, false); err != nil {
				return nil, err
			}
		}
		n.fields = append(n.fields, field{value: item})
	}
	return n, nil
}

func (r *yamlReader) flow(depth int) (*node, error) {
	open := r.next()
	n := &node{kind: mapping}
	end := token.MappingEndType
	if open.Type == token.SequenceStartType {
		n.kind, end = list, token.SequenceEndType
	}
	for {
		t := r.peek()
		switch {
		case t == nil:
			return nil, yamlError(open, "is not closed")
		case t.Type == end:
			r.next()
			return n, nil
		}
		f, err := r.flowEntry(n.kind, depth)
		if err != nil {
			return nil, err
		}
		n.fields = append(n.fields, f)
		switch t := r.peek(); {
		case t != nil && t.Type == token.CollectEntryType:
			r.next()
		case t != nil && t.Type != end:
			return nil, yamlError(t, "unexpected "+config.Quote(t.Value))
		}
	}
}

func (r *yamlReader) flowEntry(k kind, depth int) (field, error) {
	f := field{value: &node{kind: null}}
	if k == mapping {
		t := r.next()
		if !isScalar(t) {
			return f, yamlError(t, "unexpected "+config.Quote(t.Value))
		}
		f.key = t.Value
		if t := r.peek(); t == nil || t.Type != token.MappingValueType {
			return f, nil
		}
		r.next()
		if t := r.peek(); t == nil || t.Type == token.CollectEntryType || closes(t) {
			return f, nil
		}
	}
	v, err := r.block(depth+1, true)
	f.value = v
	return f, err
}

func closes(t *token.Token) bool {
	return t.Type == token.MappingEndType || t.Type == token.SequenceEndType
}

func isScalar(t *token.Token) bool {
	switch t.Type {
	case token.SingleQuoteType, token.DoubleQuoteType, token.StringType, token.NullType, token.BoolType,
		token.IntegerType, token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType,
		token.FloatType, token.InfinityType, token.NanType:
		return true
	}
	return false
}

// anyNumber is what YAML 1.2 §10.3.2 or YAML 1.1 takes for a number.
var anyNumber = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?$|` +
	`^[-+]?0[xob][0-9a-fA-F_]+$|^[-+]?\.(inf|Inf|INF)$|^\.(nan|NaN|NAN)$`)

// scalar reads a plain or quoted word by YAML 1.2's core schema.
func scalar(t *token.Token) *node {
	n := &node{kind: text, text: t.Value}
	if t.Type == token.SingleQuoteType || t.Type == token.DoubleQuoteType {
		return n
	}
	switch t.Value {
	case "", "~", "null", "Null", "NULL":
		n.kind = null
	case "true", "True", "TRUE":
		n.kind, n.text = boolean, "true"
	case "false", "False", "FALSE":
		n.kind, n.text = boolean, "false"
	default:
		if anyNumber.MatchString(t.Value) {
			n.kind = number
		}
	}
	return n
}
