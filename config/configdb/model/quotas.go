package model

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The quotas. What is beyond one is a Fault of kind TooLarge; a name beyond its own is Invalid.
const (
	// MaxDocument is the most bytes of the values or overrides of a record, and of a definition's content.
	// It has configdb.MaxValues members and elements. An earlier release took 8 MiB, which stay and are read.
	MaxDocument = 4 << 20
	// MaxOwn is the most bytes that one node may upload of itself, in all of an environment's resources; MaxOwnPast how
	// many of older versions of one half stay, MaxOwnPasts of those of one place. 14 sources of 76 KB are 1 MB.
	MaxOwn      = 32 << 20
	MaxOwnPast  = 4 << 20
	MaxOwnPasts = 32 << 20
	// MaxRecords is the most records of one environment: 14 sources of 70,000 nodes.
	MaxRecords = 1_000_000
	// MaxThings is the most components, definitions and environments, of each.
	MaxThings = 20_000
	// MaxLevels is the most levels and the most components of one environment, MaxMembers the most definitions of one
	// component.
	MaxLevels  = 32
	MaxMembers = 2000
	// MaxBulk is the most writes of a Bulk.
	MaxBulk = 5000
	// MaxChanges is the most bytes of what one revision says of its changes, compressed.
	MaxChanges = 1 << 20
	// MaxRecord is the most bytes of it, and of who wrote it and why, when it is unpacked.
	MaxRecord = 4 << 20
	// MaxResources and MaxKeys are the most of one lookup, MaxSecrets the most secrets that one definition declares.
	MaxResources = 64
	MaxKeys      = 1000
	MaxKeyBytes  = 512 << 10 // of all keys of a lookup
	MaxSecrets   = 1000
	MaxTags      = 64 // of an If-Match
	// MaxName is the most characters of a name, the original's limit; MaxValue the most bytes of the value of a
	// level and of a node's names.
	MaxName  = 128
	MaxValue = 256
	// MaxID is the largest id, the original's limit.
	MaxID = 1<<31 - 1
)

// checkName says what is wrong with a name.
func checkName(what, name string) *Fault {
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

func checkLevelName(name string) *Fault {
	if f := checkName("level", name); f != nil {
		return f
	}
	if name == "resources" || strings.Contains(name, "/") {
		return invalid("name of a level: %q: would make paths ambiguous: must be another than \"resources\", without a slash",
			name)
	}
	return nil
}

// checkValue says what is wrong with the value of a level or the name of a node.
func checkValue(what, value string) *Fault {
	if value == "" || len(value) > MaxValue || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return invalid("%s: %q: must be 1 to %d bytes of UTF-8 without control characters", what, value, MaxValue)
	}
	return nil
}

func checkID(what string, id int64) *Fault {
	if id < 1 || id > MaxID {
		return invalid("id of a %s: invalid value %d: must be 1 to %d", what, id, MaxID)
	}
	return nil
}
