package metadata

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config"
)

func TestEntry(t *testing.T) {
	m := terragraph(t)
	for _, c := range []struct{ path, want string }{
		{"sysParams.managedConfig", "sysParams.managedConfig BOOLEAN NO_ACTION true or false"},
		{"linkParamsOverride.00:11.fwParams.mcs",
			"linkParamsOverride.*.fwParams.mcs INTEGER SET_FW_PARAMS an integer from 1 to 16 or 35"},
		{"cpeConfig.x.policers.0", "cpeConfig.*.policers.* OBJECT  an object"},
		{"popParams", ""},
		{"popParams.nothing", ""},
		{"sysParams.managedConfig.below", ""},
		{"", ""},
	} {
		path, _ := config.ParsePath(c.path)
		got := ""
		if e, found := m.Entry(path); found {
			got = strings.Join([]string{e.Name(), e.Kind.String(), e.Action, e.Allowed}, " ")
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
}

// All and Entry agree, entries come before what is below them, and in the order of keys.
func TestAllEntries(t *testing.T) {
	m := terragraph(t)
	var last []string
	for e := range m.All() {
		if slices.Compare(last, e.Path) >= 0 {
			t.Errorf("%v after %v", e.Path, last)
		}
		last = e.Path
		again, found := m.Entry(e.Path)
		if !found || again.Name() != e.Name() || again.Desc != e.Desc || again.Sync != e.Sync {
			t.Errorf("%s: %+v", e.Name(), again)
		}
	}
	for range m.All() {
		break // and it may be left early
	}
	e, _ := of(t, `{"m.x":{`+entry+
		`,"type":"MAP","tag":"T","secret":true,"default":{"a":1},"mapVal":{"type":"INTEGER"}}}`).Entry([]string{"m.x", "*"})
	if got, want := e.Name(), `"m.x".*`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestWhatAnEntryCarries(t *testing.T) {
	m := of(t, `{"a":{"desc":"about `+
		`a","action":"REBOOT","type":"OBJECT","tag":"T","sync":true,"secret":true,"deprecated":true,"readOnly":true,"strict":true,
		"required":true,"default":{"q":5},"objVal":{"properties":{"q":{"desc":"about `+
		`q","type":"INTEGER","required":true}}}}}`)
	e, _ := m.Entry([]string{"a"})
	if !e.Root || e.Required || e.Desc != "about a" || e.Tag != "T" || !e.Sync || !e.Secret || !e.Deprecated ||
		!e.ReadOnly || !e.Strict || !e.HasDefault || compact(e.Default) != `{"q":5}` {
		t.Errorf("%+v", e)
	}
	// The value of a map has a type and its constraints, nothing else.
	v, _ := of(t, `{"m":{`+entry+
		`,"type":"MAP","sync":true,"mapVal":{"type":"STRING","sync":false,"readOnly":true,"deprecated":true,"required":true}}}`).Entry([]string{"m", "k"})
	if !v.Sync || v.ReadOnly || v.Deprecated || v.Required {
		t.Errorf("%+v", v)
	}
	q, _ := m.Entry([]string{"a", "q"})
	if q.Root || !q.Required || !q.Sync || !q.Strict || q.HasDefault {
		t.Errorf("%+v", q)
	}
}

// The flags of the controller and the aggregator are strings, whatever their type says.
func TestFlagsAreStrings(t *testing.T) {
	m := with(t, `{"flags":{"staged":{`+entry+`,"type":"BOOLEAN"},"delay":{`+entry+
		`,"type":"INTEGER","intVal":{"allowedRanges":[[0,100]]}},
		"share":{`+entry+`,"type":"FLOAT","floatVal":{"allowedRanges":[[0,1]]}},"v":{"desc":"d","action":"UPDATE_GFLAG","type":"STRING","strVal":{"intRanges":[[0,9]]}}},
		"other":{`+entry+`,"type":"BOOLEAN"}}`, Options{E2E: true})
	for _, c := range []struct{ in, want string }{
		{`{"staged":"true"}`, ""},
		{`{"staged":"No"}`, ""},
		{`{"staged":"1"}`, ""},
		{`{"staged":true}`, "flags.staged type"},
		{`{"staged":"maybe"}`, "flags.staged type"},
		{`{"staged":""}`, "flags.staged type"},
		{`{"delay":"100"}`, ""},
		{`{"delay":"0x10"}`, ""},
		{`{"delay":"101"}`, "flags.delay range"},
		{`{"delay":"-1"}`, "flags.delay range"},
		{`{"delay":100}`, "flags.delay type"},
		{`{"delay":"ten"}`, "flags.delay type"},
		{`{"delay":"1.0"}`, "flags.delay type"},
		{`{"share":"0.5"}`, ""},
		{`{"share":"1"}`, ""},
		{`{"share":"2"}`, "flags.share range"},
		{`{"share":0.5}`, "flags.share type"},
		{`{"v":"9"}`, ""},
		{`{"v":"10"}`, "flags.v range"},
		{`{"v":9}`, "flags.v type"},
		{`{"unknown":"x"}`, "?flags.unknown"},
	} {
		if got := judged(m.Validate(parse(t, `{"flags":`+c.in+`}`))); got != c.want {
			t.Errorf("%s: %q, want %q", c.in, got, c.want)
		}
	}
	if got := judged(m.Validate(parse(t, `{"other":"true"}`))); got != "other type" {
		t.Error(got)
	}
	f := m.Validate(parse(t, `{"flags":{"delay":"101"}}`)).Err()
	if got, want := f.Error(),
		`flags.delay: invalid value "101": must be a string that says an integer from 0 to 100`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	merged, _, faults := m.Merge(parse(t, `{"flags":{"acme":{`+entry+`,"type":"BOOLEAN"}}}`))
	if got := judged(merged.Validate(parse(t, `{"flags":{"acme":"true"}}`))); faults != nil || got != "" {
		t.Errorf("a vendor's flag: %v %s", faults, got)
	}
	if got, want := acts(m, `{"flags":{"v":"1"}}`, t), "UPDATE_GFLAG:[flags.v]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// "Configuration fields must be marked "syncable""; a synced object takes all its
// properties along, unless one says otherwise.
func TestSplit(t *testing.T) {
	m := of(t, `{"host":{`+entry+`,"type":"STRING"},"net":{`+entry+`,"type":"STRING","sync":true},
		"sources":{`+entry+`,"type":"MAP","sync":true,"mapVal":{"type":"OBJECT","objVal":{"properties":{
			"url":{"desc":"d","type":"STRING","required":true},"local":{"desc":"d","type":"STRING","sync":false}}}}},
		"own":{`+entry+`,"type":"OBJECT","objVal":{"properties":{"p":{"desc":"d","type":"STRING"},"q":{"desc":"d","type":"STRING","sync":true}}}},
		"lev":{"e":{`+entry+`,"type":"MAP","sync":true}}}`)
	for _, c := range []struct{ in, shared, own string }{
		{`{"host":"h","net":"n"}`, `{"net":"n"}`, `{"host":"h"}`},
		{`{"sources":{"a":{"url":"u","local":"l"},"b":{}}}`, `{"sources":{"a":{"url":"u"},"b":{}}}`,
			`{"sources":{"a":{"local":"l"}}}`},
		{`{"sources":{}}`, `{"sources":{}}`, `{}`},
		{`{"own":{"p":"1","q":"2"}}`, `{"own":{"q":"2"}}`, `{"own":{"p":"1"}}`},
		{`{"own":{}}`, `{}`, `{"own":{}}`},
		{`{"own":{"u":1},"sources":{"a":{"u":2}}}`, `{"sources":{"a":{"u":2}}}`, `{"own":{"u":1}}`},
		{`{"nobody":{"knows":1},"lev":{"u":2,"e":{"x":[3]}}}`, `{"lev":{"e":{"x":[3]},"u":2},"nobody":{"knows":1}}`, `{}`},
		{`{"lev":{}}`, `{"lev":{}}`, `{}`},
	} {
		shared, own := m.Split(parse(t, c.in))
		if compact(shared) != c.shared || compact(own) != c.own {
			t.Errorf("%s: %s and %s, want %s and %s", c.in, compact(shared), compact(own), c.shared, c.own)
		}
	}
}

func TestTheTwoPartsAreTheWhole(t *testing.T) {
	real := terragraph(t)
	base := read(t, "base_versions/RELEASE_M81.json")
	rapid.Check(t, func(t *rapid.T) {
		doc := real.Document()
		for e := range real.All() {
			if e.Root && rapid.IntRange(0, 9).Draw(t, "sync") == 0 {
				doc = config.Set(doc, config.Below(e.Path, "sync"), true)
			}
		}
		m, faults := Parse(doc, Options{})
		if faults != nil {
			t.Fatal(faults)
		}
		shared, own := m.Split(base)
		whole, clashes := config.Merge(own, shared)
		if clashes != nil || compact(whole) != compact(base) {
			t.Fatalf("%v: %s and %s", clashes, compact(shared), compact(own))
		}
	})
}
