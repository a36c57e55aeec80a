package metadata

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"edgespan/config"
)

// The seed, sentence by sentence: each sub-test is a row of docs/seeds.md.

// fits wants each value of good (JSON, without blanks) to be allowed at k, and none of bad.
func fits(t *testing.T, described, good, bad string) {
	t.Helper()
	m := of(t, `{"k":{`+entry+`,`+described+`}}`)
	for _, v := range strings.Fields(good) {
		if got := judged(m.Validate(parse(t, `{"k":`+v+`}`))); got != "" {
			t.Errorf("%s: %s is refused: %s", described, v, got)
		}
	}
	for _, v := range strings.Fields(bad) {
		if len(m.Validate(parse(t, `{"k":`+v+`}`)).Faults) == 0 {
			t.Errorf("%s: must be %s", described, v)
		}
	}
}

func TestSeed_ConfigMetadata(t *testing.T) {
	t.Run("TCM-M1", func(t *testing.T) { // every configuration field has its entry, with a text about it
		m := terragraph(t)
		if r := m.Validate(full(t)); len(r.Unknown) > 0 {
			t.Errorf("without an entry: %v", r.Unknown)
		}
		for e := range m.All() {
			if e.Root && e.Desc == "" {
				t.Errorf("%s has no description", e.Name())
			}
		}
	})
	t.Run("TCM-M2", func(t *testing.T) { // an entry is known by desc, type and action, and must have them
		whole := config.Object{"desc": "d", "type": "STRING", "action": "REBOOT"}
		m, faults := Parse(config.Object{"k": whole}, Options{})
		if e, _ := m.Entry([]string{"k"}); faults != nil || !e.Root || e.Desc != "d" || e.Kind != String ||
			e.Action != "REBOOT" {
			t.Errorf("%+v, %v", e, faults)
		}
		for key := range whole {
			if _, faults := Parse(config.Object{"k": config.Unset(whole, []string{key})}, Options{}); len(faults) != 1 ||
				!strings.Contains(faults.Error(), "without "+key) {
				t.Errorf("without %s: %v", key, faults)
			}
		}
	})
	t.Run("TCM-M3", func(t *testing.T) { // the table of types, each with its sub-structure
		fits(t, `"type":"INTEGER","intVal":{"allowedValues":[1]}`, `1`, `2 1.0 "1"`)
		fits(t, `"type":"FLOAT","floatVal":{"allowedValues":[0.5]}`, `0.5`, `1.5 "0.5"`)
		fits(t, `"type":"STRING","strVal":{"allowedValues":["a"]}`, `"a"`, `"b" 1`)
		fits(t, `"type":"BOOLEAN","boolVal":{}`, `true false`, `1 "true"`)
		fits(t, `"type":"MAP","mapVal":{"type":"INTEGER"}`, `{"a":1}`, `{"a":"x"} 1`)
		fits(t, `"type":"OBJECT","objVal":{"properties":{"p":{"desc":"d","type":"INTEGER"}}}`, `{"p":1}`, `{"p":"x"} 1`)
	})
	t.Run("TCM-M4", func(t *testing.T) { // all JSON types but arrays; map keys are strings
		if _, faults := Parse(parse(t, `{"k":{`+entry+`,"type":"ARRAY"}}`), Options{}); len(faults) != 1 {
			t.Errorf("a type ARRAY: %v", faults)
		}
		for _, kind := range []string{"INTEGER", "FLOAT", "STRING", "BOOLEAN", "MAP", "OBJECT"} {
			fits(t, fmt.Sprintf(`"type":%q`, kind), "", `[] [1] ["a"] [{}]`)
		}
		fits(t, `"type":"MAP","mapVal":{"type":"INTEGER"}`, `{"1":1,"true":2,"":3}`, "")
	})
	t.Run("TCM-M12", func(t *testing.T) { // a map or an object without its sub-structure is not checked below (ADR 0015)
		fits(t, `"type":"MAP"`, `{"a":1,"b":"x"}`, `1`)
		fits(t, `"type":"OBJECT"`, `{"a":1,"b":"x"}`, `1`)
	})
}

