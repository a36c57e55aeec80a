package nodeconf

import (
	"crypto/md5" //nolint:gosec // names a config, and guards nothing
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"edgespan/config"
)

// digest is the MD5 of a document's canonical form, in hex: what the fleet compares
// configs by (design §4). How the document was written down does not count.
// size is about the length of that form, in bytes.
func digest(root *node, size int) string {
	sum := md5.Sum(appendCanonical(make([]byte, 0, size), root, 0)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// appendCanonical appends a valid document as JSON with sorted keys, two blanks a level
// and no final newline.
func appendCanonical(b []byte, n *node, level int) []byte {
	switch n.kind {
	case mapping:
		return appendFields(b, n.fields, level)
	case text:
		return config.AppendText(b, n.text)
	case number:
		if i, err := strconv.ParseInt(n.text, 10, 64); err == nil { // no field takes another
			return strconv.AppendInt(b, i, 10)
		}
		return append(b, n.text...)
	case boolean:
		return append(b, n.text...)
	case null:
		return append(b, "null"...)
	case list: // no field takes one
		return append(b, "[]"...)
	}
	return b
}

func appendFields(b []byte, fields []field, level int) []byte {
	if len(fields) == 0 {
		return append(b, "{}"...)
	}
	byKey := func(x, y field) int { return strings.Compare(x.key, y.key) }
	if !slices.IsSortedFunc(fields, byKey) {
		fields = slices.Clone(fields)
		slices.SortFunc(fields, byKey)
	}
	b = append(b, '{')
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = config.AppendLine(b, level+1)
		b = config.AppendText(b, f.key)
		b = append(b, ": "...)
		b = appendCanonical(b, f.value, level+1)
	}
	return append(config.AppendLine(b, level), '}')
}
