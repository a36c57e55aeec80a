package config

import (
	"crypto/md5" //nolint:gosec // names a config, and guards nothing
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"
)

// MD5 returns the MD5 of a document's canonical form, in hex. The fleet compares configs by it (reference
// terragraph-config §1.3).
func MD5(o Object) string {
	var h Hasher
	return h.MD5(o)
}

// Hasher computes MD5s one after another and reuses its memory. Its zero value is ready.
type Hasher struct{ w writer }

// MD5 returns the same digest as the function MD5.
func (h *Hasher) MD5(o Object) string {
	h.w.out = h.w.out[:0]
	h.w.writeValue(o, 0)
	sum := md5.Sum(h.w.out) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// AppendCanonical appends the canonical form of a value to b: JSON with keys sorted by their bytes, two spaces per
// level, no final newline, numbers in their shortest form (1.0 is 1), and only the escapes that RFC 8259 §7 requires.
// The result equals, byte for byte, the output of the original's library.
func AppendCanonical(b []byte, v any) []byte {
	w := writer{out: b}
	w.writeValue(v, 0)
	return w.out
}

// OneLine returns the canonical form of a value without line breaks and indents, for a message.
func OneLine(v any) string {
	lines := strings.Split(string(AppendCanonical(nil, v)), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimLeft(l, " ")
	}
	return strings.Join(lines, "")
}

// writer keeps one stack of keys for all levels, so that a document costs few allocations.
type writer struct {
	out  []byte
	keys []string
}

func (w *writer) writeValue(v any, level int) {
	switch v := v.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case int64:
		w.out = strconv.AppendInt(w.out, v, 10)
	case float64:
		w.out = appendFloat(w.out, v)
	case string:
		w.out = AppendText(w.out, v)
	case []any:
		w.writeArray(v, level)
	case Object:
		w.writeObject(v, level)
	}
}

func (w *writer) writeObject(o Object, level int) {
	if len(o) == 0 {
		w.out = append(w.out, "{}"...)
		return
	}
	first := len(w.keys)
	for key := range o {
		w.keys = append(w.keys, key)
	}
	slices.Sort(w.keys[first:])
	w.out = append(w.out, '{')
	for i := range len(o) {
		key := w.keys[first+i] // writing a value may move the slice
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.startLine(level + 1)
		w.out = AppendText(w.out, key)
		w.out = append(w.out, ": "...)
		w.writeValue(o[key], level+1)
	}
	w.keys = w.keys[:first]
	w.startLine(level)
	w.out = append(w.out, '}')
}

func (w *writer) writeArray(a []any, level int) {
	if len(a) == 0 {
		w.out = append(w.out, "[]"...)
		return
	}
	w.out = append(w.out, '[')
	for i, v := range a {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.startLine(level + 1)
		w.writeValue(v, level+1)
	}
	w.startLine(level)
	w.out = append(w.out, ']')
}

const blanks = "                                "

// startLine starts a new line at a level.
func (w *writer) startLine(level int) { w.out = AppendLine(w.out, level) }

// AppendLine appends a newline and the indent of a level of the canonical form.
func AppendLine(b []byte, level int) []byte {
	b = append(b, '\n')
	for n := 2 * level; n > 0; n -= len(blanks) {
		b = append(b, blanks[:min(n, len(blanks))]...)
	}
	return b
}

const hexDigits = "0123456789abcdef"

// AppendText appends a string in its canonical form.
func AppendText(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		b = append(append(b, s[from:i]...), '\\')
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, c)
		case '\b':
			b = append(b, 'b')
		case '\f':
			b = append(b, 'f')
		case '\n':
			b = append(b, 'n')
		case '\r':
			b = append(b, 'r')
		case '\t':
			b = append(b, 't')
		default:
			b = append(b, 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(append(b, s[from:]...), '"')
}

// appendFloat writes a number as double-conversion does: the shortest digits that parse to the same number, an exponent
// only below 1e-6 and from 1e21 on, as E-7 and E21.
func appendFloat(b []byte, f float64) []byte {
	if abs := math.Abs(f); f == 0 || abs >= 1e-6 && abs < 1e21 {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	start := len(b)
	b = strconv.AppendFloat(b, f, 'E', -1, 64)
	e := start + slices.Index(b[start:], 'E') + 1
	sign := e
	if b[e] == '-' {
		sign++
	} else {
		b = slices.Delete(b, e, e+1) // no plus
	}
	if b[sign] == '0' { // strconv writes two digits at least
		b = slices.Delete(b, sign, sign+1)
	}
	return b
}
