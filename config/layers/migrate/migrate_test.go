package migrate

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
)

const real = "../../testdata/terragraph/"

func object(t testing.TB, text string) config.Object {
	t.Helper()
	o, faults := config.ParseObject([]byte(text))
	if faults != nil {
		t.Fatalf("%s: %v", text, faults)
	}
	return o
}

func file(t testing.TB, name string) config.Object {
	t.Helper()
	text, err := os.ReadFile(real + name)
	if err != nil {
		t.Fatal(err)
	}
	return object(t, string(text))
}

func text(v any) string { return string(config.AppendCanonical(nil, v)) }

func say(changes []Change) string {
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = c.Version + " " + config.FormatPath(c.From) + " > " + config.FormatPath(c.To)
		if c.Kept {
			lines[i] += " kept"
		}
	}
	return strings.Join(lines, "\n")
}

// Seed, "Breaking Changes": moving and renaming fields between the old and the new version.
func TestSeed_MovedAndRenamedFieldsAreMigrated(t *testing.T) {
	const eapol = "radioParamsBase.wsecParams.eapolParams"
	for _, c := range []struct{ name, in, want, changes, faults string }{
		{"nothing is due", `{"sysParams": {}, "envParams": {"FW_IF2IF": "1"}}`,
			`{"sysParams": {}, "envParams": {"FW_IF2IF": "1"}}`, "", ""},
		{
			"a move leaves no empty objects of its own behind",
			`{"radioParamsBase": {"wsecParams": {"eapolParams": {"radius_server_port": 1}}}, "sysParams": {}}`,
			`{"eapolParams": {"radius_server_port": 1}, "sysParams": {}}`, "RELEASE_M78 " + eapol + " > eapolParams", "",
		},
		{
			"what is set at the new place stays, the rest comes",
			`{"radioParamsBase": {"wsecParams": {"eapolParams": {"a": 1, "b": {"c": 2, "d": 3}, "e": 5}, "x": 1}}, ` +
				`"eapolParams": {"a": 9, "b": {"c": 8}, "e": 5}}`,
			`{"radioParamsBase": {"wsecParams": {"x": 1}}, "eapolParams": {"a": 9, "b": {"c": 8, "d": 3}, "e": 5}}`,
			"RELEASE_M78 " + eapol + ".a > eapolParams.a kept\nRELEASE_M78 " + eapol +
				".b.c > eapolParams.b.c kept\nRELEASE_M78 " + eapol + ".b.d > eapolParams.b.d\nRELEASE_M78 " + eapol +
				".e > eapolParams.e", "",
		},
		{
			"an object and something else can't be one",
			`{"radioParamsBase": {"wsecParams": {"eapolParams": {"a": {}, "b": 1}}}, "eapolParams": {"a": 1, "b": {}}}`, "", "",
			eapol + ".a: invalid type object, other than that of eapolParams.a (int64): must be the same kind in both\n" +
				eapol + ".b: invalid type int64, other than that of eapolParams.b (object): must be the same kind in both",
		},
		{
			"nothing moves below what is no object",
			`{"statsAgentParams": {"statsBlacklist": {"a": "b"}, "publisherParams": 5}}`, "", "",
			"statsAgentParams.statsBlacklist: can't move to statsAgentParams.publisherParams.statsBlacklist: " +
				"statsAgentParams.publisherParams has the invalid type int64: must be an object there",
		},
		{
			"prefixes become an expression", `{"envParams": {"OPENR_IFACE_PREFIXES": "terra, nic1,a.b"}}`,
			`{"envParams": {"OPENR_IFACE_REGEX_INCLUDE": "(terra|nic1|a\\.b).*"}}`,
			"RELEASE_M79 envParams.OPENR_IFACE_PREFIXES > envParams.OPENR_IFACE_REGEX_INCLUDE", "",
		},
		{
			"a value of another type can't be converted", `{"envParams": {"OPENR_IFACE_PREFIXES": 5}}`, "", "",
			"envParams.OPENR_IFACE_PREFIXES: invalid type int64: must be a string with a list of prefixes: so that it can " +
				"become " +
				"envParams.OPENR_IFACE_REGEX_INCLUDE of RELEASE_M79",
		},
		{
			"the source becomes a collector",
			`{"statsAgentParams": {"sources": {"openr": {"enabled": false, "zmq_url": "u"}, "x": {}}}}`,
			`{"statsAgentParams": {"collectors": {"openrStatsEnabled": false}, "sources": {"x": {}}}}`,
			"RELEASE_M60 statsAgentParams.sources.openr.enabled > statsAgentParams.collectors.openrStatsEnabled\nRELEASE_M60 " +
				"statsAgentParams.sources.openr > ", "",
		},
	} {
		in := object(t, c.in)
		got, changes, faults := Run(Node, in, Range{})
		if faults.Error() != c.faults || say(changes) != c.changes {
			t.Errorf("%s: changes\n%s\nfaults\n%v\nwant\n%s\n%s", c.name, say(changes), faults, c.changes, c.faults)
		}
		if c.faults == "" && text(got) != text(object(t, c.want)) {
			t.Errorf("%s: %s\nwant %s", c.name, text(got), c.want)
		}
		if text(in) != text(object(t, c.in)) {
			t.Errorf("%s: what was given was changed to %s", c.name, text(in))
		}
	}
}

