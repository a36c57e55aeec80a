package model

import (
	"fmt"
	"strconv"
	"strings"

	"edgespan/config/kv"
)

// Below is the prefix that Follow needs: watch it after State.LastRevision.
const Below kv.Prefix = "facts/"

const (
	folderRevisions    = "facts/revisions/"
	folderComponents   = "facts/components/"
	folderDefinitions  = "facts/definitions/"
	folderEnvironments = "facts/environments/"
	folderNodes        = "facts/nodes/"
	folderNow          = "facts/now/"
	folderPaths        = "facts/paths/"
	folderBlobs        = "facts/blobs/"
	folderSets         = "facts/sets/"
)

// rootValue replaces the value of the root in keys, since the root has none; escape never produces it.
const rootValue = "%"

// HeadKey returns the key that every write of ConfigDB compares and updates.
func HeadKey() kv.Key { return "facts/head" }

func hex16(n uint64) string { return fmt.Sprintf("%016x", n) }

func serialKey(folder string, serial uint64) kv.Key {
	return kv.Key(folder + hex16(serial))
}

func revisionKey(number uint64) kv.Key { return serialKey(folderRevisions, number) }

func nodeKey(environment uint64, id string) kv.Key {
	return kv.Key(folderNodes + hex16(environment) + "/" + escape(id))
}

// place is one level value of an environment, or its root, whose level is 0.
type place struct {
	environment uint64
	level       uint64
	value       string // escaped, as in the key
}

func placeOf(environment, level uint64, value string) place {
	if level == 0 {
		return place{environment, 0, rootValue}
	}
	return place{environment, level, escape(value)}
}

// name identifies the place within its environment.
func (p place) name() string { return hex16(p.level) + "/" + p.value }

func (p place) path() string { return hex16(p.environment) + "/" + p.name() }

// pathKey returns the key that records a write below the place.
func (p place) pathKey() kv.Key { return kv.Key(folderPaths + p.path()) }

func (p place) nowKey(definition uint64) kv.Key {
	return kv.Key(folderNow + p.path() + "/" + hex16(definition))
}

func (p place) versionKey(k Kind, definition, n uint64) kv.Key {
	return kv.Key("facts/" + string(k) + "/" + p.path() + "/" + hex16(definition) + "/" + hex16(n))
}

func blobKey(sha string, part int) kv.Key {
	return kv.Key(fmt.Sprintf("%s%s/%08x", folderBlobs, sha, part))
}

func setKey(id string, part int) kv.Key {
	return kv.Key(fmt.Sprintf("%s%s/%08x", folderSets, id, part))
}

// segments returns the segments of a key after its folder, or nil if their number differs from desired.
func segments(k kv.Key, folder string, desired int) []string {
	s := strings.Split(strings.TrimPrefix(string(k), folder), "/")
	if len(s) != desired {
		return nil
	}
	return s
}

func parseHex(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil || len(s) != 16 {
		return 0, fmt.Errorf("segment %q of a key: must be 16 hex digits", s)
	}
	return n, nil
}

const hexDigits = "0123456789ABCDEF"

// escape encodes a non-empty text as one segment of a key: it keeps ASCII letters, digits, '-', '_' and '.', and writes
// every other byte as %XX.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hexDigits[c>>4])
		b.WriteByte(hexDigits[c&15])
	}
	return b.String()
}

// unescape decodes the output of escape.
func unescape(segment string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(segment); i++ {
		if segment[i] != '%' {
			b.WriteByte(segment[i])
			continue
		}
		if i+3 > len(segment) {
			return "", fmt.Errorf("segment %q of a key: must be spelled by escape", segment)
		}
		c, err := strconv.ParseUint(segment[i+1:i+3], 16, 8)
		if err != nil {
			return "", fmt.Errorf("segment %q of a key: must be spelled by escape", segment)
		}
		b.WriteByte(byte(c))
		i += 2
	}
	return b.String(), nil
}
