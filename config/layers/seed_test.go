package layers

import (
	"fmt"
	"slices"
	"testing"

	"edgespan/config"
)

// The seed, sentence by sentence: each sub-test is a row of docs/seeds.md.

// chosen is what Choose answers in the library of the stored files' kind.
func chosen(versions Versions) Choice {
	return Library{
		Base:     []string{"RELEASE_M80", "RELEASE_M81", "RELEASE_M9"},
		Firmware: []string{"10.9.0", "10.11.0"},
		Hardware: map[string][]string{"NXP": {"RELEASE_M80", "RELEASE_M81"}},
		Boards:   map[string]string{"NXP_LS1048A_PUMA": "NXP", "NXP_LS1088A_RDB": "NXP"},
	}.Choose(versions)
}

func TestSeed_LayeredConfigurationModel(t *testing.T) {
	// Each layer says who it is in "last", and hides what all below it have.
	var all Set
	for l := Base; l <= Node; l++ {
		all[l] = parse(t, fmt.Sprintf(`{"last":%q,%q:true}`, l, l))
	}
	upTo := func(last Layer) Set {
		var s Set
		copy(s[:], all[:last+1])
		return s
	}
	over := func(t *testing.T, l Layer) {
		t.Helper()
		o, clashes := upTo(l).Effective()
		if clashes != nil || o["last"] != l.String() || len(o) != int(l)+2 {
			t.Errorf("up to the %s layer: %s, %v", l, show(o), clashes)
		}
	}
	t.Run("TCM-L1", func(t *testing.T) { // "the union of all layers in the following order"
		for l := Base; l <= Node; l++ {
			over(t, l)
		}
		if o, _ := all.Effective(); len(o) != 7 {
			t.Errorf("the union is %s", show(o))
		}
	})
	t.Run("TCM-L2", func(t *testing.T) { // "finds the closest match …, and falls back to the latest if no match was found"
		for version, want := range map[string]Choice{
			"RELEASE_M80_3-0-g5bec98eb9": {Base: "RELEASE_M80"},
			"RELEASE_M99":                {Base: "RELEASE_M81"},
			"RELEASE_M5":                 {Base: "RELEASE_M81", LatestBase: true},
			"unheard of":                 {Base: "RELEASE_M81", LatestBase: true},
		} {
			if got := chosen(Versions{Software: version}); got != want {
				t.Errorf("%s: %+v, want %+v", version, got, want)
			}
		}
	})
	t.Run("TCM-L3", func(t *testing.T) { // "tied to a specific firmware version … on top of the initial base"
		for version, want := range map[string]string{"10.9.0.3": "10.9.0", "10.11.0.5": "10.11.0", "10.10.0.1": ""} {
			if got := chosen(Versions{Software: "RELEASE_M81", Firmware: version}); got.Firmware != want {
				t.Errorf("%s: %+v", version, got)
			}
		}
		over(t, Firmware)
	})
	// "tied to a specific hardware type … changes with software versions … on top of the firmware"
	t.Run("TCM-L4", func(t *testing.T) {
		for version, want := range map[string]string{"RELEASE_M80_3": "RELEASE_M80", "RELEASE_M81_2": "RELEASE_M81"} {
			if got := chosen(Versions{Software: version, Board: "NXP_LS1048A_PUMA"}); got.Hardware != want || got.Type != "NXP" {
				t.Errorf("%s: %+v", version, got)
			}
		}
		over(t, Hardware)
	})
	t.Run("TCM-L5", func(t *testing.T) { // "one hardware type can represent multiple board IDs"
		_, boards, faults := ParseTypes(readReal(t, "hw_versions/hw_types.json"))
		if faults != nil || len(boards) != 3 || boards["NXP_LS1048A_PUMA"] != "NXP" || boards["NXP_LS1088A_RDB"] != "NXP" {
			t.Errorf("%v, %v", boards, faults)
		}
	})
	t.Run("TCM-L12", func(t *testing.T) { // "parameters for specific nodes that were automatically set"
		over(t, Auto)
	})
	t.Run("TCM-L13", func(t *testing.T) { // "takes precedence over the base configuration and automatic overrides"
		over(t, Network)
	})
	t.Run("TCM-L6", func(t *testing.T) { // node overrides "only on specific nodes … precedence over the network overrides"
		over(t, Node)
		nodes, faults := NodeLayers(parse(t, `{"pop":{"last":"node"},"other":{}}`))
		s := upTo(Network)
		s[Node] = nodes["other"]
		if o, _ := s.Effective(); faults != nil || len(nodes) != 2 || o["last"] != "network" {
			t.Errorf("%s, %v", show(o), faults)
		}
	})
	t.Run("TCM-L8", func(t *testing.T) { // "mismatches with its computed configuration"
		o, _ := all.Effective()
		same, _ := all.Effective()
		other := config.Set(o, []string{"last"}, "somebody")
		if config.MD5(o) != config.MD5(same) || config.MD5(o) == config.MD5(other) {
			t.Error("the MD5 does not tell configs apart")
		}
	})
}