func TestSeed_StructureOfMetadata(t *testing.T) {
	t.Run("TCM-M5", func(t *testing.T) { // [min, max] (inclusive), and allowedValues apart from them
		fits(t, `"type":"INTEGER","intVal":{"allowedRanges":[[1,12],[20,30]],"allowedValues":[-1]}`, `1 12 20 30 -1`,
			`0 13 19 31 -2`)
		fits(t, `"type":"FLOAT","floatVal":{"allowedRanges":[[0.5,1.5]],"allowedValues":[-1.0]}`, `0.5 1.5 -1.0`,
			`0.4 1.6 -0.9`)
	})
	t.Run("TCM-M6", func(t *testing.T) { // a regular expression, ranges of the parsed string, and allowedValues apart
		fits(t, `"type":"STRING","strVal":{"regexMatches":"[0-9]+","allowedValues":["auto"]}`, `"12" "auto"`,
			`"12a" "a12" "x" ""`)
		fits(t, `"type":"STRING","strVal":{"intRanges":[[0,4],[8,9]]}`, `"0" "4" "8"`, `"5" "-1" "x" "1.5"`)
		fits(t, `"type":"STRING","strVal":{"floatRanges":[[0,1.5]]}`, `"0" "1.5" "1e-3"`, `"1.6" "x"`)
	})
	t.Run("TCM-M13", func(t *testing.T) { // boolVal: n/a
		fits(t, `"type":"BOOLEAN","boolVal":{"allowedValues":[true]}`, `true false`, `1`)
	})
	t.Run("TCM-M7", func(t *testing.T) { // required, default false
		const properties = `"type":"OBJECT","objVal":{"properties":{"must":{"desc":"d","type":"INTEGER","required":true},
			"may":{"desc":"d","type":"INTEGER"},"not":{"desc":"d","type":"INTEGER","required":false}}}`
		fits(t, properties, `{"must":1} {"must":1,"may":2}`, `{} {"may":2}`)
	})
	kinds := []struct{ described, good, bad string }{ // one of each type, constraints included
		{`"type":"INTEGER","intVal":{"allowedRanges":[[1,2]]}`, `1`, `3`},
		{`"type":"FLOAT","floatVal":{"allowedRanges":[[1,2]]}`, `1.5`, `2.5`},
		{`"type":"STRING","strVal":{"regexMatches":"a+"}`, `"aa"`, `"b"`},
		{`"type":"BOOLEAN"`, `true`, `0`},
		{`"type":"OBJECT","objVal":{"properties":{"q":{"desc":"d","type":"STRING","required":true}}}`, `{"q":""}`, `{}`},
		{`"type":"MAP","mapVal":{"type":"STRING"}`, `{"q":""}`, `{"q":0}`},
	}
	t.Run("TCM-M14", func(t *testing.T) { // a property is of any type, with its constraints
		for _, k := range kinds {
			fits(t, `"type":"OBJECT","objVal":{"properties":{"p":{"desc":"d",`+k.described+`}}}`, `{} {"p":`+k.good+`}`, `{"p":`+
				k.bad+`}`)
		}
	})
	t.Run("TCM-M15", func(t *testing.T) { // and so are the values of a map, which have a type
		for _, k := range kinds {
			fits(t, `"type":"MAP","mapVal":{`+k.described+`}`, `{} {"x":`+k.good+`,"y":`+k.good+`}`, `{"x":`+k.good+`,"y":`+
				k.bad+`}`)
		}
		if _, faults := Parse(parse(t, `{"k":{`+entry+`,"type":"MAP","mapVal":{}}}`), Options{}); len(faults) != 1 {
			t.Errorf("a mapVal without a type: %v", faults)
		}
	})
}

