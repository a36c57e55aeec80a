package metadata

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config"
)

// judged is a report on one line: "path rule" for each fault, "?path" for what is unknown,
// "-path" for deprecated and "!path" for read-only.
func judged(r ValidationReport) string {
	var out []string
	for _, f := range r.Faults {
		out = append(out, config.FormatPath(f.Path)+" "+f.Rule)
	}
	for mark, paths := range map[string][][]string{"?": r.Unknown} {
		for _, p := range paths {
			out = append(out, mark+config.FormatPath(p))
		}
	}
	for _, p := range r.Deprecated {
		out = append(out, "-"+config.FormatPath(p))
	}
	for _, p := range r.ReadOnly {
		out = append(out, "!"+config.FormatPath(p))
	}
	return strings.Join(out, "; ")
}

// The table of the reference (§1.10), type by type: values as JSON, and the rule that each breaks.
func TestValues(t *testing.T) {
	for _, c := range []struct{ entry, values string }{
		{`"type":"INTEGER"`, `5 -5 9223372036854775807 1.0=type 1e3=type "1"=type true=type null=type [1]=type {}=type`},
		{`"type":"INTEGER","intVal":{"allowedRanges":[[1,12]],"allowedValues":[35]}`, `1 12 35 0=range 13=range 34=range`},
		{`"type":"INTEGER","intVal":{"allowedRanges":[[1,2],[5,6]]}`, `1 6 3=range 7=range`},
		{`"type":"INTEGER","intVal":{"allowedValues":[1,2]}`, `1 2 3=value`},
		{`"type":"INTEGER","intVal":{"allowedRanges":[]}`, `1=value`},
		{`"type":"INTEGER","intVal":{"allowedRanges":[[-9223372036854775808,-1]]}`, `-9223372036854775808 0=range`},
		{`"type":"INTEGER","strVal":{"allowedValues":[]}`, `1`},
		{`"type":"FLOAT"`, `5 5.5 1e300 "5"=type null=type true=type`},
		{`"type":"FLOAT","floatVal":{"allowedRanges":[[0.5,1]],"allowedValues":[-1]}`,
			`0.5 1 1.0 -1 -1.0 0.4=range 1.0000001=range`},
		{`"type":"BOOLEAN"`, `true false 0=type "true"=type null=type`},
		{`"type":"STRING"`, `"" "x" 5=type null=type [""]=type {}=type`},
		{`"type":"STRING","strVal":{}`, `"" "x"`},
		{`"type":"STRING","strVal":{"allowedValues":["a","b"]}`, `"a" "b" ""=value "ab"=value`},
		{`"type":"STRING","strVal":{"allowedValues":[]}`, `""=value`},
		{`"type":"STRING","strVal":{"regexMatches":"[0-9]+"}`, `"12" "12a"=regex "a12"=regex ""=regex`},
		{`"type":"STRING","strVal":{"regexMatches":"|a|b|ab"}`, `"" "a" "ab" "abab"=regex`},
		{`"type":"STRING","strVal":{"regexMatches":"a+","allowedValues":["z"]}`, `"aa" "z" "b"=regex`},
		{`"type":"STRING","strVal":{"intRanges":[[0,4]]}`,
			`"0" "4" "+4" "\t4\n" "04" "5"=range "4.0"=range "0x4"=range ""=range "4_0"=range 4=type`},
		{`"type":"STRING","strVal":{"floatRanges":[[0,1.5]]}`,
			`"0" "1.5" "1e-3" "15e-1" "1.6"=range "x"=range "0x1p-2"=range "inf"=range "nan"=range`},
		// The original calls "auto" no integer, though it is allowed; here it is.
		{`"type":"STRING","strVal":{"intRanges":[[0,4]],"allowedValues":["auto"]}`, `"auto" "4" "5"=range "x"=range`},
		{`"type":"STRING","strVal":{"regexMatches":"x+","floatRanges":[[0,4]]}`, `"xx" "4" "5"=regex`},
		{`"type":"MAP"`, `{} {"x":1} {"x":[null]} 5=type null=type []=type`},
		{`"type":"MAP","mapVal":{"type":"INTEGER"}`, `{} {"":1} {"a.b":1} null=type`},
		{`"type":"OBJECT"`, `{} {"x":[1]} "x"=type []=type`},
		{`"type":"OBJECT","objVal":{"properties":{"p":{"desc":"d","type":"STRING"}}}`, `{} {"p":""} null=type`},
	} {
		m := of(t, `{"k":{`+entry+`,`+c.entry+`}}`)
		for _, value := range strings.Split(c.values, " ") {
			value, rule, _ := strings.Cut(value, "=")
			want := ""
			if rule != "" {
				want = "k " + rule
			}
			if got := judged(m.Validate(parse(t, `{"k":`+value+`}`))); got != want {
				t.Errorf("%s: %s: %q, want %q", c.entry, value, got, want)
			}
		}
	}
}

