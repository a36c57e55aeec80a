package configdb

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"
)

// ToYAML formats a document as YAML in block style that Psych and YAML 1.2 readers read alike: it quotes strings that
// could be read as another type and tags numbers that Psych would read as strings (1e5) with !!float. FromYAML reads
// the same document back.
func ToYAML(v JSON) []byte {
	return appendYAMLValue(nil, v, 0)
}

// appendYAMLValue writes a value at the current column and indents all further lines.
func appendYAMLValue(b []byte, v JSON, indent int) []byte {
	switch {
	case len(v) > 2 && v[0] == '{':
		o, _ := ObjectOf(v)
		for i, m := range o.Members() {
			if i > 0 {
				b = append(b, bytes.Repeat([]byte(" "), indent)...)
			}
			b = append(appendYAMLText(b, m.Key), ':')
			b = appendYAMLNested(b, m.Value, indent+2, true)
		}
		return b
	case len(v) > 2 && v[0] == '[':
		for i, e := range v.Elements() {
			if i > 0 {
				b = append(b, bytes.Repeat([]byte(" "), indent)...)
			}
			b = append(b, '-')
			b = appendYAMLNested(b, e, indent+2, false)
		}
		return b
	}
	if text, ok := v.Text(); ok {
		b = appendYAMLText(b, text)
	} else {
		if isNumber(v) && !isPsychNumber(v) {
			b = append(b, "!!float "...)
		}
		b = append(b, v...)
	}
	return append(b, '\n')
}

// appendYAMLNested writes the value of a key or a dash.
func appendYAMLNested(b []byte, v JSON, indent int, ofKey bool) []byte {
	if ofKey && len(v) > 2 && (v[0] == '{' || v[0] == '[') {
		b = append(b, '\n')
		return appendYAMLValue(append(b, bytes.Repeat([]byte(" "), indent)...), v, indent)
	}
	return appendYAMLValue(append(b, ' '), v, indent)
}

// appendYAMLText writes a string, quoted if needed.
func appendYAMLText(b []byte, s string) []byte {
	if isPlainSafe(s) {
		return append(b, s...)
	}
	for _, c := range string(Quote(s)) {
		if c >= 0x7f && (!unicode.IsPrint(c) || c == utf8.RuneError) && c <= 0xffff {
			b = fmt.Appendf(b, `\u%04x`, c)
			continue
		}
		b = utf8.AppendRune(b, c)
	}
	return b
}
