package metadata

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Patterns are ECMAScript's and match the complete string byte by byte, as in the original's library: ".{8,63}" means 8
// to 63 bytes, the unit of a WPA passphrase or a socket's path. Go's expressions match characters, so pattern and text
// are widened: each byte becomes the character with its number. Syntax that differs between ECMAScript and Go is
// translated; syntax that Go lacks (look-ahead, back references, counts beyond 1000) is a fault of the metadata.

// widenBytes turns each byte into a character. ASCII text is unchanged.
func widenBytes(s string) string {
	for i := range len(s) {
		if s[i] >= 0x80 {
			wide := make([]rune, 0, len(s))
			for j := range len(s) {
				wide = append(wide, rune(s[j]))
			}
			return string(wide)
		}
	}
	return s
}

const (
	anyByte   = `\x00-\x{10FFFF}`
	blankSet  = `\t\n\v\f\r `
	printable = `\x00-\x08\x0e-\x1f\x21-\x{10FFFF}` // everything but blanks
)

// compileRegex compiles a pattern that must match a complete text.
func compileRegex(pattern string) (*regexp.Regexp, error) {
	t := translation{in: widenBytes(pattern)}
	if err := t.run(); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(`\A(?:` + t.out.String() + `)\z`)
	if err != nil {
		return nil, fmt.Errorf("can't be used: %w", err)
	}
	return re, nil
}

type translation struct {
	in  string
	at  int
	out strings.Builder
}

// run translates a pattern. "." excludes both kinds of line ends.
func (t *translation) run() error {
	depth := 0
	for t.at < len(t.in) {
		switch c := t.in[t.at]; c {
		case '\\':
			t.escape(false)
			continue
		case '[':
			t.translateClass()
			continue
		case '.':
			t.out.WriteString(`[^\n\r]`)
		case '(':
			depth++
			t.out.WriteByte(c)
		case ')':
			if depth--; depth < 0 { // it would close the group around the complete pattern
				return fmt.Errorf("a ')' too many at %d", t.at+1)
			}
			t.out.WriteByte(c)
		default:
			t.out.WriteByte(c)
		}
		t.at++
	}
	return nil
}

// translateClass translates [...]. In ECMAScript a ']' at the start ends the class: [] matches nothing, and [^]
// anything.
func (t *translation) translateClass() {
	rest := t.in[t.at:]
	switch {
	case strings.HasPrefix(rest, "[^]"):
		t.out.WriteString("[" + anyByte + "]")
		t.at += 3
		return
	case strings.HasPrefix(rest, "[]"):
		t.out.WriteString("[^" + anyByte + "]")
		t.at += 2
		return
	}
	t.out.WriteByte('[')
	t.at++
	for t.at < len(t.in) {
		switch c := t.in[t.at]; {
		case c == '\\':
			t.escape(true)
			continue
		case c == '[' && strings.HasPrefix(t.in[t.at:], "[:"): // [:alpha:], in both
			if end := strings.Index(t.in[t.at:], ":]"); end > 0 {
				t.out.WriteString(t.in[t.at : t.at+end+2])
				t.at += end + 2
				continue
			}
			t.out.WriteByte(c)
		case c == ']':
			t.out.WriteByte(c)
			t.at++
			return
		default:
			t.out.WriteByte(c)
		}
		t.at++
	}
}

// escape translates an escape: the blank classes, which include the vertical tab, \uXXXX and \cX. The others are equal
// in Go.
func (t *translation) escape(inClass bool) {
	rest := t.in[t.at:]
	take := func(n int, text string) {
		t.at += n
		t.out.WriteString(text)
	}
	set := func(s string) string {
		if inClass {
			return s
		}
		return "[" + s + "]"
	}
	switch {
	case len(rest) < 2:
		take(len(rest), rest)
	case rest[1] == 's':
		take(2, set(blankSet))
	case rest[1] == 'S':
		take(2, set(printable))
	case rest[1] == 'b' && inClass:
		take(2, `\x08`)
	case rest[1] == 'c' && len(rest) > 2:
		take(3, fmt.Sprintf(`\x%02x`, rest[2]&31))
	case rest[1] == 'u' && len(rest) >= 6:
		if u, err := strconv.ParseUint(rest[2:6], 16, 16); err == nil {
			take(6, fmt.Sprintf(`\x{%x}`, u))
			return
		}
		take(2, rest[:2])
	default:
		take(2, rest[:2])
	}
}
