package lint

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/schema"
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

func parse(t testing.TB, doc config.Object) *metadata.Metadata {
	t.Helper()
	m, faults := metadata.Parse(doc, metadata.Options{E2E: metadata.IsE2E(doc)})
	if faults != nil {
		t.Fatal(faults)
	}
	return m
}

func say(findings []Finding) []string {
	out := []string{}
	for _, f := range findings {
		out = append(out, strings.TrimSpace(f.Rule+" "+config.FormatPath(f.Path)+" "+strings.Join(f.Files, ",")))
	}
	return out
}

const described = `{
  "known": {"desc": "d", "type": "INTEGER", "action": "NO_ACTION", "intVal": {"allowedRanges": [[1, 9]]}},
  "old": {"desc": "d", "type": "STRING", "action": "NO_ACTION", "deprecated": true},
  "fact": {"desc": "d", "type": "STRING", "action": "NO_ACTION", "readOnly": true},
  "level": {"only": {"desc": "d", "type": "STRING", "action": "NO_ACTION"}},
  "box": {"desc": "d", "type": "OBJECT", "action": "NO_ACTION", "objVal": {"properties": {
    "here": {"desc": "d", "type": "STRING"}, "missing": {"desc": "d", "type": "STRING"}, "must": {"desc": "d", ` +
	`"type": "STRING", "required": true}}}},
  "map": {"desc": "d", "type": "MAP", "action": "NO_ACTION", "mapVal": {"type": "OBJECT", "objVal": {"properties": {
    "with": {"desc": "d", "type": "STRING", "default": ""}, "without": {"desc": "d", "type": "STRING"},
    "optional": {"desc": "d", "type": "STRING", "optional": true}, "when": {"desc": "d", "type": "STRING", ` +
	`"requiredWhen": "a=b"},
    "later": {"desc": "d", "type": "STRING", "unsupported": true}, "some": {"desc": "d", "type": "STRING", ` +
	`"unsupported": ["x"]},
    "deep": {"desc": "d", "type": "MAP", "mapVal": {"type": "STRING"}},
    "deeper": {"desc": "d", "type": "OBJECT", "objVal": {"properties": {"p": {"desc": "d", "type": "STRING"}}}}}}}},
  "names": {"desc": "d", "type": "MAP", "action": "NO_ACTION", "mapVal": {"type": "STRING"}}
}`

