package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth limits the nesting of a document, as in the original.
const maxDepth = 100

// ParseObject parses a document that must be one JSON object (RFC 8259) in UTF-8. Duplicate keys, integers beyond 64
// bits, numbers that no double can hold, lone surrogates and nesting deeper than 100 are faults; it reports all of them
// with their paths.
func ParseObject(text []byte) (Object, Faults) {
	v, faults := Parse(text)
	if o, ok := v.(Object); ok || len(faults) > 0 {
		return o, faults
	}
	faults.Add(nil, InvalidType(KindOf(v)), "must be one JSON object")
	return nil, faults
}

// MaxValues limits the values of a document from a caller or a node: 20 adapters with 1,000 rules each. A value in
// memory is many times the size of its text.
const MaxValues = 100_000

// ParseBounded is ParseObject for untrusted text: it refuses a text with more values than MaxValues before parsing it.
func ParseBounded(text []byte) (Object, Faults) {
	if n := CountValues(text); n > MaxValues {
		var faults Faults
		faults.Add(nil, TooMany("values", n), AtMost(MaxValues))
		return nil, faults
	}
	return ParseObject(text)
}

// CountValues returns an upper bound of the values in a JSON text: one per comma and bracket outside of strings.
func CountValues(text []byte) int {
	n, quoted := 1, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '"':
			quoted = !quoted
		case quoted && b == '\\':
			i++
		case !quoted && (b == ',' || b == '{' || b == '['):
			n++
		}
	}
	return n
}

// Parse parses one JSON value with the rules of ParseObject. If there are faults, it returns no value.
func Parse(text []byte) (any, Faults) {
	p := parser{text: text, maxDepth: maxDepth}
	v := p.readDocument()
	if len(p.faults) > 0 {
		p.faults.Sort()
		return nil, p.faults
	}
	return v, nil
}

// readDocument parses the whole text and collects its faults; a text that is not JSON has only the syntax error.
func (p *parser) readDocument() any {
	switch {
	case !utf8.Valid(p.text):
		p.faults.Add(nil, "not UTF-8: "+p.place(InvalidUTF8(p.text)), "must be JSON in UTF-8")
		return nil
	case !json.Valid(p.text):
		p.reportSyntax()
		return nil
	}
	v, err := p.readValue()
	if err != nil {
		p.faults.Add(slices.Clone(p.path), err.Error(), "")
		return nil
	}
	if at := findLoneSurrogate(p.text); at >= 0 {
		p.faults.Add(nil, "half of a surrogate pair: "+p.place(at),
			`\ud800 to \udbff must stand before \udc00 to \udfff`)
	}
	return v
}

// parser builds values from JSON that is known to be valid, so it only has to find where each value ends. That costs a
// quarter of encoding/json's tokens.
type parser struct {
	text     []byte
	at       int
	path     []string
	depth    int
	maxDepth int
	faults   Faults
	spelled  *spellings // nil: a number without a JSON form is a fault
}

func (p *parser) readValue() (any, error) {
	switch p.skip(" \t\r\n"); p.text[p.at] {
	case '{':
		return p.readBrackets(p.readObject)
	case '[':
		return p.readBrackets(p.readArray)
	case '"':
		return p.string(), nil
	}
	from := p.at
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n,]}", p.text[p.at]) < 0 {
		p.at++
	}
	switch word := string(p.text[from:p.at]); word {
	case "null":
		return nil, nil
	case "true", "false":
		return word == "true", nil
	default:
		return p.number(word), nil
	}
}

// readBrackets reads the content of the brackets at the current position.
func (p *parser) readBrackets(read func() (any, error)) (any, error) {
	if p.depth++; p.depth > p.maxDepth {
		return nil, tooDeep(p.maxDepth)
	}
	v, err := read()
	p.at++
	p.depth--
	return v, err
}

// nextEntry reports whether another entry follows, and moves to it.
func (p *parser) nextEntry() bool {
	p.skip(" \t\r\n")
	if c := p.text[p.at]; c == '}' || c == ']' {
		return false
	}
	p.at++ // the opening bracket, or a comma
	p.skip(" \t\r\n")
	c := p.text[p.at]
	return c != '}' && c != ']' // false only if the brackets are empty
}

// readObject reads an object; of duplicate keys it keeps the first.
func (p *parser) readObject() (any, error) {
	o := Object{}
	var again Repeats
	for p.nextEntry() {
		key := p.string()
		p.skip(" \t\r\n:")
		p.path = append(p.path, key)
		faults, numbers := len(p.faults), p.spelled.count()
		v, err := p.readValue()
		if err != nil {
			return nil, err
		}
		p.path = p.path[:len(p.path)-1]
		if _, twice := o[key]; twice {
			p.faults = p.faults[:faults]
			p.spelled.truncate(numbers)
			again.Add(&p.faults, p.path, key)
			continue
		}
		o[key] = v
	}
	return o, nil
}