// What the migrations make of the real base files is what the next real base file has: the
// moved keys are there with their values, and none of the old ones is.
func TestMigrationsFollowTheRealReleases(t *testing.T) {
	for _, c := range []struct{ before, after, at, old string }{
		{"base_versions/RELEASE_M44.json", "base_versions/RELEASE_M46.json",
			"statsAgentParams.publisherParams.highFrequencyStatsWhitelist", "statsAgentParams.nmsPublisherParams"},
		{"base_versions/RELEASE_M44.json", "base_versions/RELEASE_M46.json",
			"statsAgentParams.publisherParams.statsBufferSize", "statsAgentParams.nmsPublisherParams"},
		{"base_versions/RELEASE_M44.json", "base_versions/RELEASE_M46.json",
			"statsAgentParams.endpointParams.nmsPublisherParams.zmqSndHwm", "statsAgentParams.statsBlacklist"},
		{"base_versions/RELEASE_M58.json", "base_versions/RELEASE_M60.json", "statsAgentParams.collectors.openrStatsEnabled",
			"statsAgentParams.sources.openr"},
		{"base_versions/RELEASE_M76.json", "base_versions/RELEASE_M78.json", "eapolParams",
			"radioParamsBase.wsecParams.eapolParams"},
		{"base_versions/hw_versions/NXP/RELEASE_M78.json", "base_versions/hw_versions/NXP/RELEASE_M79.json",
			"envParams.OPENR_IFACE_REGEX_INCLUDE", "envParams.OPENR_IFACE_PREFIXES"},
	} {
		at, old := strings.Split(c.at, "."), strings.Split(c.old, ".")
		before, after := file(t, c.before), file(t, c.after)
		if _, has := config.Lookup(before, old); !has {
			t.Fatalf("%s has no %s", c.before, c.old)
		}
		got, _, faults := Run(Node, before, Range{})
		if faults != nil {
			t.Fatalf("%s: %v", c.before, faults)
		}
		now, _ := config.Lookup(got, at)
		want, _ := config.Lookup(after, at)
		if want == nil || text(now) != text(want) {
			t.Errorf("%s: %s is %s, in %s %s", c.before, c.at, text(now), c.after, text(want))
		}
		if _, has := config.Lookup(got, old); has {
			t.Errorf("%s: %s is still there", c.before, c.old)
		}
	}
}

// The newest metadata knows every key that a migration moves to, so overrides with old
// keys, which it would only warn of, count again.
func TestMigratedKeysAreKnownToTheNewestMetadata(t *testing.T) {
	m, faults := metadata.Parse(file(t, "config_metadata.json"), metadata.Options{})
	if faults != nil {
		t.Fatal(faults)
	}
	got, changes, faults := Run(Node, file(t, "base_versions/RELEASE_M44.json"), Range{})
	if faults != nil || len(changes) < 5 {
		t.Fatalf("%d changes, faults %v", len(changes), faults)
	}
	report := m.Validate(got)
	for _, unknown := range report.Unknown {
		for _, c := range changes {
			if c.To != nil && slices.Equal(unknown[:min(len(unknown), len(c.To))], c.To[:min(len(unknown), len(c.To))]) {
				t.Errorf("%v moved to what is unknown: %v", c, unknown)
			}
		}
	}
	if faults := report.Err(); faults != nil {
		t.Error(faults)
	}
}

func TestRange(t *testing.T) {
	in := file(t, "base_versions/RELEASE_M44.json")
	for _, c := range []struct {
		r    Range
		want []string // versions of the migrations that ran
		bad  string
	}{
		{Range{}, []string{"RELEASE_M46", "RELEASE_M60", "RELEASE_M78", "RELEASE_M79"}, ""},
		{Range{To: "RELEASE_M60"}, []string{"RELEASE_M46", "RELEASE_M60"}, ""},
		{Range{To: "RELEASE_M59_9"}, []string{"RELEASE_M46"}, ""},
		{Range{From: "RELEASE_M46"}, []string{"RELEASE_M60", "RELEASE_M78", "RELEASE_M79"}, ""},
		{Range{From: "Facebook Terragraph Release RELEASE_M60_7-0-g5bec98eb9 x@y", To: "RELEASE_M78"},
			[]string{"RELEASE_M78"}, ""},
		{Range{From: "RELEASE_M81"}, nil, ""},
		{Range{From: "RELEASE_M9", To: "RELEASE_M8"}, nil,
			`version "RELEASE_M9" is newer than "RELEASE_M8": configs are migrated to newer versions only`},
		{Range{To: "newest"}, nil,
			`version "newest": no migrations: must have RELEASE_M and a number in it`},
		{Range{To: "RELEASE_M"}, nil,
			`version "RELEASE_M": no migrations: must have RELEASE_M and a number in it`},
		{Range{From: "OTHER_1"}, nil,
			`version "OTHER_1": no migrations: must have RELEASE_M and a number in it`},
	} {
		if err := c.r.Check(); (err == nil) != (c.bad == "") || err != nil && err.Error() != c.bad {
			t.Errorf("%+v: %v, want %q", c.r, err, c.bad)
		}
		if c.bad != "" {
			continue
		}
		_, changes, faults := Run(Node, in, c.r)
		var got []string
		for _, change := range changes {
			got = append(got, change.Version)
		}
		if got = slices.Compact(got); faults != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %v, faults %v; want %v", c.r, got, faults, c.want)
		}
	}
}

