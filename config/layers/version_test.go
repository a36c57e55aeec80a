package layers

import (
	"slices"
	"strings"
	"testing"
)

// The rows of the original's own test (reference §2), and ours: the dash of git describe
// is no minor version.
func TestSeed_VersionNumbersComeFromRELEASE_M(t *testing.T) {
	for _, c := range []struct {
		text, version string
		major, minor  uint64
	}{
		{"Facebook Terragraph Release RELEASE_M21 (user@dev12345 Tue Jun 5 16:01:52 PDT 2018", "RELEASE_M21", 21, 0},
		{"Facebook Terragraph Release RELEASE_M20_1 (user@dev12345 Tue Jun 5)", "RELEASE_M20_1", 20, 1},
		{"Facebook Terragraph Release RELEASE_M20_4-user (user@dev12345)", "RELEASE_M20_4_user", 20, 4},
		{"Facebook Terragraph Release RELEASE_M22_PRE1-83-g5be6d6b-user (user@dev12345)", "RELEASE_M22_PRE1_83_g5be6d6b_user",
			22, 0},
		{" asdf  ", "asdf", 0, 0},
		{"Facebook Terragraph Release RELEASE_M5 (user@dev12345)", "RELEASE_M5", 5, 0},
		{
			"Facebook Terragraph Release RELEASE_M60_7-0-g5bec98eb9 michaelcallahan@devvm1112 2020-12-04T15:49:48",
			"RELEASE_M60_7_0_g5bec98eb9 michaelcallahan@devvm1112 2020_12_04T15:49:48", 60, 7,
		},
		{"RELEASE_M20-12-gabcdef", "RELEASE_M20_12_gabcdef", 20, 0}, // the original says 20.12 here and 20.0 there
		{"RELEASE_M20-0-gabcdef", "RELEASE_M20_0_gabcdef", 20, 0},
		{"vendor_RELEASE_M23", "RELEASE_M23", 23, 0},
		{"M23", "M23", 0, 0},
		{"RELEASE_M0_3", "RELEASE_M0_3", 0, 3},
		{"RELEASE_M99999999999999999999", "RELEASE_M99999999999999999999", 0, 0},
		{"RELEASE_M7_99999999999999999999", "RELEASE_M7_99999999999999999999", 0, 0},
		{"RELEASE_M", "RELEASE_M", 0, 0},
		{"", "", 0, 0},
		{"EDGESPAN-1-2-3", "EDGESPAN_1_2_3", 0, 0},
	} {
		got := ParseSoftware(c.text)
		if got.Version != c.version || got.Major != c.major || got.Minor != c.minor || got.Full != strings.TrimSpace(c.text) {
			t.Errorf("%q: %+v, want %s %d.%d", c.text, got, c.version, c.major, c.minor)
		}
	}
}

// "If major and minor versions are present, they are used to compare different software
// versions. Otherwise, string-type comparisons are done on the full version string".
func TestSeed_VersionsAreComparedByNumberElseAsText(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"asdf", "RELEASE_M5", -1},
		{"zzz", "RELEASE_M5", -1},
		{"RELEASE_M5", "RELEASE_M20_1", -1},
		{"RELEASE_M20_1", "RELEASE_M20_4-user", -1},
		{"RELEASE_M20_4", "RELEASE_M22_PRE1-83-g5be6d6b", -1},
		{"RELEASE_M22_PRE1-83-g5be6d6b", "RELEASE_M22_PRE1-83-g5be6d6b", 0},
		{"RELEASE_M22", "RELEASE_M22_PRE1", 0},
		{"", "", 0},
		{"", "a", -1},
		{"cat", "fish", -1},
		{"blah", "blah    ", 0},
		{"asdf12345", "asdf123", 1},
		{"EDGESPAN-1-9-0", "EDGESPAN-1-10-0", -1},
		{"EDGESPAN-1", "RELEASE_M1", -1},
	} {
		a, b := ParseSoftware(c.a), ParseSoftware(c.b)
		if got := a.Compare(b); got != c.want {
			t.Errorf("%q and %q: %d, want %d", c.a, c.b, got, c.want)
		}
		if got := b.Compare(a); got != -c.want {
			t.Errorf("%q and %q: %d, want %d", c.b, c.a, got, -c.want)
		}
	}
}

