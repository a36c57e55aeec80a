package nodeconf

import (
	"cmp"
	"crypto/md5" //nolint:gosec // names a config, and guards nothing
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// digest is the MD5 of a document's canonical form, in hex: what the fleet compares
// configs by (design §4). How the document was written down does not count.
func digest(root *node) string {
	var b strings.Builder
	writeCanonical(&b, root, "\n")
	sum := md5.Sum([]byte(b.String())) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// writeCanonical writes a valid document as JSON with sorted keys, two blanks a level and
// no final newline. lineEnd is a newline with the indent of the level.
func writeCanonical(b *strings.Builder, n *node, lineEnd string) {
	switch n.kind {
	case mapping:
		if len(n.fields) == 0 {
			b.WriteString("{}")
			return
		}
		fields := slices.SortedFunc(slices.Values(n.fields), func(x, y field) int { return cmp.Compare(x.key, y.key) })
		b.WriteByte('{')
		for i, f := range fields {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(lineEnd + "  ")
			writeCanonicalText(b, f.key)
			b.WriteString(": ")
			writeCanonical(b, f.value, lineEnd+"  ")
		}
		b.WriteString(lineEnd + "}")
	case text:
		writeCanonicalText(b, n.text)
	case number:
		if i, err := strconv.ParseInt(n.text, 10, 64); err == nil { // no field takes another
			b.WriteString(strconv.FormatInt(i, 10))
			return
		}
		b.WriteString(n.text)
	case boolean:
		b.WriteString(n.text)
	case null:
		b.WriteString("null")
	case list: // no field takes one
		b.WriteString("[]")
	}
}

// writeCanonicalText escapes only what JSON asks for (RFC 8259 §7).
func writeCanonicalText(b *strings.Builder, s string) {
	short := map[rune]string{'"': `\"`, '\\': `\\`, '\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}
	b.WriteByte('"')
	for _, r := range s {
		switch e, is := short[r]; {
		case is:
			b.WriteString(e)
		case r < 0x20:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