func TestSeed_SoftwareVersionStrings(t *testing.T) {
	const example = "Facebook Terragraph Release RELEASE_M60_7-0-g5bec98eb9 michaelcallahan@devvm1112 2020-12-04T15:49:48"
	t.Run("TCM-V3", func(t *testing.T) { // "the string below represents major version 60, minor version 7"
		if v := ParseSoftware(example); v.Major != 60 || v.Minor != 7 {
			t.Errorf("%+v", v)
		}
	})
	t.Run("TCM-V1", func(t *testing.T) { // "[...] RELEASE_M<major> [...]" and "[...] RELEASE_M<major>_<minor> [...]"
		for _, around := range [][2]string{{"", ""}, {"before ", ""}, {"", " after"}, {"before ", " after"}, {"a-", "-b"}} {
			if v := ParseSoftware(around[0] + "RELEASE_M60" + around[1]); v.Major != 60 || v.Minor != 0 {
				t.Errorf("%q: %+v", around, v)
			}
			if v := ParseSoftware(around[0] + "RELEASE_M60_7" + around[1]); v.Major != 60 || v.Minor != 7 {
				t.Errorf("%q: %+v", around, v)
			}
		}
	})
	t.Run("TCM-V4", func(t *testing.T) { // "optionally": any other string is a version without numbers
		for _, s := range []string{"", "M60_7", "RELEASE_60_7", "release_m60_7", "RELEASE_M"} {
			if v := ParseSoftware(s); v.Major != 0 || v.Minor != 0 {
				t.Errorf("%q: %+v", s, v)
			}
		}
	})
	t.Run("TCM-V2", func(t *testing.T) { // by the numbers "if … present"; "otherwise, string-type comparisons"
		for _, upwards := range [][2]string{
			{"z RELEASE_M9", "a RELEASE_M60"},
			{"z RELEASE_M60_7", "a RELEASE_M60_12"},
			{"z RELEASE_M60", "a RELEASE_M60_1"},
			{"cat", "fish"},
			{"asdf123", "asdf12345"},
		} {
			if a, b := ParseSoftware(upwards[0]), ParseSoftware(upwards[1]); a.Compare(b) != -1 || b.Compare(a) != 1 ||
				a.Compare(a) != 0 {
				t.Errorf("%q is not before %q", upwards[0], upwards[1])
			}
		}
		if ParseSoftware(example).Compare(ParseSoftware("RELEASE_M60_7")) != 0 {
			t.Error("what stands around the numbers counts")
		}
	})
	t.Run("TCM-L7", func(t *testing.T) { // "the latest base version (via natural sort order)"
		names := []string{"RELEASE_M9", "RELEASE_M60_12", "RELEASE_M60", "RELEASE_M60_7"}
		SortNatural(names)
		if want := []string{"RELEASE_M9", "RELEASE_M60", "RELEASE_M60_7", "RELEASE_M60_12"}; !slices.Equal(names, want) {
			t.Errorf("%v", names)
		}
	})
	// "the latest base configuration file present … is the one it should use locally"
	t.Run("TCM-X2", func(t *testing.T) {
		if got, want := chosen(Versions{}), (Choice{Base: "RELEASE_M81", LatestBase: true}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

func TestSeed_HardwareThatIsUnknown(t *testing.T) {
	t.Run("TCM-H1", func(t *testing.T) { // "a node with an unrecognized hardware board ID and version"
		if got := chosen(Versions{Software: "RELEASE_M81", Board: "ACME_1"}); !got.UnknownBoard || got.Hardware != "" {
			t.Errorf("%+v", got)
		}
		if got := chosen(Versions{Software: "RELEASE_M81", Board: "NXP_LS1088A_RDB"}); got.UnknownBoard {
			t.Errorf("%+v", got)
		}
	})
}
