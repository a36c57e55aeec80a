package metadata

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"edgespan/config"
)

// of compiles metadata of a test.
func of(t testing.TB, text string) *Metadata { return with(t, text, Options{}) }

func with(t testing.TB, text string, opts Options) *Metadata {
	t.Helper()
	m, faults := Parse(parse(t, text), opts)
	if faults != nil {
		t.Fatalf("%s: %v", text, faults)
	}
	return m
}

func terragraph(t testing.TB) *Metadata {
	t.Helper()
	m, faults := Parse(read(t, "config_metadata.json"), Options{})
	if faults != nil {
		t.Fatal(faults)
	}
	return m
}

// "metadata with 601 described parameters once its 34 copy-blocks are expanded".
func TestTheRealFile(t *testing.T) {
	blocks := strings.Count(compact(read(t, "config_metadata.json")), copyBlock)
	m := terragraph(t)
	entries, described, depths := 0, 0, map[int]bool{}
	for e := range m.All() {
		if e.Root {
			depths[len(e.Path)] = true
			entries++
		}
		if e.Desc != "" {
			described++
		}
	}
	if blocks != 34 || entries != 191 || described != 601 || strings.Contains(compact(m.Document()), copyBlock) {
		t.Errorf("%d copy-blocks, %d entries, %d described parameters", blocks, entries, described)
	}
	if len(depths) != 5 || !depths[1] || !depths[5] { // reference §1.9: "entries at depth 1-5"
		t.Errorf("entries at depths %v", depths)
	}
	if w := m.Warnings(); len(w) > 0 {
		t.Error(w)
	}
}

const entry = `"desc":"d","action":"NO_ACTION"`