// Seed, "New Configuration Fields": a field has metadata, and a default in the base or, for
// hardware, in the hardware file; "New Hardware": a file for each version in both.
func TestSeed_EveryFieldHasMetadataAndADefault(t *testing.T) {
	sound := `{"known": 1, "level": {"only": ""}, "box": {"here": "", "missing": "", "must": ""}, "map": {}, "names": {}}`
	in := func(base, fw, hw string) Input {
		i := Input{Metadata: parse(t, object(t, described)), Base: map[string]config.Object{"V_1": object(t, base)}}
		if fw != "" {
			i.Firmware = map[string]config.Object{"1.2.3": object(t, fw)}
		}
		if hw != "" {
			i.Hardware = map[string]map[string]config.Object{"T": {"V_1": object(t, hw)}}
		}
		return i
	}
	free := []string{"default map.\"*\".deeper.p", "default map.\"*\".some", "default map.\"*\".without"}
	for name, c := range map[string]struct {
		in   Input
		want []string
	}{
		"sound but for what is below free keys": {in(sound, "", ""), free},
		"a default may be in firmware and hardware": {in(`{"known": 1, "box": {"here": "", "must": ""}}`,
			`{"level": {"only": ""}}`, `{"box": {"missing": ""}, "map": {}, "names": {}}`), free},
		"no default": {
			in(`{"box": {"here": "", "must": ""}, "map": {}, "names": {"a": ""}}`, "", ""),
			append([]string{"default box.missing", "default known", "default level.only"}, free...),
		},
		"no object at all is one finding": {
			in(`{"known": 1, "level": {"only": ""}, "names": {}}`, "", ""),
			[]string{"default box", "default map"},
		},
		"no metadata": {
			in(strings.Replace(sound, `"known"`, `"x": {"y": 1}, "known"`, 1), `{"box": {"must": "", "z": 1}, "x": 1}`, ""),
			append([]string{"unknown box.z fw_versions/1.2.3", "unknown x V_1,fw_versions/1.2.3"}, free...),
		},
		"a default that is not allowed": {
			in(strings.Replace(sound, `"known": 1`, `"known": 10`, 1), "", `{"level": {"only": 5}, "names": 1}`),
			append(free, "invalid known V_1", "invalid level.only hw_versions/T/V_1", "invalid names hw_versions/T/V_1"),
		},
	} {
		got := say(Check(c.in))
		if name == "no object at all is one finding" { // what is in the map is below it
			got = got[:2]
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// What is required stands in the base; a hardware file that is laid over it need not
// repeat it, and is checked as nodes get it.
func TestHardwareIsCheckedOverItsBase(t *testing.T) {
	m := parse(t, object(t, `{"box": {"desc": "d", "type": "OBJECT", "action": "NO_ACTION", "objVal": {"properties": {
		"must": {"desc": "d", "type": "STRING", "required": true}, "n": {"desc": "d", "type": "INTEGER"}}}}}`))
	in := Input{
		Metadata: m, Base: map[string]config.Object{"V_1": object(t, `{"box": {"must": "", "n": "bad"}}`),
			"V_3": object(t, `{"box": {"must": "", "n": 1}}`)},
		Hardware: map[string]map[string]config.Object{"T": {
			"V_1": object(t, `{"box": {}}`), "V_2": object(t, `{"box": {"n": 2}}`), "V_3": object(t, `{"box": {"n": "x"}}`),
			"V_4": object(t, `{"box": 5}`),
		}},
		Types: config.Faults{{Path: []string{"T", "0"}, Problem: "is twice", Expectation: "once"}},
	}
	want := []string{
		"base  hw_versions/T/V_2", "base  hw_versions/T/V_4", "board T.0 hw_versions/hw_types",
		"invalid box hw_versions/T/V_4", "invalid box.n V_1,hw_versions/T/V_3",
	}
	if got := say(Check(in)); !reflect.DeepEqual(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Our own schema has nothing that lint would find.
func TestTheEmbeddedSchemaIsClean(t *testing.T) {
	for name, c := range map[string]struct{ doc, base config.Object }{
		"node":       {schema.NodeMetadata(), schema.NodeBase()},
		"controller": {schema.ControllerMetadata(), schema.ControllerDefault()},
		"aggregator": {schema.AggregatorMetadata(), schema.AggregatorDefault()},
	} {
		check := func(base config.Object) []Finding {
			return Check(Input{Metadata: parse(t, c.doc), Base: map[string]config.Object{"V_1": base}})
		}
		if got := check(c.base); len(got) > 0 {
			t.Errorf("%s:\n%s", name, strings.Join(say(got), "\n"))
		}
		for _, key := range config.Keys(c.base) {
			if got := check(config.Unset(c.base, []string{key})); len(got) == 0 {
				t.Errorf("%s: without the default of %s there is no finding", name, key)
			}
		}
	}
}

// realInput are the real files.
func realInput(t testing.TB) Input {
	read := func(dir string) map[string]config.Object {
		out := map[string]config.Object{}
		files, err := filepath.Glob(real + dir + "/*.json")
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if name := strings.TrimSuffix(filepath.Base(f), ".json"); name != "hw_types" {
				out[name] = object(t, string(text))
			}
		}
		return out
	}
	text, err := os.ReadFile(real + "config_metadata.json")
	if err != nil {
		t.Fatal(err)
	}
	return Input{
		Metadata: parse(t, object(t, string(text))), Base: read("base_versions"), Firmware: read("base_versions/fw_versions"),
		Hardware: map[string]map[string]config.Object{"NXP": read("base_versions/hw_versions/NXP")},
	}
}

// The real data has old keys that the newest metadata forgot, hardware files between the
// bases, and fields that are only set by users; none of its defaults is wrong.
func TestTheRealDataHasRealFindings(t *testing.T) {
	in := realInput(t)
	findings := Check(in)
	count := map[string]int{}
	for _, f := range findings {
		count[f.Rule]++
	}
	if want := map[string]int{RuleUnknown: 8, RuleBase: 17, RuleDefault: 225}; !reflect.DeepEqual(count, want) {
		t.Errorf("%v, want %v", count, want)
	}
	for _, f := range findings {
		if f.Rule == RuleUnknown && config.FormatPath(f.Path) == "statsAgentParams.nmsPublisherParams" &&
			reflect.DeepEqual(f.Files, []string{"RELEASE_M44"}) {
			return
		}
	}
	t.Errorf("nothing about nmsPublisherParams of RELEASE_M44:\n%s", strings.Join(say(findings), "\n"))
}

// The order of findings does not depend on that of maps.
func TestFindingsAreInOneOrder(t *testing.T) {
	first, err := json.Marshal(Check(realInput(t)))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if again, _ := json.Marshal(Check(realInput(t))); string(again) != string(first) {
			t.Fatal("twice is otherwise")
		}
	}
	var names []string
	for _, f := range Check(realInput(t)) {
		if f.Rule == RuleBase {
			names = append(names, f.Files[0])
		}
	}
	sorted := append([]string{}, names...)
	layers.SortNatural(sorted)
	if !reflect.DeepEqual(names, sorted) {
		t.Errorf("%v", names)
	}
}