const nested = `{"lev":{"el":{"s":{` + entry + `,"type":"STRING","deprecated":true}}},
	"o":{` + entry + `,"type":"OBJECT","readOnly":true,"objVal":{"properties":{
		"must":{"desc":"d","type":"INTEGER","required":true},
		"may":{"desc":"d","type":"OBJECT","objVal":{"properties":{"x":{"desc":"d","type":"STRING","required":true,"deprecated":true}}}}}}},
	"m":{` + entry + `,"type":"MAP","mapVal":{"type":"OBJECT","objVal":{"properties":{"n":{"desc":"d","type":"FLOAT","required":true}}}}}}`

// Item 2: "validation that reports all faults"; item 10: "unknown keys warn (the shallowest
// only)", "A scalar where the metadata has a level is a fault", "deprecated and readOnly
// are no faults of a file at rest".
func TestStructures(t *testing.T) {
	m := of(t, nested)
	for _, c := range []struct{ in, want string }{
		{`{}`, ""},
		{`{"lev":{"el":{"s":"x"}}}`, "-lev.el.s"},
		{`{"lev":5}`, "lev type"},
		{`{"lev":{"el":null}}`, "lev.el type"},
		{`{"lev":{"el":[]}}`, "lev.el type"},
		{`{"lev":{"el":{"u":{"v":{"w":1}}},"u":1},"u":{"x":{}}}`, "?lev.el.u; ?lev.u; ?u"},
		{`{"o":{}}`, "o.must required; !o"},
		{`{"o":{"must":1,"may":{}}}`, "o.may.x required; !o"},
		{`{"o":{"must":"1","may":{"x":5,"y":{"z":1}},"u":{"v":1}}}`,
			"o.may.x type; o.must type; ?o.may.y; ?o.u; -o.may.x; !o"},
		{`{"m":{"b":{},"a":{"n":"x"},"a.b":5}}`, `m.a.n type; m."a.b" type; m.b.n required`},
		{`{"m":{"a":{"n":1,"u":1}}}`, "?m.a.u"},
	} {
		for range 5 { // whatever the order of a map
			if got := judged(m.Validate(parse(t, c.in))); got != c.want {
				t.Fatalf("%s: %s, want %s", c.in, got, c.want)
			}
		}
	}
}