func TestFirmwareVersions(t *testing.T) {
	for text, want := range map[string]FirmwareVersion{
		"10.6.0.1":                        {"10.6.0", 1},
		"10.6.0":                          {"10.6.0", 0},
		"whatever":                        {"whatever", 0},
		"10.6.0.1abc":                     {"10.6.0", 1},
		" 10.6.0.12 ":                     {"10.6.0", 12},
		"":                                {"", 0},
		"10.6.0.99999999999999999999":     {"10.6.0.99999999999999999999", 0},
		"10.6.0.x":                        {"10.6.0.x", 0},
		"Firmware: 10.11.0.5 (release) 2": {"Firmware: 10.11.0", 5},
	} {
		if got := ParseFirmware(text); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

// "The nodes will copy the latest base version (via natural sort order)" (§1.8).
func TestSeed_NaturalOrder(t *testing.T) {
	for _, want := range []string{
		"RELEASE_M1 RELEASE_M2 RELEASE_M2_1 RELEASE_M2_2 RELEASE_M11",
		"RELEASE_M2 RELEASE_M2_0",
		"RELEASE_M2-0 RELEASE_M2",
		"b1 a2",
		"a b",
		"x007y1 x7y2",
		"x1 x99999999999999999998 x99999999999999999999",
		"10.6.0 10.7.0 10.11.0",
	} {
		got := strings.Fields(want)
		for range 3 { // some other orders
			got = append(got[1:], got[0])
			SortNatural(got)
			if strings.Join(got, " ") != want {
				t.Errorf("%v, want %s", got, want)
			}
			slices.Reverse(got)
		}
	}
}

const seedBase = "RELEASE_M16 RELEASE_M17 RELEASE_M18 RELEASE_M19 RELEASE_M20 RELEASE_M20_2 RELEASE_M21 " +
	"RELEASE_M21_1 RELEASE_M22 RELEASE_M23 RELEASE_M24"

// "The controller finds the closest match for a node's software version string, and falls
// back to the latest if no match was found." The base and a hardware layer of the same
// names are asked for; a ! stands before what is the latest for want of a match.
func TestSeed_ClosestMatchElseTheLatest(t *testing.T) {
	for _, c := range []struct{ names, version, base, hardware string }{
		{seedBase, "Facebook Terragraph Release RELEASE_M21 (user@dev)", "RELEASE_M21", "RELEASE_M21"},
		{seedBase, "Facebook Terragraph Release RELEASE_M20_1 (user@dev)", "RELEASE_M20", "RELEASE_M20"},
		{seedBase, "RELEASE_M20_4-user (", "RELEASE_M20_2", "RELEASE_M20_2"},
		{seedBase, "RELEASE_M22_PRE1-83-g5be6d6b-user", "RELEASE_M22", "RELEASE_M22"},
		{seedBase, "RELEASE_M99", "RELEASE_M24", "RELEASE_M24"},
		{seedBase, "RELEASE_M20-12-gabcdef", "RELEASE_M20", "RELEASE_M20"},
		{seedBase, "RELEASE_M5", "!RELEASE_M24", ""},
		{seedBase, "asdf", "!RELEASE_M24", "!RELEASE_M24"},
		{seedBase, "M23", "!RELEASE_M24", "!RELEASE_M24"},
		{seedBase, "RELEASE_M0_3", "!RELEASE_M24", "!RELEASE_M24"},
		{seedBase, "", "!RELEASE_M24", "!RELEASE_M24"},
		{"", "RELEASE_M5", "", ""},
		{"", "asdf", "", ""},
		// The very text goes before everything else.
		{"RELEASE_M20 asdf my-build RELEASE_M20_1-user", "my-build", "my-build", "my-build"},
		{"RELEASE_M20 RELEASE_M20_1-user", "RELEASE_M20_1-user", "RELEASE_M20_1-user", "RELEASE_M20_1-user"},
		// What does not parse is cut at - and _ from its end.
		{"my my_build RELEASE_M20", "my-build-of-today", "my_build", "my_build"},
		{"my RELEASE_M20", "my-build-of-today", "my", "my"},
		{"RELEASE RELEASE_M20", "RELEASE_M5", "!RELEASE_M20", ""},
		{"RELEASE RELEASE_M20", "RELEASE_M0_3", "RELEASE", "RELEASE"},
		// Equal versions: the first in natural order, as the latest the last.
		{"RELEASE_M22_PRE1 RELEASE_M22 RELEASE_M21", "RELEASE_M22-5-g1", "RELEASE_M22", "RELEASE_M22"},
		{"RELEASE_M22_0 RELEASE_M22 RELEASE_M21", "x", "!RELEASE_M22_0", "!RELEASE_M22_0"},
		// Ours: by number, within the family.
		{"EDGESPAN_1 EDGESPAN_1_9 EDGESPAN_1_10 EDGESPAN_2 RELEASE_M81", "EDGESPAN-1-12-3", "EDGESPAN_1_10", "EDGESPAN_1_10"},
		{"EDGESPAN_1 EDGESPAN_1_9 EDGESPAN_1_10 EDGESPAN_2 RELEASE_M81", "EDGESPAN-1-9-0", "EDGESPAN_1_9", "EDGESPAN_1_9"},
		{"EDGESPAN_1 EDGESPAN_1_9 EDGESPAN_1_10 EDGESPAN_2 RELEASE_M81", "EDGESPAN-1-0-7", "EDGESPAN_1", "EDGESPAN_1"},
		{"EDGESPAN_1 EDGESPAN_10 EDGESPAN_9 RELEASE_M81", "EDGESPAN-0-9-0", "!EDGESPAN_10", ""},
		{"EDGESPAN_1 RELEASE_M81 RELEASE_M9", "RELEASE_M80", "RELEASE_M9", "RELEASE_M9"},
		{"EDGESPAN_1 RELEASE_M81", "RELEASE_M80", "!RELEASE_M81", ""},
		{"EDGESPAN_1 RELEASE_M81", "asdf", "!RELEASE_M81", "!RELEASE_M81"},
		{"EDGESPAN_9 EDGESPAN_10", "asdf", "!EDGESPAN_10", "!EDGESPAN_10"},
		{"EDGESPAN_9", "RELEASE_M80", "!EDGESPAN_9", ""},
		{"RELEASE_M81", "EDGESPAN-1-0-0", "!RELEASE_M81", ""},
		{"acme_9 acme_11", "acme-10-2", "acme_9", "acme_9"},
		{"acme_9 acme_11", "acme-8", "!acme_11", ""},
	} {
		names := strings.Fields(c.names)
		for _, turned := range []bool{false, true} {
			if turned {
				slices.Reverse(names) // the order of a folder decides nothing
			}
			l := Library{Base: names, Hardware: map[string][]string{"NXP": names}, Boards: map[string]string{"PUMA": "NXP"}}
			got := l.Choose(Versions{Software: c.version, Board: "PUMA"})
			if base := mark(got.Base, got.LatestBase); base != c.base {
				t.Errorf("base of %q in %v: %q, want %q", c.version, names, base, c.base)
			}
			if hardware := mark(got.Hardware, got.LatestHardware); hardware != c.hardware || got.Type != "NXP" {
				t.Errorf("hardware of %q in %v: %q of %q, want %q", c.version, names, hardware, got.Type, c.hardware)
			}
		}
	}
}

// The original's own test of the latest file that a node has (reference §2).
func TestTheLatestOfTheReference(t *testing.T) {
	for names, want := range map[string]string{
		"":           "",
		"RELEASE_M1": "RELEASE_M1",
		"RELEASE_M1 RELEASE_M11 RELEASE_M2 RELEASE_M2_1 RELEASE_M2_2": "RELEASE_M11",
		"RELEASE_M2 RELEASE_M2_1 RELEASE_M2_2":                        "RELEASE_M2_2",
	} {
		if got := (Library{Base: strings.Fields(names)}).Choose(Versions{}); got.Base != want ||
			got.LatestBase != (want != "") {
			t.Errorf("%s: %+v, want %s", names, got, want)
		}
	}
}

func mark(name string, latest bool) string {
	if latest {
		return "!" + name
	}
	return name
}

func TestABoardHasTheHardwareLayersOfItsType(t *testing.T) {
	l := Library{Hardware: map[string][]string{"NXP": {"RELEASE_M46"}, "X": nil},
		Boards: map[string]string{"PUMA": "NXP", "Y": "X"}}
	for board, want := range map[string]Choice{
		"":     {},
		"PUMA": {Hardware: "RELEASE_M46", Type: "NXP"},
		"Y":    {Type: "X"},
		"puma": {UnknownBoard: true},
	} {
		if got := l.Choose(Versions{Software: "RELEASE_M50", Board: board}); got != want {
			t.Errorf("board %q: %+v, want %+v", board, got, want)
		}
	}
}

// Firmware: the same three parts, the closest fourth that is not newer, and no fallback.
func TestSeed_FirmwareMatch(t *testing.T) {
	for _, c := range []struct{ names, version, want string }{
		{"10.5.0 10.6.0 10.7.0 10.9.0", "10.6.0.1", "10.6.0"},
		{"10.5.0 10.6.0 10.7.0 10.9.0", "10.6.0.3", "10.6.0"},
		{"", "whatever", ""},
		{"10.6.0 10.7.0", "10.5.0.1", ""},
		{"10.6.0 10.7.0", "10.7.0.3", "10.7.0"},
		{"10.6.0 10.7.0", "10.7.0.9", "10.7.0"},
		{"10.6.0 10.7.0", "10.8.0.3", ""},
		{"10.9.0 10.11.0", "10.11.0.5", "10.11.0"},
		{"10.9.0 10.11.0", "10.10.0.1", ""},
		{"10.9.0 10.11.0", "10.9.0", "10.9.0"},
		{"10.9.0 10.9.0.2 10.9.0.10 10.9.0.12", "10.9.0.11", "10.9.0.10"},
		{"10.9.0.2", "10.9.0.1", ""},
		{"10.9.0", "", ""},
		{"whatever", "whatever", "whatever"},
	} {
		names := strings.Fields(c.names)
		for range names {
			names = append(names[1:], names[0])
			if got := (Library{Firmware: names}).Choose(Versions{Firmware: c.version}).Firmware; got != c.want {
				t.Errorf("firmware of %q in %v: %q, want %q", c.version, names, got, c.want)
			}
		}
	}
}

// FuzzVersions: every text is a version, its order is one, and what is chosen is there.
func FuzzVersions(f *testing.F) {
	for _, s := range []string{"RELEASE_M60_7-0-g5bec98eb9 (x", "EDGESPAN-1-2-3", "", "_", "10.6.0.1", "RELEASE_M0",
		"a\xff1"} {
		f.Add(s, "RELEASE_M60", "EDGESPAN_1")
	}
	f.Fuzz(func(t *testing.T, version, x, y string) {
		names := []string{x, y, "RELEASE_M20"}
		l := Library{Base: names, Firmware: names, Hardware: map[string][]string{"T": names},
			Boards: map[string]string{"B": "T"}}
		c := l.Choose(Versions{version, version, "B"})
		if !slices.Contains(names, c.Base) {
			t.Errorf("base of %q in %q is %q", version, names, c.Base)
		}
		for _, n := range []string{c.Firmware, c.Hardware} {
			if n != "" && !slices.Contains(names, n) {
				t.Errorf("%q in %q gives %q", version, names, n)
			}
		}
		slices.Reverse(names)
		if again := l.Choose(Versions{version, version, "B"}); again != c {
			t.Errorf("%q in %q: %+v, in another order %+v", version, names, c, again)
		}
		a, b := ParseSoftware(x), ParseSoftware(y)
		if a.Compare(b) != -b.Compare(a) || a.Compare(a) != 0 || CompareNatural(x, y) != -CompareNatural(y, x) {
			t.Errorf("%q and %q have no order", x, y)
		}
	})
}
