package layers

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"edgespan/config"
)

// Library lists the names of all existing base, firmware and hardware layers, without ".json", in any order.
type Library struct {
	Base, Firmware []string
	Hardware       map[string][]string // by hardware type
	Boards         map[string]string   // hardware board id to hardware type
}

// Versions are the versions and the board that a node reports.
type Versions struct {
	Software, Firmware string
	Board              string // hardware board id
}

// Choice names the layers that belong to versions; "" means none.
type Choice struct {
	Base, Firmware, Hardware string
	Type                     string // of the board

	LatestBase, LatestHardware bool // the latest, since no name matched
	UnknownBoard               bool // no type has the given board
}

// Choose finds the layers of versions. Without a match the base is the latest, since a node needs one; firmware has no
// such fallback; hardware falls back to the latest only for a version that does not parse (reference §1.6, §1.7; seed,
// "Layered Configuration Model").
func (l Library) Choose(v Versions) Choice {
	sw := ParseSoftware(v.Software)
	c := Choice{Firmware: matchFirmware(v.Firmware, l.Firmware)}
	if c.Base = sw.match(l.Base); c.Base == "" {
		c.Base = sw.latest(l.Base)
		c.LatestBase = c.Base != ""
	}
	if v.Board == "" {
		return c
	}
	known := false
	if c.Type, known = l.Boards[v.Board]; !known {
		c.UnknownBoard = true
		return c
	}
	names := l.Hardware[c.Type]
	if c.Hardware = sw.match(names); c.Hardware == "" && !sw.isComparable(names) {
		c.Hardware = sw.latest(names)
		c.LatestHardware = c.Hardware != ""
	}
	return c
}

// match returns the name that belongs to a version: the same text, else the closest of its family that is not newer,
// else, if the version does not parse, the longest prefix of it. Of names that are equal as versions it returns the
// first in natural order.
func (v Software) match(names []string) string {
	if slices.Contains(names, v.Full) {
		return v.Full
	}
	best, bestNumbers := "", []uint64(nil)
	for _, name := range sortedNames(names) {
		if !v.isNumbered() || !v.inFamily(name) {
			continue
		}
		numbers := ParseSoftware(name).Numbers
		if compareNumbers(numbers, v.Numbers) <= 0 && (best == "" || compareNumbers(numbers, bestNumbers) > 0) {
			best, bestNumbers = name, numbers
		}
	}
	if best != "" || v.Major > 0 {
		return best
	}
	for key := v.Version; key != ""; {
		if slices.Contains(names, key) {
			return key
		}
		key = key[:max(strings.LastIndexByte(key, '_'), 0)]
	}
	return ""
}

// isNumbered reports whether a version is compared by its numbers. RELEASE_M0_3 is not, as in the original.
func (v Software) isNumbered() bool {
	return v.Major > 0 || v.Family != familySeed && len(v.Numbers) > 0
}

func (v Software) inFamily(name string) bool { return ParseSoftware(name).Family == v.Family }

// isComparable reports whether a version could have matched one of names by its number: then no match means that they
// are all newer, or of another family.
func (v Software) isComparable(names []string) bool {
	return v.isNumbered() && (v.Major > 0 || v.Family == familyOwn || slices.ContainsFunc(names, v.inFamily))
}

// latest returns the greatest name of the version's family, or of all if the family has none.
func (v Software) latest(names []string) string {
	names = sortedNames(names)
	if v.isNumbered() && slices.ContainsFunc(names, v.inFamily) {
		names = slices.DeleteFunc(names, func(n string) bool { return !v.inFamily(n) })
	}
	best := ""
	for _, name := range names {
		if best == "" || ParseSoftware(name).Compare(ParseSoftware(best)) >= 0 {
			best = name
		}
	}
	return best
}

// matchFirmware returns the name of the same major version with the closest minor that is not newer.
func matchFirmware(version string, names []string) string {
	v := ParseFirmware(version)
	if v.Major == "" {
		return ""
	}
	best, bestMinor := "", uint64(0)
	for _, name := range sortedNames(names) {
		w := ParseFirmware(name)
		if w.Major == v.Major && w.Minor <= v.Minor && (best == "" || w.Minor > bestMinor) {
			best, bestMinor = name, w.Minor
		}
	}
	return best
}

func sortedNames(names []string) []string {
	return slices.SortedFunc(slices.Values(names), CompareNatural)
}

// ParseTypes parses the document of hw_types.json, {type: [board id, …]}, into the types in natural order and the type
// of each board. A board id in two types is a fault, since it is ambiguous.
func ParseTypes(o config.Object) (types []string, boards map[string]string, faults config.Faults) {
	boards = map[string]string{}
	for _, name := range config.Keys(o) {
		if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			faults.Add([]string{name}, "invalid name of a folder", "must be a hardware type")
			continue
		}
		types = append(types, name)
		ids, ok := o[name].([]any)
		if !ok {
			faults.Add([]string{name}, fmt.Sprintf("invalid type %s", config.KindOf(o[name])),
				"must be an array of board ids")
			continue
		}
		for i, v := range ids {
			id, ok := v.(string)
			path := []string{name, strconv.Itoa(i)}
			switch other, taken := boards[id]; {
			case !ok || id == "":
				faults.Add(path, "invalid board id", "must be a string")
			case taken && other != name:
				faults.Add(path, fmt.Sprintf("duplicate board id %s, also of type %s", config.Quote(id), other),
					"must be unique")
			default:
				boards[id] = name
			}
		}
	}
	SortNatural(types)
	return types, boards, faults
}

// Types returns the hardware types, in natural order.
func (l Library) Types() []string {
	return slices.SortedFunc(maps.Keys(l.Hardware), CompareNatural)
}
