package metadata

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config"
)

// "Any conflicting metadata entries are dropped, and unknown post-config actions are parsed
// but ignored" (the seed, "Interoperability"), at every depth; nothing of a vendor's gets
// into an entry that is there.
func TestMergeAVendorsMetadata(t *testing.T) {
	own := `{"a":{"x":{` + entry +
		`,"type":"INTEGER","intVal":{"allowedValues":[1]}}},"o":{"desc":"d","action":"REBOOT","type":"OBJECT"}}`
	for _, c := range []struct{ name, vendor, conflicts, valid, acts string }{
		{
			"what is new is added, at any level", `{"a":{"y":{` + entry +
				`,"type":"BOOLEAN"}},"v":{"w":{"desc":"d","action":"RESTART_KEA","type":"STRING"}}}`,
			"", `a.y type; v.w type; ?u`, "RESTART_KEA:[v.w] REBOOT:[o]",
		},
		{"what says the same is no conflict", `{"o":{"type":"OBJECT","action":"REBOOT","desc":"d"}}`, "", "?a.y; ?u; ?v",
			"REBOOT:[o]"},
		{
			"allowed values do not leak in", `{"a":{"x":{` + entry +
				`,"type":"INTEGER","intVal":{"allowedValues":[1],"allowedRanges":[[5,9]]}}}}`,
			"a.x", "a.x value; ?a.y; ?u; ?v", "REBOOT:[o]",
		},
		{
			"properties neither",
			`{"o":{"desc":"d","action":"REBOOT","type":"OBJECT","objVal":{"properties":{"p":{"desc":"d","type":"STRING"}}}}}`,
			"o", "?a.y; ?u; ?v", "REBOOT:[o]",
		},
		{
			"a level over an entry, and an entry over a level", `{"o":{"p":{` + entry + `,"type":"STRING"}},"a":{` + entry +
				`,"type":"STRING"}}`,
			"a o", "?a.y; ?u; ?v", "REBOOT:[o]",
		},
		{
			"unknown actions at every depth",
			`{"v":{"desc":"d","action":"MAKE_TEA","type":"MAP","mapVal":{"type":"OBJECT","objVal":{"properties":{
			"p":{"desc":"d","action":"MAKE_COFFEE","type":"OBJECT","objVal":{"properties":{"q":{"desc":"d","action":"BREW","type":"STRING"}}}}}}}}}`,
			"", "v.w type; ?a.y; ?u", "REBOOT:[o]",
		},
	} {
		m := of(t, own)
		before := compact(m.Document())
		merged, conflicts, faults := m.Merge(parse(t, c.vendor))
		if faults != nil {
			t.Errorf("%s: %v", c.name, faults)
			continue
		}
		var paths []string
		for _, f := range conflicts {
			paths = append(paths, config.FormatPath(f.Path))
		}
		in := `{"a":{"x":1,"y":5},"o":{"p":5},"v":{"w":5},"u":1}`
		if strings.HasPrefix(c.valid, "a.x") {
			in = strings.Replace(in, `"x":1`, `"x":7`, 1)
		}
		if got := strings.Join(paths, " "); got != c.conflicts {
			t.Errorf("%s: conflicts %q, want %q", c.name, got, c.conflicts)
		}
		if got := judged(merged.Validate(parse(t, in))); got != c.valid {
			t.Errorf("%s: %q, want %q", c.name, got, c.valid)
		}
		if got := acts(merged, `{"o":{"p":5},"v":{"w":5}}`, t); got != c.acts {
			t.Errorf("%s: %q, want %q", c.name, got, c.acts)
		}
		if compact(m.Document()) != before || judged(m.Validate(parse(t, `{"v":{}}`))) != "?v" {
			t.Errorf("%s: ours was changed", c.name)
		}
	}
}

func TestMergeFaultsOfAVendor(t *testing.T) {
	m := of(t, `{}`)
	merged, _, faults := m.Merge(parse(t, `{"v":{"desc":"d","action":"X","type":"NONE"},"w":1}`))
	if merged != nil || len(faults) != 2 {
		t.Errorf("%v %v", merged, faults)
	}
	if _, _, faults = m.Merge(parse(t, `{"v":{"__copy_block__":"v"}}`)); len(faults) != 1 {
		t.Error(faults)
	}
}

// The first of several vendors wins; what our level says of strict holds for theirs.
func TestSeveralVendorsInOrder(t *testing.T) {
	m := of(t, `{"strict":true}`)
	for i, vendor := range []string{
		`{"v":{` + entry + `,"type":"OBJECT","objVal":{"properties":{}}}}`,
		`{"v":{` + entry + `,"type":"STRING"},"w":{"desc":"d","action":"SET_FW_PARAMS","type":"STRING"}}`,
	} {
		merged, conflicts, faults := m.Merge(parse(t, vendor))
		if faults != nil || len(conflicts) != i {
			t.Errorf("%v %v", conflicts, faults)
		}
		m = merged
	}
	if got, want := judged(m.Validate(parse(t, `{"v":{"u":1},"w":""}`))), "v.u unknown"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if w := m.Warnings(); len(w) != 1 || w[0].Path[0] != "w" {
		t.Error(w)
	}
	if _, conflicts, _ := of(t,
		`{}`).Merge(parse(t, `{"strict":true,"v":{`+entry+`,"type":"MAP"}}`)); len(conflicts) != 1 {
		t.Errorf("a vendor may not make ours strict: %v", conflicts)
	}
}

// Merging is what Parse makes of the merged document.
func TestTheMergedDocumentSaysTheSame(t *testing.T) {
	whole := read(t, "config_metadata.json")
	expanded, _ := Expand(whole)
	in := read(t, "base_versions/RELEASE_M44.json")
	rapid.Check(t, func(t *rapid.T) {
		own, theirs := config.Object{}, config.Object{}
		for key, v := range expanded {
			if rapid.Bool().Draw(t, "ours "+key) {
				own[key] = v
			}
			if rapid.Bool().Draw(t, "theirs "+key) {
				theirs[key] = v
			}
		}
		m, _ := Parse(own, Options{})
		merged, conflicts, faults := m.Merge(theirs)
		if conflicts != nil || faults != nil {
			t.Fatal(conflicts, faults)
		}
		again, faults := Parse(merged.Document(), Options{})
		if faults != nil || judged(again.Validate(in)) != judged(merged.Validate(in)) {
			t.Fatal("a merged document is read otherwise", faults)
		}
	})
}
