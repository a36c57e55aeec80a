package configdb

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"edgespan/config"
)

// Go strings hold the text of JSON strings in UTF-8, with half of a surrogate pair as the three bytes that UTF-8 would
// give its number (WTF-8). So every JSON string converts to a Go string and back.

// plain are the bytes that a JSON string contains unescaped.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= ' ' && c != '"' && c != '\\'
	}
	return t
}()

// readLiteral reads a string and keeps its spelling.
func (p *parser) readLiteral() error {
	from, start := p.at, len(p.out)
	escaped, err := p.readString()
	if escaped || len(p.out)-start < p.at-from { // the string has escapes: restore its own spelling
		p.out = append(p.out[:start], p.text[from:p.at]...)
	}
	return err
}

// readString reads a string and writes its canonical spelling. It reports whether the canonical spelling has an escape.
func (p *parser) readString() (escaped bool, err error) {
	from := p.at
	i := from + 1
	for i < len(p.text) && plain[p.text[i]] {
		i++
	}
	if i < len(p.text) && p.text[i] == '"' { // no escape: the common case
		p.at = i + 1
		p.out = append(p.out, p.text[from:p.at]...)
		return false, nil
	}
	start := len(p.out)
	p.out = append(p.out, p.text[from:i]...)
	for p.at = i; p.at < len(p.text); {
		switch c := p.text[p.at]; {
		case c == '"':
			p.next()
			return bytes.IndexByte(p.out[start:], '\\') >= 0, nil
		case c == '\\':
			if err := p.readEscape(); err != nil {
				return false, err
			}
		case c < ' ':
			return false, p.syntaxError("a string has a control character in it", `must be \n, \t and \u0000 to \u001f`)
		default:
			i := p.at
			for i < len(p.text) && plain[p.text[i]] {
				i++
			}
			p.out = append(p.out, p.text[p.at:i]...)
			p.at = i
		}
	}
	return false, p.syntaxError("a string has no end", `must be " here`)
}

// readEscape reads an escape sequence.
func (p *parser) readEscape() error {
	if p.at+1 == len(p.text) {
		p.at++
		return p.syntaxError("", `must be an escape here`)
	}
	switch c := p.text[p.at+1]; c {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		p.out = append(p.out, '\\', c)
	case '/':
		p.out = append(p.out, c)
	case 'u':
		return p.readUnicode()
	default:
		return p.syntaxError("a string has an unknown escape in it",
			`must be \" \\ \/ \b \f \n \r \t and \u with four hex digits`)
	}
	p.at += 2
	return nil
}

// readUnicode reads \uXXXX, or two of them that are a surrogate pair.
func (p *parser) readUnicode() error {
	r, ok := parseHex4(p.text[p.at+2:])
	if !ok {
		return p.syntaxError(`a \u has no four hex digits`, `must be \u0000 to \uffff`)
	}
	p.at += 6
	if isHigh(r) && bytes.HasPrefix(p.text[p.at:], []byte(`\u`)) {
		if low, ok := parseHex4(p.text[p.at+2:]); ok && isLow(low) {
			p.at += 6
			r = join(r, low)
		}
	}
	p.out = appendRune(p.out, r)
	return nil
}

func isHigh(r rune) bool { return r >= 0xd800 && r < 0xdc00 }
func isLow(r rune) bool  { return r >= 0xdc00 && r < 0xe000 }

// join returns the character of a surrogate pair.
func join(high, low rune) rune { return (high-0xd800)<<10 + (low - 0xdc00) + 0x10000 }