func (p *parser) readArray() (any, error) {
	a := []any{}
	for p.nextEntry() {
		p.path = append(p.path, strconv.Itoa(len(a)))
		v, err := p.readValue()
		if err != nil {
			return nil, err
		}
		a = append(a, v)
		p.path = p.path[:len(p.path)-1]
	}
	return a, nil
}

// string reads the quoted string at the current position. It copies the string: a retained name must not keep the whole
// document in memory.
func (p *parser) string() string {
	from, escaped := p.at, false
	for p.at++; p.text[p.at] != '"'; p.at++ {
		if p.text[p.at] == '\\' {
			escaped = true
			p.at++
		}
	}
	p.at++
	if !escaped {
		return string(p.text[from+1 : p.at-1])
	}
	s := ""
	_ = json.Unmarshal(p.text[from:p.at], &s) // it is valid
	return s
}

func (p *parser) skip(these string) {
	for p.at < len(p.text) && strings.IndexByte(these, p.text[p.at]) >= 0 {
		p.at++
	}
}

// number keeps integers and doubles apart, as the metadata does.
func (p *parser) number(s string) any {
	if p.spelled != nil {
		return p.spelled.number(s, p.path)
	}
	if !strings.ContainsAny(s, ".eE") {
		i, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			p.faults.Add(slices.Clone(p.path), InvalidValue(Shorten(s)), "must be an integer of 64 bits")
		}
		return i
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		p.faults.Add(slices.Clone(p.path), InvalidValue(Shorten(s)), "must be a number up to 1.8e308")
	}
	return f
}

func tooDeep(limit int) error { return fmt.Errorf("nested deeper than %d", limit) }

// reportSyntax reports why a text is not JSON, at the place where the decoder stops, and the faults it finds before
// that place.
func (p *parser) reportSyntax() {
	dec := json.NewDecoder(bytes.NewReader(p.text))
	dec.UseNumber()
	err := p.follow(dec)
	if err == nil {
		_, _ = dec.Token()
		err = errors.New("something follows the document")
	}
	at, what := int(dec.InputOffset()), err.Error()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		at, what = len(p.text), "it ends too early"
		if len(bytes.TrimSpace(p.text)) == 0 {
			what = "it is empty"
		}
	}
	if p.depth <= p.maxDepth {
		what = "invalid JSON: " + p.place(at) + ": " + what
	}
	p.faults.Add(slices.Clone(p.path), what, "")
}

// follow reads one value only for its errors.
func (p *parser) follow(dec *json.Decoder) error {
	tok, err := dec.Token()
	bracket, ok := tok.(json.Delim)
	if err != nil || !ok {
		return err
	}
	if p.depth++; p.depth > p.maxDepth {
		return tooDeep(p.maxDepth)
	}
	for i := 0; dec.More(); i++ {
		key := strconv.Itoa(i)
		if bracket == '{' {
			if tok, err = dec.Token(); err != nil {
				return err
			}
			key, _ = tok.(string) // the decoder accepts only a string as a key
		}
		p.path = append(p.path, key)
		if err := p.follow(dec); err != nil {
			return err
		}
		p.path = p.path[:len(p.path)-1]
	}
	_, err = dec.Token()
	p.depth--
	return err
}

// place formats an offset for people.
func (p *parser) place(offset int) string {
	before := p.text[:min(max(offset, 0), len(p.text))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d column %d", line, column)
}

// InvalidUTF8 returns the byte offset of the first byte that is not UTF-8, or the length of the text if all of it is.
func InvalidUTF8(text []byte) int {
	at := 0
	for at < len(text) {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	return at
}

// findLoneSurrogate returns the offset of an escaped lone surrogate in valid JSON, or -1: the decoder would replace it
// by another character.
func findLoneSurrogate(text []byte) int {
	for i := 0; i < len(text)-1; i++ {
		if text[i] != '\\' {
			continue
		}
		i++
		if text[i] != 'u' {
			continue
		}
		switch u := decodeUnit(text[i+1:]); {
		case u >= 0xdc00 && u < 0xe000:
			return i - 1
		case u >= 0xd800 && u < 0xdc00:
			rest := text[i+5:]
			if !bytes.HasPrefix(rest, []byte(`\u`)) {
				return i - 1
			}
			if low := decodeUnit(rest[2:]); low < 0xdc00 || low >= 0xe000 {
				return i - 1
			}
			i += 6
		}
	}
	return -1
}

// decodeUnit decodes the four hex digits at the start of b.
func decodeUnit(b []byte) uint64 {
	u, _ := strconv.ParseUint(string(b[:min(4, len(b))]), 16, 16)
	return u
}