func TestSeed_MarksOfMetadata(t *testing.T) {
	marked := func(mark string) *Metadata { // on an entry, and on a property of an object
		return of(t, `{"root":{`+entry+`,"type":"STRING",`+mark+`},
			"o":{`+entry+`,"type":"OBJECT","objVal":{"properties":{"p":{"desc":"d","type":"STRING",`+mark+
			`},"q":{"desc":"d","type":"STRING"}}}}}`)
	}
	in := parse(t, `{"root":"x","o":{"p":"y","q":"z"}}`)
	t.Run("TCM-M8", func(t *testing.T) { // deprecated: still read
		if got, want := judged(marked(`"deprecated":true`).Validate(in)), "-o.p; -root"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
	t.Run("TCM-M16", func(t *testing.T) { // readOnly: still read
		if got, want := judged(marked(`"readOnly":true`).Validate(in)), "!o.p; !root"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
	t.Run("TCM-M10", func(t *testing.T) { // tags are purely informational
		m, without := marked(`"tag":"LED"`), marked(`"tag":""`)
		for _, path := range [][]string{{"root"}, {"o", "p"}} {
			if e, _ := m.Entry(path); e.Tag != "LED" {
				t.Errorf("%+v", e)
			}
		}
		shared, own := m.Split(in)
		if judged(m.Validate(in)) != judged(without.Validate(in)) || told(m.Actions(in)) != told(without.Actions(in)) ||
			len(shared) > 0 || compact(own) != compact(in) {
			t.Errorf("a tag changes what the metadata does: %v, %v", shared, own)
		}
	})
	t.Run("TCM-M17", func(t *testing.T) { // sync: true shares, nothing else does
		shared, own := marked(`"sync":true`).Split(in)
		if compact(shared) != `{"o":{"p":"y"},"root":"x"}` || compact(own) != `{"o":{"q":"z"}}` {
			t.Errorf("%s and %s", compact(shared), compact(own))
		}
	})
}

// The seed's two tables of actions, word for word.
const (
	nodeActions = `
	NO_ACTION REBOOT RESTART_MINION RESTART_STATS_AGENT RESTART_LOGTAIL RESTART_ROUTING RESTART_SQUIRE REDO_POP_CONFIG
	RESTART_FLUENTD_AGENT RELOAD_DNS_SERVERS RELOAD_NTP_CONFIG RELOAD_RSYSLOG_CONFIG RELOAD_SSHD_CA_KEYS RESTART_KEA
	SYNC_LINK_MONITOR INJECT_KVSTORE_KEYS UPDATE_FIREWALL UPDATE_LINK_METRICS UPDATE_GLOG_LEVEL RELOAD_FIRMWARE
	SET_FW_PARAMS SET_FW_PARAMS_SYNC_OR_RELOAD_FIRMWARE SET_FW_STATS_CONFIG SET_AIRTIME_PARAMS RESTART_UDP_PING_SERVER
	RELOAD_SSHD UPDATE_CHANNEL_ASSIGNMENT RESTART_SNMP RESTART_WEBUI RELOAD_TUNNEL_CONFIG RELOAD_VPP_CONFIG_AND_MONITOR
	UPDATE_ZONE RELOAD_TOPOLOGY_NAMES`
	e2eActions = `
	NO_ACTION REBOOT RESTART_STATS_AGENT UPDATE_GLOG_LEVEL UPDATE_GFLAG UPDATE_SCAN_CONFIG`
)

// asked is what a change of a property with an action asks for.
func asked(t *testing.T, name string, opts Options) (string, config.Faults) {
	t.Helper()
	m, faults := Parse(parse(t,
		fmt.Sprintf(`{"o":{`+entry+
			`,"type":"OBJECT","objVal":{"properties":{"p":{"desc":"d","action":%q,"type":"STRING"}}}}}`, name)), opts)
	if faults != nil {
		return "", faults
	}
	return told(m.Actions(parse(t, `{"o":{"p":"x"}}`))), nil
}

func TestSeed_PostConfigActions(t *testing.T) {
	table := func(t *testing.T, names string, opts Options) {
		for _, name := range strings.Fields(names) {
			want := name + ":[o.p]"
			if name == "NO_ACTION" {
				want = "" // do nothing
			}
			if got, faults := asked(t, name, opts); faults != nil || got != want {
				t.Errorf("%s: %q %v, want %q", name, got, faults, want)
			}
		}
	}
	t.Run("TCM-A1", func(t *testing.T) {
		table(t, nodeActions, Options{})
		if n := len(strings.Fields(nodeActions)); n != 33 {
			t.Errorf("the table has %d rows", n)
		}
	})
	t.Run("TCM-A6", func(t *testing.T) {
		table(t, e2eActions, Options{E2E: true})
		if _, faults := asked(t, "UPDATE_GFLAG", Options{}); faults == nil {
			t.Error("a node has flags")
		}
	})
	t.Run("TCM-A2", func(t *testing.T) { // "taking the JSON difference between the current and new node configurations"
		m := terragraph(t)
		before, after := parse(t, `{"popParams":{"POP_IFACE":"nic1"},"envParams":{"MINION_VERBOSE":"0"}}`),
			parse(t, `{"popParams":{"POP_IFACE":"nic2"},"envParams":{"MINION_VERBOSE":"0"}}`)
		if got, want := told(m.Actions(config.FullDiff(before, after))),
			"REDO_POP_CONFIG:[popParams.POP_IFACE]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got := told(m.Actions(config.FullDiff(after, after))); got != "" {
			t.Errorf("no change asks for %s", got)
		}
	})
	t.Run("TCM-A3", func(t *testing.T) { // "the object property action does not simply replace the root entry action"
		m := of(t, `{"o":{"desc":"d","action":"RESTART_KEA","type":"OBJECT","objVal":{"properties":{"p":{"desc":"d","action":"RESTART_SNMP","type":"STRING"}}}}}`)
		if got, want := acts(m, `{"o":{"p":"x"}}`, t), "RESTART_KEA:[o] RESTART_SNMP:[o.p]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
	// "SET_FW_PARAMS and related actions … only take effect when set on an object property"
	t.Run("TCM-A4", func(t *testing.T) {
		for _, name := range []string{"SET_FW_PARAMS", "SET_FW_PARAMS_SYNC_OR_RELOAD_FIRMWARE", "SET_FW_STATS_CONFIG"} {
			m := of(t, fmt.Sprintf(`{"root":{"desc":"d","action":%q,"type":"STRING"}}`, name))
			if got, _ := asked(t, name, Options{}); acts(m, `{"root":"x"}`, t) != "" || got != name+":[o.p]" {
				t.Errorf("%s: %q on a property, %q on an entry", name, got, acts(m, `{"root":"x"}`, t))
			}
		}
	})
	t.Run("TCM-A5", func(t *testing.T) { // "e.g. rebooting or restarting minion last"
		for _, last := range []string{"REBOOT", "RESTART_MINION"} {
			for _, name := range strings.Fields(nodeActions) {
				m := of(t, fmt.Sprintf(`{"a":{"desc":"d","action":%q,"type":"STRING"},"o":{`+entry+
					`,"type":"OBJECT","objVal":{"properties":{"p":{"desc":"d","action":%q,"type":"STRING"}}}}}`, last, name))
				actions := m.Actions(parse(t, `{"a":"x","o":{"p":"x"}}`))
				if end := actions[len(actions)-1].Name; end != last && end != "REBOOT" {
					t.Errorf("%s after %s", end, last)
				}
			}
		}
	})
}

// The example of "Preprocessing", word for word.
const seedExample = `{
"linkParamsBase": {
"desc": "Link parameters",
"action": "NO_ACTION",
"type": "OBJECT",
"objVal": {
"properties": {
"fwParams": {
"desc": "Firmware parameters for links",
"action": "RESTART_MINION",
"type": "OBJECT",
"objVal": {
"properties": {
"mcs": {
"__copy_block__": "radioParamsBase.objVal.properties.fwParams.objVal.properties.mcs",
"action": "SET_FW_PARAMS"
}
}
}
}
}
}
},
"radioParamsBase": {
"desc": "Radio parameters",
"action": "NO_ACTION",
"type": "OBJECT",
"objVal": {
"properties": {
"fwParams": {
"desc": "Firmware parameters for radios",
"action": "RESTART_MINION",
"type": "OBJECT",
"objVal": {
"properties": {
"mcs": {
"desc": "MCS used by transmitter (1-12: Static MCS, 35: Joint LA-TPC)",
"type": "INTEGER",
"intVal": {
"allowedRanges": [[1, 12]],
"allowedValues": [35]
}
}
}
}
}
}
}
}
}`

func TestSeed_Preprocessing(t *testing.T) {
	mcs := strings.Split("linkParamsBase.objVal.properties.fwParams.objVal.properties.mcs", ".")
	t.Run("TCM-P1", func(t *testing.T) { // "the target JSON value will be copied into the source location"
		out, faults := Expand(parse(t, seedExample))
		got, _ := config.Lookup(out, mcs)
		const want = `{"action":"SET_FW_PARAMS","desc":"MCS used by transmitter (1-12: Static MCS, 35: Joint LA-TPC)",` +
			`"intVal":{"allowedRanges":[[1,12]],"allowedValues":[35]},"type":"INTEGER"}`
		if faults != nil || compact(got) != want {
			t.Errorf("%s %v, want %s", compact(got), faults, want)
		}
		m := of(t, seedExample)
		if got := judged(m.Validate(parse(t,
			`{"linkParamsBase":{"fwParams":{"mcs":13}}}`))); got != "linkParamsBase.fwParams.mcs range" {
			t.Errorf("what was copied does not hold: %q", got)
		}
	})
	// "any other properties … will override those same properties in the copied target block"
	t.Run("TCM-P4", func(t *testing.T) {
		m := of(t, seedExample)
		if got, want := acts(m, `{"linkParamsBase":{"fwParams":{"mcs":1}}}`, t),
			"SET_FW_PARAMS:[linkParamsBase.fwParams.mcs] RESTART_MINION:[linkParamsBase.fwParams]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got, want := acts(m, `{"radioParamsBase":{"fwParams":{"mcs":1}}}`, t),
			"RESTART_MINION:[radioParamsBase.fwParams]"; got != want {
			t.Errorf("the target was changed: %s, want %s", got, want)
		}
		out, faults := Expand(parse(t, `{"a":{"__copy_block__":"b","x":1},"b":{"x":2,"y":2}}`))
		if faults != nil || compact(out) != `{"a":{"x":1,"y":2},"b":{"x":2,"y":2}}` {
			t.Errorf("%s %v", compact(out), faults)
		}
	})
	t.Run("TCM-P2", func(t *testing.T) { // "handles circular- and self-references (throw error)"
		for _, text := range []string{`{"a":{"__copy_block__":"a"}}`,
			`{"a":{"__copy_block__":"b"},"b":{"__copy_block__":"c"},"c":{"__copy_block__":"a"}}`} {
			if out, faults := Expand(parse(t, text)); out != nil || len(faults) != 1 ||
				!strings.Contains(faults.Error(), "circle") {
				t.Errorf("%s: %v", text, faults)
			}
		}
	})
	t.Run("TCM-P3", func(t *testing.T) { // "as well as dependencies (parse with no order requirement)"
		names := []string{"a", "b", "c"}
		for range names {
			names = append(names[1:], names[0])
			text := fmt.Sprintf(`{%q:{"__copy_block__":%q},%q:{"__copy_block__":%q},%q:{"x":1}}`, names[0], names[1], names[1],
				names[2], names[2])
			if out, faults := Expand(parse(t, text)); faults != nil || compact(out) != `{"a":{"x":1},"b":{"x":1},"c":{"x":1}}` {
				t.Errorf("%s: %s %v", text, compact(out), faults)
			}
		}
	})
}

func TestSeed_InteroperabilityOfMetadata(t *testing.T) {
	own := of(t, `{"k":{`+entry+`,"type":"INTEGER","intVal":{"allowedValues":[1]}}}`)
	vendor := parse(t, `{"k":{`+entry+
		`,"type":"STRING"},"acme":{"desc":"d","action":"MAKE_COFFEE","type":"OBJECT","objVal":{"properties":{
		"p":{"desc":"d","action":"MAKE_TEA","type":"STRING"},"q":{"desc":"d","action":"RESTART_KEA","type":"STRING"}}}}}`)
	merged, conflicts, faults := own.Merge(vendor)
	if faults != nil {
		t.Fatal(faults)
	}
	t.Run("TCM-I1", func(t *testing.T) { // "any conflicting metadata entries are dropped"
		if len(conflicts) != 1 || !slices.Equal(conflicts[0].Path, []string{"k"}) ||
			judged(merged.Validate(parse(t, `{"k":1,"acme":{"p":""}}`))) != "" {
			t.Errorf("%v", conflicts)
		}
	})
	t.Run("TCM-I2", func(t *testing.T) { // "unknown post-config actions are parsed but ignored"
		if got, want := acts(merged, `{"acme":{"p":"x","q":"y"}}`, t), "RESTART_KEA:[acme.q]"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
	t.Run("TCM-N7", func(t *testing.T) { // "include the company name in every field name (for top-level structures)"
		if got := judged(merged.Validate(parse(t, `{"acme":{"p":5}}`))); got != "acme.p type" {
			t.Errorf("a vendor's own field is not as it says: %q", got)
		}
	})
	t.Run("TCM-I5", func(t *testing.T) { // "merges … (non-persistently)"
		if got := judged(own.Validate(parse(t, `{"acme":{}}`))); got != "?acme" {
			t.Errorf("ours has become the vendor's: %s", got)
		}
	})
}

func TestSeed_ManagedConfig(t *testing.T) {
	t.Run("TCM-S4", func(t *testing.T) { // "a special boolean configuration field sysParams.managedConfig"
		m, path := terragraph(t), []string{"sysParams", "managedConfig"}
		v, _ := config.Lookup(full(t), path)
		if e, _ := m.Entry(path); e.Kind != Boolean || e.Action != noAction || v != false {
			t.Errorf("%v by default: %+v", v, e)
		}
	})
}