// Item 10: "except below an entry marked strict (ours), where each is a fault".
func TestStrict(t *testing.T) {
	strict := func(where, text string) string { return strings.Replace(text, where, where+`"strict":true,`, 1) }
	for _, c := range []struct{ doc, in, want string }{
		{
			strict(`{`, nested), `{"u":1,"lev":{"u":1,"el":{"u":{"v":1}}},"o":{"must":1,"u":1},"m":{"k":{"n":1,"u":1}}}`,
			"lev.el.u unknown; lev.u unknown; m.k.u unknown; o.u unknown; u unknown; !o",
		},
		{strict(`"el":{`, nested), `{"u":1,"lev":{"u":1,"el":{"u":1}}}`, "lev.el.u unknown; ?lev.u; ?u"},
		{strict(`"o":{`, nested), `{"u":1,"o":{"must":1,"u":1,"may":{"x":"","u":1}}}`,
			"o.may.u unknown; o.u unknown; ?u; -o.may.x; !o"},
		{strict(`"m":{`, nested), `{"m":{"any":{"n":1,"u":1}}}`, "m.any.u unknown"},
		{strict(`{`, strings.Replace(nested, `"o":{`, `"o":{"strict":false,`, 1)), `{"u":1,"o":{"must":1,"u":1}}`,
			"u unknown; ?o.u; !o"},
	} {
		if got := judged(of(t, c.doc).Validate(parse(t, c.in))); got != c.want {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
	}
	f := of(t, strict(`"el":{`, nested)).Validate(parse(t, `{"lev":{"el":{"u":1}}}`)).Faults[0]
	if f.Expectation != "must be s" {
		t.Errorf("%+v", f)
	}
}

// A fault says what is wrong and what is allowed, and never shows a secret.
func TestWordsOfAFault(t *testing.T) {
	m := of(t, `{"k":{`+entry+`,"type":"INTEGER","intVal":{"allowedRanges":[[1,12],[20,30]],"allowedValues":[35,-1]}},
		"f":{`+entry+`,"type":"FLOAT","floatVal":{"allowedRanges":[[0,1.5]]}},
		"s":{`+entry+`,"type":"STRING","strVal":{"allowedValues":["a","b c"],"regexMatches":"x+"}},
		"i":{`+entry+`,"type":"STRING","strVal":{"intRanges":[[1,4]]}},"none":{`+entry+
		`,"type":"INTEGER","intVal":{"allowedValues":[]}},
		"p":{`+entry+`,"type":"STRING","secret":true,"strVal":{"regexMatches":".{8,63}"}},"b":{`+entry+`,"type":"BOOLEAN"}}`)
	want := `b: invalid type string: must be true or false
f: invalid value 2.0: must be a number from 0.0 to 1.5
i: invalid value "5": must be a string that says an integer from 1 to 4
k: invalid value 13: must be an integer from 1 to 12, from 20 to 30, 35 or -1
none: invalid value 1: must be no value at all
p: invalid secret of type string: must be a string that matches .{8,63}
s: invalid type object: must be a string that matches x+, "a" or "b c"`
	r := m.Validate(parse(t, `{"k":13,"f":2.0,"s":{},"p":"hidden","b":"x","i":"5","none":1}`))
	if got := r.Err().Error(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if strings.Contains(fmt.Sprint(r), "hidden") {
		t.Errorf("%v shows a secret", r)
	}
	if r := m.Validate(config.Object{}); r.Err() != nil {
		t.Error(r)
	}
}

// Every stored layer fits the metadata of its own system.
func TestRealLayersAreValid(t *testing.T) {
	m := terragraph(t)
	for _, pattern := range []string{"base_versions/*.json", "base_versions/fw_versions/*.json",
		"base_versions/hw_versions/NXP/*.json", "network_*.json"} {
		names, _ := filepath.Glob(stored + pattern)
		if len(names) == 0 {
			t.Errorf("%s: none", pattern)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if r := m.Validate(parse(t, string(text))); len(r.Faults) > 0 {
				t.Errorf("%s: %v", name, r.Err())
			}
		}
	}
	if r := m.Validate(read(t, "base_versions/RELEASE_M81.json")); len(r.Unknown) > 0 {
		t.Errorf("%v", r.Unknown)
	}
}

// Each value that breaks is found, however many others do: faults of a config are those of
// its parts.
func TestFaultsAreThoseOfTheParts(t *testing.T) {
	m := terragraph(t)
	base := read(t, "base_versions/RELEASE_M81.json")
	rapid.Check(t, func(t *rapid.T) {
		o := config.Object{}
		want := 0
		for key, v := range base {
			if rapid.Bool().Draw(t, "break "+key) {
				v = rapid.SampledFrom([]any{nil, int64(5), "x", []any{}}).Draw(t, "with")
			}
			o[key] = v
			want += len(m.Validate(config.Object{key: v}).Faults)
		}
		if got := m.Validate(o); len(got.Faults) != want {
			t.Fatalf("%d faults, and %d of the parts", len(got.Faults), want)
		}
	})
}

// Ours: an integer stands for its digits where the entry says so.
func TestAStringOrAnInteger(t *testing.T) {
	m, faults := Parse(config.Object{"port": config.Object{
		"desc": "A port.", "type": "STRING", "action": "NO_ACTION",
		"strVal": config.Object{"orInteger": true, "intRanges": []any{[]any{int64(1), int64(65535)}},
			"allowedValues": []any{"any"}},
	}}, Options{})
	if faults != nil {
		t.Fatal(faults)
	}
	for value, want := range map[any]string{
		int64(80): "", "80": "", "any": "", int64(0): RuleRange, "x": RuleRange, 80.0: RuleType, true: RuleType,
	} {
		got := ""
		if r := m.Validate(config.Object{"port": value}); len(r.Faults) > 0 {
			got = r.Faults[0].Rule
		}
		if got != want {
			t.Errorf("%v breaks %q, want %q", value, got, want)
		}
	}
}
