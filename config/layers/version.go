package layers

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The known families of version strings: the seed's, and edgespan's own.
const (
	familySeed = "RELEASE_M"
	familyOwn  = "EDGESPAN_"
)

var (
	releaseVersion = regexp.MustCompile(familySeed + `([0-9]+)(?:_([0-9]+))?`)
	otherVersion   = regexp.MustCompile(`^([^0-9]+)([0-9]+)(?:_([0-9]+))?(?:_([0-9]+))?`)
	fwVersion      = regexp.MustCompile(`([^.]*\.[^.]*\.[^.]*)\.([0-9]+)`)
)

// Software is a software version string, or the name of a base file (reference §1.5).
type Software struct {
	Full         string // as given, trimmed
	Version      string // from "RELEASE_" up to "(", with '-' as '_'
	Major, Minor uint64 // of RELEASE_M<major>[_<minor>]; 0 and 0 for any other
	Family       string // the scope of comparisons: the text before the first digit
	Numbers      []uint64
}

// ParseSoftware parses a version string; every string is valid. In RELEASE_M20-12-g… the dash begins git's count of
// commits, and the version is 20.0.
func ParseSoftware(s string) Software {
	v := Software{Full: strings.TrimSpace(s)}
	body := v.Full
	if at := strings.Index(body, "RELEASE_"); at >= 0 {
		body = body[at:]
		body, _, _ = strings.Cut(body, "(")
		body = strings.TrimSpace(body)
	}
	v.Version = strings.ReplaceAll(body, "-", "_")
	if m := releaseVersion.FindStringSubmatch(body); m != nil {
		if numbers, fit := parseNumbers(m[1:]); fit {
			v.Family, v.Numbers = familySeed, numbers
			v.Major = numbers[0]
			if len(numbers) > 1 {
				v.Minor = numbers[1]
			}
			return v
		}
	}
	if m := otherVersion.FindStringSubmatch(v.Version); m != nil {
		if numbers, fit := parseNumbers(m[2:]); fit {
			v.Family, v.Numbers = m[1], numbers
			return v
		}
	}
	v.Family = v.Version
	return v
}

// parseNumbers parses the groups of a match; "" is a group that matched nothing.
func parseNumbers(texts []string) (numbers []uint64, fit bool) {
	for _, t := range texts {
		if t == "" {
			break
		}
		n, err := strconv.ParseUint(t, 10, 64)
		if err != nil {
			return nil, false
		}
		numbers = append(numbers, n)
	}
	return numbers, true
}

// isParsed reports whether v is a version of the seed's form.
func (v Software) isParsed() bool { return v.Major > 0 || v.Minor > 0 }

// Compare orders versions: those of the seed's form by number and above all others, which are ordered by family, number
// and text.
func (v Software) Compare(w Software) int {
	if v.isParsed() || w.isParsed() {
		return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor))
	}
	return cmp.Or(cmp.Compare(v.Family, w.Family), compareNumbers(v.Numbers, w.Numbers), cmp.Compare(v.Full, w.Full))
}

// compareNumbers counts a missing number as 0.
func compareNumbers(a, b []uint64) int {
	at := func(n []uint64, i int) uint64 {
		if i < len(n) {
			return n[i]
		}
		return 0
	}
	for i := range max(len(a), len(b)) {
		if c := cmp.Compare(at(a, i), at(b, i)); c != 0 {
			return c
		}
	}
	return 0
}

// FirmwareVersion is a firmware version string: its first three dotted parts, and the number of the fourth (reference
// §1.5).
type FirmwareVersion struct {
	Major string
	Minor uint64
}

// ParseFirmware parses a version string; one without four parts is all major.
func ParseFirmware(s string) FirmwareVersion {
	s = strings.TrimSpace(s)
	if m := fwVersion.FindStringSubmatch(s); m != nil {
		if minor, err := strconv.ParseUint(m[2], 10, 64); err == nil {
			return FirmwareVersion{m[1], minor}
		}
	}
	return FirmwareVersion{Major: s}
}

// SortNatural sorts file names, given without ".json", by the numbers in them, with a missing number as 0, and then as
// text: RELEASE_M2, RELEASE_M2_1, RELEASE_M11 (§1.8).
func SortNatural(names []string) { slices.SortFunc(names, CompareNatural) }

// CompareNatural is the order of SortNatural.
func CompareNatural(a, b string) int {
	x, y := a, b
	for x != "" || y != "" {
		var i, j string
		i, x = nextNumber(x)
		j, y = nextNumber(y)
		if c := cmp.Or(cmp.Compare(len(i), len(j)), cmp.Compare(i, j)); c != 0 {
			return c
		}
	}
	return cmp.Compare(a+".json", b+".json")
}

// nextNumber returns the next number in s without leading zeros, as text of any length, and the rest.
func nextNumber(s string) (number, rest string) {
	digit := func(r rune) bool { return r >= '0' && r <= '9' }
	from := strings.IndexFunc(s, digit)
	if from < 0 {
		return "", ""
	}
	rest = strings.TrimLeftFunc(s[from:], digit)
	return strings.TrimLeft(s[from:len(s)-len(rest)], "0"), rest
}