// parseHex4 parses four hex digits.
func parseHex4(text []byte) (r rune, ok bool) {
	if len(text) < 4 {
		return 0, false
	}
	for _, c := range text[:4] {
		switch {
		case isDigit(c):
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

const hexDigits = "0123456789abcdef"

// appendRune appends one character of a string in canonical spelling.
func appendRune(b []byte, r rune) []byte {
	switch {
	case r >= 0x80 && !isHigh(r) && !isLow(r):
		return utf8.AppendRune(b, r)
	case r >= 0x80:
		return append(b, '\\', 'u', 'd', hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
	case plain[r]:
		return append(b, byte(r))
	}
	text := config.AppendText(nil, string(r))
	return append(b, text[1:len(text)-1]...)
}

// Quote returns a string as JSON.
func Quote(s string) JSON { return appendQuoted(make([]byte, 0, len(s)+2), s) }

func appendQuoted(b []byte, s string) []byte {
	if utf8.ValidString(s) {
		return config.AppendText(b, s)
	}
	b = append(b, '"')
	for len(s) > 0 {
		r, n := decodeRune(s)
		if isHigh(r) {
			if low, more := decodeRune(s[n:]); isLow(low) { // two adjacent halves of a pair
				r, n = join(r, low), n+more
			}
		}
		b, s = appendRune(b, r), s[n:]
	}
	return append(b, '"')
}

// decodeRune is utf8.DecodeRuneInString that also decodes halves of surrogate pairs.
func decodeRune(s string) (rune, int) {
	if len(s) >= 3 && s[0] == 0xed && s[1] >= 0xa0 && s[1] <= 0xbf && s[2] >= 0x80 && s[2] <= 0xbf {
		return 0xd000 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f), 3
	}
	return utf8.DecodeRuneInString(s)
}

// Text returns the decoded text of a JSON string, and false for any other value.
func (j JSON) Text() (string, bool) {
	if len(j) < 2 || j[0] != '"' {
		return "", false
	}
	return unquote(j[1 : len(j)-1]), true
}

// unquote decodes the text between the quotes of a JSON string.
func unquote(text []byte) string {
	i := bytes.IndexByte(text, '\\')
	if i < 0 {
		return string(text)
	}
	var b strings.Builder
	b.Grow(len(text))
	for ; i >= 0; i = bytes.IndexByte(text, '\\') {
		b.Write(text[:i])
		c := text[i+1]
		text = text[i+2:]
		if at := strings.IndexByte("bfnrt", c); at >= 0 {
			c = "\b\f\n\r\t"[at]
		}
		if c != 'u' {
			b.WriteByte(c)
			continue
		}
		r, _ := parseHex4(text)
		text = text[4:]
		if isHigh(r) && bytes.HasPrefix(text, []byte(`\u`)) {
			if low, _ := parseHex4(text[2:]); isLow(low) {
				r, text = join(r, low), text[6:]
			}
		}
		if isHigh(r) || isLow(r) {
			b.Write([]byte{0xed, 0x80 | byte(r>>6&0x3f), 0x80 | byte(r&0x3f)})
		} else {
			b.WriteRune(r)
		}
	}
	b.Write(text)
	return b.String()
}

// canonicalStrings returns the value with each string in the spelling of Quote.
func (j JSON) canonicalStrings() JSON {
	if bytes.IndexByte(j, '\\') < 0 {
		return j
	}
	b := make([]byte, 0, len(j))
	for at := 0; at < len(j); {
		quote := bytes.IndexByte(j[at:], '"')
		if quote < 0 {
			return append(b, j[at:]...)
		}
		b = append(b, j[at:at+quote]...)
		to := skipString(j, at+quote)
		b = appendQuoted(b, unquote(j[at+quote+1:to-1]))
		at = to
	}
	return b
}

// same reports whether two values are equal apart from the spelling of their strings.
func same(a, b JSON) bool { return (*Meter)(nil).same(a, b) }

func (m *Meter) same(a, b JSON) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if bytes.IndexByte(a, '\\') < 0 && bytes.IndexByte(b, '\\') < 0 {
		return false
	}
	m.count(4 * (len(a) + len(b)))
	m.make(len(a) + len(b))
	return bytes.Equal(a.canonicalStrings(), b.canonicalStrings())
}
