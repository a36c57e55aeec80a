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

// maxDepth is how deep a document may be nested, as in the original.
const maxDepth = 100

// ParseObject reads a document that must be one JSON object (RFC 8259) in UTF-8. Equal
// keys, integers beyond 64 bits, numbers that no double can hold, half of a surrogate
// pair and nesting deeper than 100 are faults, all of them with their paths.
func ParseObject(text []byte) (Object, Faults) {
	v, faults := Parse(text)
	if o, is := v.(Object); is || len(faults) > 0 {
		return o, faults
	}
	faults.Add(nil, "the document is "+withArticle(KindOf(v)), "one JSON object is allowed")
	return nil, faults
}

// MaxValues is how many values a document of one caller or node has at most: 20 adapters with 1,000 rules each.
// Each becomes many times its text.
const MaxValues = 100_000

// ParseFew is ParseObject for a text that somebody else has made: one with more values than MaxValues is a fault
// before it is read.
func ParseFew(text []byte) (Object, Faults) {
	if n := CountValues(text); n > MaxValues {
		var faults Faults
		faults.Add(nil, fmt.Sprintf("the document has some %d values", n), fmt.Sprintf("at most %d are allowed", MaxValues))
		return nil, faults
	}
	return ParseObject(text)
}

// CountValues is how many values a text of JSON has at most: one for each comma and bracket outside of strings.
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

// Parse reads one JSON value, as ParseObject does an object. With faults there is no value.
func Parse(text []byte) (any, Faults) {
	p := parser{text: text}
	if !utf8.Valid(text) {
		p.faults.Add(nil, "the document is no UTF-8: "+p.place(int64(InvalidUTF8(text))), "JSON in UTF-8 is allowed")
		return nil, p.faults
	}
	p.dec = json.NewDecoder(bytes.NewReader(text))
	p.dec.UseNumber()
	v, err := p.next()
	if err == nil {
		if _, more := p.dec.Token(); !errors.Is(more, io.EOF) {
			err = errMore
		}
	}
	if err == nil {
		if at := loneSurrogate(text); at >= 0 {
			p.faults.Add(nil, "half of a surrogate pair: "+p.place(int64(at)),
				`\ud800 to \udbff are allowed before \udc00 to \udfff only`)
		}
	} else {
		p.syntax(err)
	}
	if len(p.faults) > 0 {
		p.faults.Sort()
		return nil, p.faults
	}
	return v, nil
}

var (
	errMore = errors.New("something follows the document")
	errDeep = fmt.Errorf("is nested deeper than %d", maxDepth)
)

type parser struct {
	text   []byte
	dec    *json.Decoder
	path   []string
	depth  int
	faults Faults
}

// next reads one value. An error ends the reading, a fault doesn't.
func (p *parser) next() (any, error) {
	tok, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case json.Number:
		return p.number(string(tok)), nil
	case json.Delim:
		p.depth++
		if p.depth > maxDepth {
			return nil, errDeep
		}
		read := p.object
		if tok == '[' {
			read = p.array
		}
		v, err := read()
		p.depth--
		return v, err
	}
	return tok, nil
}

func (p *parser) object() (any, error) {
	o := Object{}
	var again Repeats
	for p.dec.More() {
		tok, err := p.dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := tok.(string) // the decoder takes nothing else for a key
		p.path = append(p.path, key)
		v, err := p.next()
		if err != nil {
			return nil, err
		}
		if _, twice := o[key]; twice {
			again.Add(&p.faults, p.path[:len(p.path)-1], key)
		}
		o[key] = v
		p.path = p.path[:len(p.path)-1]
	}
	_, err := p.dec.Token()
	return o, err
}

func (p *parser) array() (any, error) {
	a := []any{}
	for p.dec.More() {
		p.path = append(p.path, strconv.Itoa(len(a)))
		v, err := p.next()
		if err != nil {
			return nil, err
		}
		a = append(a, v)
		p.path = p.path[:len(p.path)-1]
	}
	_, err := p.dec.Token()
	return a, err
}

// number keeps integers and doubles apart, as the metadata does.
func (p *parser) number(s string) any {
	if !strings.ContainsAny(s, ".eE") {
		i, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			p.faults.Add(slices.Clone(p.path), "is "+Shorten(s), "integers of 64 bits are allowed")
		}
		return i
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		p.faults.Add(slices.Clone(p.path), "is "+Shorten(s), "numbers up to 1.8e308 are allowed")
	}
	return f
}

// syntax notes an error that ended the reading.
func (p *parser) syntax(err error) {
	at, what := p.dec.InputOffset(), err.Error()
	switch {
	case errors.Is(err, errDeep):
		p.faults.Add(slices.Clone(p.path), errDeep.Error(), "")
		return
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		at, what = int64(len(p.text)), "it ends too early"
		if len(bytes.TrimSpace(p.text)) == 0 {
			what = "it is empty"
		}
	}
	p.faults.Add(slices.Clone(p.path), "is no JSON: "+p.place(at)+": "+what, "")
}

// place is where an offset is for a person.
func (p *parser) place(offset int64) string {
	before := p.text[:min(max(offset, 0), int64(len(p.text)))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d column %d", line, column)
}

// InvalidUTF8 is the offset of the first byte of a text that is no UTF-8, in bytes; the length of the text if all of it
// is.
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

// loneSurrogate is where valid JSON escapes half of a surrogate pair, -1 for nowhere: the
// decoder would put another character in its place.
func loneSurrogate(text []byte) int {
	for i := 0; i < len(text)-1; i++ {
		if text[i] != '\\' {
			continue
		}
		i++
		if text[i] != 'u' {
			continue
		}
		switch u := unit(text[i+1:]); {
		case u >= 0xdc00 && u < 0xe000:
			return i - 1
		case u >= 0xd800 && u < 0xdc00:
			rest := text[i+5:]
			if !bytes.HasPrefix(rest, []byte(`\u`)) {
				return i - 1
			}
			if low := unit(rest[2:]); low < 0xdc00 || low >= 0xe000 {
				return i - 1
			}
			i += 6
		}
	}
	return -1
}

// unit are the four hex digits at the start of b.
func unit(b []byte) uint64 {
	u, _ := strconv.ParseUint(string(b[:min(4, len(b))]), 16, 16)
	return u
}

func withArticle(kind string) string {
	switch kind {
	case "array", "object", "int64":
		return "an " + kind
	case "null":
		return kind
	}
	return "a " + kind
}