// "A root entry is identified by the presence of its required properties"; all faults at once.
func TestParseFaults(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"a":5}`, "a: invalid type int64: must be an entry or a level of entries, each an object"},
		{`{"a":{"b":"x"}}`, `a.b: invalid type string: must be an entry or a level of entries, each an object`},
		{`{"a":{"desc":"d","type":"STRING"}}`, "a: entry without action: must have desc, type and action"},
		{`{"a":{"type":"STRING"}}`, "a: entry without desc and action: must have desc, type and action"},
		{`{"a":{"desc":5,"action":"NO_ACTION","type":"STRING"}}`, "a.desc: invalid type int64: must be a string"},
		{`{"a":{` + entry + `,"type":"ARRAY"}}`,
			`a.type: invalid value "ARRAY": must be INTEGER, FLOAT, STRING, BOOLEAN, MAP or OBJECT`},
		{`{"a":{` + entry + `,"type":"STRING","readOnly":"yes"}}`,
			`a.readOnly: invalid type string: must be true or false`},
		{`{"a":{` + entry + `,"type":"STRING","tag":1}}`, "a.tag: invalid type int64: must be a string"},
		{`{"a":{"desc":"d","action":1,"type":"STRING"}}`, "a.action: invalid type int64: must be the name of an action"},
		{`{"a":{` + entry + `,"type":"STRING","strVal":{"intRanges":[[1,2]],"floatRanges":[[1,2]]}}}`,
			"a.strVal: intRanges and floatRanges together: must be only one of them"},
		{`{"a":{` + entry + `,"type":"INTEGER","intVal":{"allowedRanges":[[2,1]]}}}`,
			"a.intVal.allowedRanges.0: invalid range from 2 down to 1: must have the smaller end first"},
		{`{"a":{` + entry + `,"type":"INTEGER","intVal":{"allowedRanges":[[1]]}}}`,
			"a.intVal.allowedRanges.0: invalid type array: must be a range: an array of its two ends"},
		{`{"a":{` + entry + `,"type":"INTEGER","intVal":{"allowedRanges":[[1,1.5]]}}}`,
			"a.intVal.allowedRanges.0: invalid range from 1 to 1.5: must be two integers"},
		{
			`{"a":{` + entry + `,"type":"INTEGER","intVal":{"allowedRanges":5,"allowedValues":["x"]}}}`,
			`a.intVal.allowedRanges: invalid type int64: must be an array; a.intVal.allowedValues.0: invalid value "x": ` +
				`must be integers`,
		},
		{`{"a":{` + entry + `,"type":"INTEGER","intVal":5}}`, "a.intVal: invalid type int64: must be an object"},
		{`{"a":{` + entry + `,"type":"STRING","strVal":{"allowedValues":[1]}}}`,
			"a.strVal.allowedValues.0: invalid type int64: must be a string"},
		{`{"a":{` + entry + `,"type":"STRING","strVal":{"regexMatches":5}}}`,
			"a.strVal.regexMatches: invalid type int64: must be a regular expression"},
		{`{"a":{` + entry + `,"type":"OBJECT","objVal":{}}}`,
			"a.objVal.properties: invalid type null: must be an object of properties"},
		{
			`{"a":{` + entry + `,"type":"OBJECT","objVal":{"properties":{"p":5,"q":{"desc":"d"},"r":{"type":"FLOAT"}}}}}`,
			"a.objVal.properties.p: invalid type int64: must be a property, an object; " +
				"a.objVal.properties.q.type: required: must be INTEGER, FLOAT, STRING, BOOLEAN, MAP or OBJECT; " +
				"a.objVal.properties.r.desc: required",
		},
		{`{"a":{` + entry + `,"type":"MAP","mapVal":{}}}`,
			"a.mapVal.type: required: must be INTEGER, FLOAT, STRING, BOOLEAN, MAP or OBJECT"},
		{`{"b":1,"a":{"c":2,"b":3}}`, "a.b: invalid type int64: x; a.c: invalid type int64: x; b: invalid type int64: x"},
		// Ours: a default must be allowed itself.
		{`{"a":{` + entry + `,"type":"MAP","mapVal":{"type":"INTEGER"},"default":{"x":1,"y":"z"}}}`,
			`a.default.y: invalid type string: must be an integer`},
	} {
		_, faults := Parse(parse(t, c.in), Options{})
		got := strings.ReplaceAll(faults.Error(), "\n", "; ")
		if strings.Contains(c.want, ": x") {
			got = strings.ReplaceAll(got, "must be an entry or a level of entries, each an object", "x")
		}
		if got != c.want {
			t.Errorf("%s:\n %s, want\n %s", c.in, got, c.want)
		}
	}
}

func TestARegexThatCannotBeUsedIsAFault(t *testing.T) {
	for _, pattern := range []string{`(`, `a)`, `a)(b`, `a(?=b)`, `(a)\1`, `a{1,2000}`, `[a`, `\`} {
		_, faults := Parse(config.Object{"a": config.Object{
			"desc": "d", "action": "NO_ACTION", "type": "STRING", "strVal": config.Object{"regexMatches": pattern},
		}}, Options{})
		if len(faults) != 1 || config.FormatPath(faults[0].Path) != "a.strVal.regexMatches" {
			t.Errorf("%s: %v", pattern, faults)
		}
	}
}

// Only the sub-structure of the type is read; a level may have keys of any name; flags
// that mean nothing where they stand.
func TestWhatIsNoFault(t *testing.T) {
	m := of(t, `{"a":{`+entry+`,"type":"BOOLEAN","intVal":"other","boolVal":{}},
		"type":{"desc":{`+entry+`,"type":"MAP"}},"b":{"c":{"d":{"e":{`+entry+`,"type":"OBJECT"}}}},"empty":{}}`)
	var names []string
	for e := range m.All() {
		names = append(names, e.Name()+" "+e.Kind.String())
	}
	if want := []string{"a BOOLEAN", "b.c.d.e OBJECT", "type.desc MAP"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

// Item 4: the seed's complete list, SYMLINK_TIMEZONE and RESTART_SLIP, those of E2E files;
// any other is a fault, but for a vendor's at every depth.
func TestNamesOfActions(t *testing.T) {
	doc := func(name string) config.Object {
		return parse(t, fmt.Sprintf(`{"a":{"desc":"d","action":%q,"type":"MAP","mapVal":{"type":"OBJECT","objVal":{"properties":{
			"p":{"desc":"d","type":"OBJECT","objVal":{"properties":{"q":{"desc":"d","type":"STRING","action":%q}}}}}}}}}`, name,
			name))
	}
	node := strings.Fields(`NO_ACTION REBOOT RESTART_MINION RESTART_STATS_AGENT RESTART_LOGTAIL RESTART_ROUTING ` +
		`RESTART_SQUIRE REDO_POP_CONFIG
		RESTART_FLUENTD_AGENT RELOAD_DNS_SERVERS RELOAD_NTP_CONFIG RELOAD_RSYSLOG_CONFIG RELOAD_SSHD_CA_KEYS ` +
		`RESTART_KEA SYNC_LINK_MONITOR
		INJECT_KVSTORE_KEYS UPDATE_FIREWALL UPDATE_LINK_METRICS UPDATE_GLOG_LEVEL RELOAD_FIRMWARE SET_FW_PARAMS
		SET_FW_PARAMS_SYNC_OR_RELOAD_FIRMWARE SET_FW_STATS_CONFIG SET_AIRTIME_PARAMS RESTART_UDP_PING_SERVER RELOAD_SSHD
		UPDATE_CHANNEL_ASSIGNMENT RESTART_SNMP RESTART_WEBUI RELOAD_TUNNEL_CONFIG RELOAD_VPP_CONFIG_AND_MONITOR UPDATE_ZONE
		RELOAD_TOPOLOGY_NAMES SYMLINK_TIMEZONE RESTART_SLIP`)
	e2e := strings.Fields("UPDATE_GFLAG UPDATE_SCAN_CONFIG UPDATE_PREFIX_ALLOC_PARAMS")
	if len(node)+len(e2e) != 38 || len(order)+1 != 38 { // the original's 38 (reference §5)
		t.Errorf("%d and %d names here, %d known", len(node), len(e2e), len(order))
	}
	for _, c := range []struct {
		names  []string
		opts   Options
		faults int // each name stands at two depths
	}{
		{node, Options{}, 0},
		{node, Options{E2E: true}, 0},
		{e2e, Options{}, 2},
		{e2e, Options{E2E: true}, 0},
		{[]string{"MAKE_COFFEE", "reboot", ""}, Options{}, 2},
		{[]string{"MAKE_COFFEE", "reboot", ""}, Options{E2E: true}, 2},
		{[]string{"MAKE_COFFEE", "UPDATE_GFLAG"}, Options{UnknownActions: true}, 0},
	} {
		for _, name := range c.names {
			if _, faults := Parse(doc(name), c.opts); len(faults) != c.faults {
				t.Errorf("%s with %+v: %v", name, c.opts, faults)
			}
		}
	}
}

// Item 4: "count on an object property only (on a root entry: a warning, no action)".
func TestActionsForPropertiesWarnOnAnEntry(t *testing.T) {
	for _, name := range propertyOnly {
		m := of(t, fmt.Sprintf(`{"a":{"desc":"d","action":%q,"type":"OBJECT","objVal":{"properties":{"p":{"desc":"d","action":%q,"type":"STRING"}}}}}`, name, name))
		w := m.Warnings()
		if len(w) != 1 || config.FormatPath(w[0].Path) != "a" || !strings.Contains(w[0].Problem, name) {
			t.Errorf("%s: %v", name, w)
		}
		if got, want := acts(m, `{"a":{"p":"x"}}`, t), name+":[a.p]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestIsE2E(t *testing.T) {
	if IsE2E(read(t, "config_metadata.json")) {
		t.Error("the node's metadata is taken for the controller's")
	}
	for _, field := range []string{"flags", "scanParams", "dataEndpoints"} {
		if !IsE2E(config.Object{field: config.Object{}}) {
			t.Errorf("%s is not known", field)
		}
	}
}
