package model

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The quotas. Exceeding one is a Fault of kind TooLarge; a name that is too long is Invalid.
const (
	// MaxDocument limits the bytes of the values or overrides of a record, and of a definition's content;
	// configdb.MaxValues limits its members and elements. An earlier release accepted 8 MiB; such documents remain
	// readable.
	MaxDocument = 4 << 20
	// MaxOwn limits the bytes that one node may upload about itself to all resources of an environment. MaxOwnPast limits
	// the bytes of older versions that are kept for one half, MaxOwnPasts those for one place. 14 sources of 76 KB are 1
	// MB.
	MaxOwn      = 32 << 20
	MaxOwnPast  = 4 << 20
	MaxOwnPasts = 32 << 20
	// MaxRecords limits the records of one environment: 14 sources of 70,000 nodes.
	MaxRecords = 1_000_000
	// MaxThings limits the number of components, of definitions and of environments.
	MaxThings = 20_000
	// MaxLevels limits the levels and the components of one environment, MaxMembers the definitions of one component.
	MaxLevels  = 32
	MaxMembers = 2000
	// MaxBulk limits the writes of a Bulk.
	MaxBulk = 5000
	// MaxChanges limits the compressed bytes of a revision's record.
	MaxChanges = 1 << 20
	// MaxRecord limits the uncompressed bytes of a revision's record.
	MaxRecord = 4 << 20
	// MaxResources and MaxKeys limit one lookup, MaxSecrets the secrets that one definition declares.
	MaxResources = 64
	MaxKeys      = 1000
	MaxKeyBytes  = 512 << 10 // of all keys of a lookup
	MaxSecrets   = 1000
	MaxTags      = 64 // of an If-Match
	// MaxName limits the characters of a name, as in the original; MaxValue limits the bytes of a level's value and of a
	// node's names.
	MaxName  = 128
	MaxValue = 256
	// MaxID is the largest id, as in the original.
	MaxID = 1<<31 - 1
)

// checkName returns a fault for an invalid name.
func checkName(what, name string) *RequestError {
	switch {
	case name == "":
		return invalid("name of a %s: required: must be 1 to %d characters", what, MaxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return invalid("name of a %s: %q: has a control character or is not UTF-8: must be other characters", what, name)
	case utf8.RuneCountInString(name) > MaxName:
		return invalid("name of a %s: invalid length of %d characters: must be 1 to %d", what, utf8.RuneCountInString(name),
			MaxName)
	}
	return nil
}

func checkLevelName(name string) *RequestError {
	if f := checkName("level", name); f != nil {
		return f
	}
	if name == "resources" || strings.Contains(name, "/") {
		return invalid("name of a level: %q: would make paths ambiguous: must be another than \"resources\", without a slash",
			name)
	}
	return nil
}

// checkValue returns a fault for an invalid value of a level or name of a node.
func checkValue(what, value string) *RequestError {
	if value == "" || len(value) > MaxValue || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return invalid("%s: %q: must be 1 to %d bytes of UTF-8 without control characters", what, value, MaxValue)
	}
	return nil
}

func checkID(what string, id int64) *RequestError {
	if id < 1 || id > MaxID {
		return invalid("id of a %s: invalid value %d: must be 1 to %d", what, id, MaxID)
	}
	return nil
}
