package kv

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxKey is the most bytes that a key may have.
const MaxKey = 1024

// Key names one value of the store: segments joined by slashes, as in
// "layers/node/ulm-1". Keys are ordered by their bytes.
type Key string

// Prefix names all keys of a folder, in any depth: a key and a slash, as in
// "layers/node/". The empty prefix names all keys. It never names a part of a
// segment: "node/1/" has nothing of node/10.
type Prefix string

// Check says what is wrong with the form of a key: it is UTF-8 of at most MaxKey
// bytes, has no control character, and no empty segment.
func (k Key) Check() error {
	if fault := faultOf(string(k)); fault != "" {
		return fmt.Errorf("key %.80q: %s: %w: must be segments of printable UTF-8 joined by single slashes, of at most %d "+
			"bytes",
			string(k), fault, ErrInvalid, MaxKey)
	}
	return nil
}

// Check says what is wrong with the form of a prefix.
func (p Prefix) Check() error {
	if p == "" {
		return nil
	}
	folder, slash := strings.CutSuffix(string(p), "/")
	fault := "no slash at its end"
	if slash {
		fault = faultOf(folder)
	}
	if fault != "" {
		return fmt.Errorf("prefix %.80q: %s: %w: must be a key followed by a slash, or empty for all keys",
			string(p), fault, ErrInvalid)
	}
	return nil
}

func faultOf(text string) string {
	switch {
	case text == "":
		return "empty"
	case len(text) > MaxKey:
		return fmt.Sprintf("%d bytes", len(text))
	case !utf8.ValidString(text):
		return "not UTF-8"
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "a control character"
	case text[0] == '/' || text[len(text)-1] == '/' || strings.Contains(text, "//"):
		return "an empty segment"
	}
	return ""
}

// Has says whether a key lies below a prefix.
func (p Prefix) Has(k Key) bool { return strings.HasPrefix(string(k), string(p)) }

// Below is the prefix of the keys that lie below this one.
func (k Key) Below() Prefix { return Prefix(k + "/") }