// The laws of the list: ordered by version within each family, every one with a sentence,
// and of another kind than asked for never run.
func TestAllMigrationsAreInOrder(t *testing.T) {
	last := map[string]layers.Software{}
	for _, m := range All() {
		v := layers.ParseSoftware(m.Version)
		if old, has := last[v.Family]; len(v.Numbers) == 0 || has && v.Compare(old) < 0 {
			t.Errorf("%s stands behind %s", m.Version, old.Full)
		}
		last[v.Family] = v
		if !strings.HasSuffix(m.What, ".") || m.do == nil {
			t.Errorf("%s: says %q", m.Version, m.What)
		}
	}
	in := file(t, "base_versions/RELEASE_M44.json")
	for _, kind := range []Kind{Controller, Aggregator} {
		if got, changes, _ := Run(kind, in, Range{}); changes != nil || text(got) != text(in) {
			t.Errorf("a %s was migrated by %v", kind, changes)
		}
	}
}

// oldKeys are documents with old and new keys, of every release.
func drawDocument(t *rapid.T) config.Object {
	bases := []string{"RELEASE_M44", "RELEASE_M46", "RELEASE_M58", "RELEASE_M60", "RELEASE_M76", "RELEASE_M78",
		"RELEASE_M81"}
	read := func(label string) config.Object {
		data, err := os.ReadFile(real + "base_versions/" + rapid.SampledFrom(bases).Draw(t, label) + ".json")
		if err != nil {
			t.Fatal(err)
		}
		o, _ := config.ParseObject(data)
		return o
	}
	out, _ := config.Merge(read("below"), read("above")) // old and new keys both
	for _, key := range config.Keys(out) {
		if rapid.Bool().Draw(t, "without "+key) {
			out = config.Unset(out, []string{key})
		}
	}
	if rapid.Bool().Draw(t, "prefixes") {
		out = config.Set(out, []string{"envParams", "OPENR_IFACE_PREFIXES"},
			rapid.StringMatching(`[a-z.]{0,3}(,[a-z]{0,3})*`).Draw(t, "prefixes are"))
	}
	return out
}

// Migrating twice is migrating once, from any version to the newest; and in two steps, over
// any version, it is the same as in one.
func TestMigratingTwiceIsMigratingOnce(t *testing.T) {
	versions := []string{"RELEASE_M1", "RELEASE_M46", "RELEASE_M60", "RELEASE_M70_1", "RELEASE_M78", "RELEASE_M81"}
	rapid.Check(t, func(t *rapid.T) {
		in := drawDocument(t)
		from, to := rapid.SampledFrom(versions).Draw(t, "from"), rapid.SampledFrom(versions).Draw(t, "to")
		for _, r := range []Range{{}, {From: from}, {To: to}} {
			once, _, faults := Run(Node, in, r)
			if faults != nil {
				t.Fatalf("%+v: %v", r, faults)
			}
			twice, changes, faults := Run(Node, once, r)
			if faults != nil || changes != nil || text(once) != text(twice) {
				t.Fatalf("%+v: the second time %s, faults %v", r, say(changes), faults)
			}
		}
		direct, _, _ := Run(Node, in, Range{})
		first, _, _ := Run(Node, in, Range{To: to})
		second, _, _ := Run(Node, first, Range{From: to})
		if text(second) != text(direct) {
			t.Fatalf("over %s: %s\ndirectly %s", to, text(second), text(direct))
		}
	})
}

// No document makes a migration panic or answer twice in two ways.
func FuzzRun(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"statsAgentParams": {"nmsPublisherParams": {"zmqSndHwm": {}}, "statsBlacklist": null}}`,
		`{"eapolParams": [], "radioParamsBase": {"wsecParams": {"eapolParams": 1}}}`,
		`{"envParams": {"OPENR_IFACE_PREFIXES": "a,,b", "OPENR_IFACE_REGEX_INCLUDE": {}}}`,
		`{"statsAgentParams": {"sources": {"openr": {"enabled": {}}}, "collectors": 1}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, faults := config.ParseObject(data)
		if faults != nil {
			return
		}
		once, _, faults := Run(Node, doc, Range{})
		again, _, wrong := Run(Node, doc, Range{})
		if faults.Error() != wrong.Error() || text(once) != text(again) {
			t.Fatalf("%s: %s %v, then %s %v", data, text(once), faults, text(again), wrong)
		}
		if faults != nil {
			return
		}
		if twice, changes, wrong := Run(Node, once, Range{}); wrong != nil || changes != nil || text(twice) != text(once) {
			t.Fatalf("%s: %s, migrated again %s %s %v", data, text(once), text(twice), say(changes), wrong)
		}
	})
}
