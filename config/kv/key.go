package kv

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxKey is the maximum length of a key in bytes.
const MaxKey = 1024

// Key names one value of the store: segments joined by slashes, as in "layers/node/ulm-1". Keys are ordered by their
// bytes.
type Key string

// Prefix names all keys of a folder at any depth: a key and a slash, as in "layers/node/". The empty prefix names all
// keys. A prefix always ends at a segment: "node/1/" does not contain node/10.
type Prefix string

// Check returns an error unless the key is UTF-8 of at most MaxKey bytes without control characters or empty segments.
func (k Key) Check() error {
	if fault := faultOf(string(k)); fault != "" {
		return fmt.Errorf("key %.80q: %s: %w: must be segments of printable UTF-8 joined by single slashes, of at most %d "+
			"bytes",
			string(k), fault, ErrInvalid, MaxKey)
	}
	return nil
}

// Check returns an error if the prefix is malformed.
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

// Has reports whether a key is below the prefix.
func (p Prefix) Has(k Key) bool { return strings.HasPrefix(string(k), string(p)) }

// Below returns the prefix of the keys below k.
func (k Key) Below() Prefix { return Prefix(k + "/") }
