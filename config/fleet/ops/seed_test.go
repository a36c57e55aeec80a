package ops

import (
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/optimize"
	"edgespan/config/layers"
)

// Seed terragraph-configuration-management, "Operations".
func TestSeed_Operations(t *testing.T) {
	t.Run("TCM-C3", func(t *testing.T) { // "Get Node Config": GET_CTRL_CONFIG_REQ, GET_CTRL_CONFIG_PATHS_REQ
		b := newBench(t, "n1", "n2")
		b.do(SetNodes{Overrides: doc(t, `{"n1":{"envParams":{"A":"1"}}}`)})
		if got := b.read(b.Config(ConfigQuery{Node: "n1"})); got != `{"envParams": {"A": "1"},"sysParams": `+
			`{"managedConfig": false}}` {
			t.Error(got)
		}
		if got := b.read(b.Config(ConfigQuery{Node: "n1",
			Paths: paths(t, "envParams.A x")})); got != `{"envParams": {"A": "1"}}` {
			t.Error(got)
		}
		if got := b.read(b.Paths(PathsQuery{Paths: paths(t, "envParams.*")})); got != `{"n1": {"envParams": {"A": "1"}}}` {
			t.Error(got)
		}
		if got := b.read(b.Paths(PathsQuery{Nodes: []string{"n2"},
			Paths: paths(t, "*.managedConfig")})); got != `{"n2": {"sysParams": {"managedConfig": false}}}` {
			t.Error(got)
		}
	})
	t.Run("TCM-C4", func(t *testing.T) { // "Get Config Layers"
		b := newBench(t, "n1", "n2")
		b.do(SetNetwork{Overrides: doc(t, `{"sysParams":{"managedConfig":true}}`)})
		b.do(SetNodes{Overrides: doc(t, `{"n1":{"envParams":{"A":"1"}}}`)})
		b.do(SetAuto{doc(t, `{"n2":{"envParams":{"B":"1"}}}`)})
		for _, c := range []struct {
			q    LayerQuery
			want string
		}{
			{LayerQuery{Layer: layers.Base, Versions: []string{"RELEASE_M80_4"}},
				`{"RELEASE_M80_4": {"old": true,"sysParams": {"logLevel": 0,"managedConfig": false}}}`},
			{LayerQuery{Layer: layers.Firmware}, `{"10.11.0": {"envParams": {"FW": "10"}}}`},
			{LayerQuery{Layer: layers.Firmware, Versions: []string{"9.0.0"}}, `{"9.0.0": {}}`},
			{LayerQuery{Layer: layers.Hardware}, `{"board-1": {"RELEASE_M80": {"envParams": {"HW": "puma"}}}}`},
			{LayerQuery{Layer: layers.Hardware, Boards: []string{"board-1", "x"}, Versions: []string{"RELEASE_M81"}},
				`{"board-1": {"RELEASE_M81": {"envParams": {"HW": "puma"}}},"x": {}}`},
			{LayerQuery{Layer: layers.Auto}, `{"n2": {"envParams": {"B": "1"}}}`},
			{LayerQuery{Layer: layers.Network}, `{"sysParams": {"managedConfig": true}}`},
			{LayerQuery{Layer: layers.Node, Nodes: []string{"n1", "n2"}}, `{"n1": {"envParams": {"A": "1"}}}`},
		} {
			if got := b.read(b.Layer(c.q)); got != c.want {
				t.Errorf("%+v: %s, want %s", c.q, got, c.want)
			}
		}
	})
	t.Run("TCM-W1", func(t *testing.T) { // "Set Config Overrides": SET_CTRL_CONFIG_{NETWORK,NODE}_OVERRIDES_REQ
		b := newBench(t, "n1", "n2")
		b.do(SetNetwork{Overrides: doc(t, `{"envParams":{"A":"1"}}`)})
		b.do(SetNetwork{Overrides: doc(t, `{"envParams":{"B":"1"}}`)})
		b.do(SetNodes{Overrides: doc(t, `{"n1":{"envParams":{"A":"1"}},"n2":{"envParams":{"A":"2"}}}`)})
		b.do(SetNodes{Overrides: doc(t, `{"n1":{"envParams":{"B":"1"}}}`)})
		b.has("network", `{"envParams": {"B": "1"}}`)
		b.has("node/n1", `{"envParams": {"B": "1"}}`)
		b.has("node/n2", `{"envParams": {"A": "2"}}`)
	})
	t.Run("TCM-W8", func(t *testing.T) { // MODIFY_CTRL_CONFIG_{NETWORK,NODE}_OVERRIDES_REQ
		b := newBench(t, "n1")
		for _, text := range []string{`{"envParams":{"A":"1"}}`, `{"envParams":{"B":"1"}}`} {
			b.do(SetNetwork{Overrides: doc(t, text), Modify: true})
			b.do(SetNodes{Overrides: config.Object{"n1": doc(t, text)}, Modify: true})
		}
		b.has("network", `{"envParams": {"A": "1","B": "1"}}`)
		b.has("node/n1", `{"envParams": {"A": "1","B": "1"}}`)
	})
	t.Run("TCM-C8", func(t *testing.T) { // CLEAR_AUTO_NODE_OVERRIDES_CONFIG
		b := newBench(t, "n1", "n2", "n3")
		b.do(SetAuto{doc(t, `{"n1":{"envParams":{"A":"1","B":"1"},"empty":{"x":{}}},"n2":{"envParams":{"A":"1"},"empty":{}},"n3":{"envParams":{"B":"1"},"empty":{}}}`)})
		o := b.do(ClearAuto{Paths: paths(t, "envParams.A nothing")})
		b.has("auto/n1", `{"envParams": {"B": "1"}}`)
		b.has("auto/n2", "")
		b.has("auto/n3", `{"empty": {},"envParams": {"B": "1"}}`)
		if got := strings.Join(o.Warnings, "\n"); got != "nothing: matches nothing in the auto layer" {
			t.Error(got)
		}
		b.do(ClearAuto{Nodes: []string{"n1"}, Paths: paths(t, "*")})
		b.has("auto/n1", "")
		b.has("auto/n3", `{"empty": {},"envParams": {"B": "1"}}`)
		b.refuses(ClearAuto{Nodes: []string{"n9"}, Paths: paths(t, "*")}, `node "n9" does not exist`)
		b.refuses(ClearAuto{}, "names no path")
	})
	t.Run("TCM-C5", func(t *testing.T) { // "Get Config Metadata"
		b := newBench(t)
		for of, key := range map[string]string{"node": `"sysParams": `, "controller": `"flags": `,
			"aggregator": `"flags": `} {
			if got := b.read(b.Describe(of)); !strings.Contains(got, key) || strings.Contains(got, "__copy_block__") {
				t.Errorf("%s: %.200s", of, got)
			}
		}
		if _, err := b.Describe("x"); err == nil ||
			!strings.Contains(err.Error(), "must be node, controller or aggregator") {
			t.Error(err)
		}
	})
	// "Get Config Actions": what the controller knows of them; nodes are asked with After
	t.Run("TCM-C6", func(t *testing.T) {
		b := newBench(t, "n1", "n2")
		o, err := b.Validate(SetNodes{Overrides: doc(t, `{"n1":{"envParams":{"OPENR_ENABLED":"1"}}}`)})
		if err != nil || actions(o) == "" || changes(o) != `n1: envParams.OPENR_ENABLED null to "1"` {
			t.Errorf("%v: %q, %q", err, changes(o), actions(o))
		}
		after, err := b.EffectiveAfter(o.Change, "n1")
		if got := config.OneLine(after); err != nil ||
			got != `{"envParams": {"OPENR_ENABLED": "1"},"sysParams": {"managedConfig": false}}` {
			t.Errorf("%v: %s", err, got)
		}
		b.has("node/n1", "")
	})
	t.Run("TCM-O5", func(t *testing.T) { // "Perform Optimizations"
		b := townBench(t)
		for _, kind := range optimize.All {
			if o := b.do(Optimize{Kinds: []optimize.Kind{kind}}); len(o.Change.Layers) == 0 {
				t.Errorf("%s assigns nothing", kind)
			}
		}
		b.has("auto/a", `{"linkParamsOverride": {"02:00:00:00:00:0b": {"fwParams": {"controlSuperframe": `+
			`0,"rxGolayIdx": 1,"txGolayIdx": 1}}},`+
			`"radioParamsOverride": {"02:00:00:00:00:0a": {"fwParams": {"channel": 2,"polarity": 1}}},`+
			`"topologyInfo": {"distributedIgnitionNumColors": 4,"neighborInfo": {"02:00:00:00:00:0b": `+
			`{"controlSuperframe": 0,"golayIdx": {"rxGolayIdx": 1,"txGolayIdx": 1},"initiatorMac": `+
			`"02:00:00:00:00:0a","nodePolarity": 2,"nodeType": 2}},`+
			`"nodeName": "a","nodeType": 2,"radioInfo": {"02:00:00:00:00:0a": {"distributedIgnitionColor": 1}},"site": `+
			`{"location": {"altitude": 0,"latitude": 48,"longitude": 10},"name": "A"},"topologyName": "town","zoneNodes": ""}}`)
	})
	t.Run("TCM-W3", func(t *testing.T) { // "All SET operations on the controller are validated using the config metadata"
		b := newBench(t, "n1")
		b.refuses(SetNetwork{Overrides: doc(t, `{"sysParams":{"managedConfig":5}}`)},
			"sysParams.managedConfig: invalid type int64")
		b.refuses(SetNodes{Overrides: doc(t, `{"n1":{"sysParams":{"managedConfig":5}},"n9":{}}`)},
			"n1: sysParams.managedConfig: invalid type int64", "n9: unknown node")
		b.refuses(SetAuto{doc(t, `{"n1":{"sysParams":{"managedConfig":5}}}`)},
			"n1: sysParams.managedConfig: invalid type int64")
		b.refuses(SetE2E{File: "controller", Config: doc(t, `{"topologyParams":{"enabledChannels":"9"}}`)},
			"topologyParams.enabledChannels")
	})
	t.Run("TCM-X1", func(t *testing.T) { // "EDIT_NODE … to migrate a node's configuration upon a node name change"
		b := townBench(t)
		b.do(SetNodes{Overrides: doc(t, `{"a":{"envParams":{"A":"1"}}}`)})
		o := b.do(EditTopology{Object: "node", Op: "rename", Name: "a", To: "z"})
		b.has("node/a", "")
		b.has("auto/a", "")
		b.has("node/z", `{"envParams": {"A": "1"}}`)
		if got := b.tell("auto/z"); !strings.Contains(got, `"nodeName": "z"`) {
			t.Error(got)
		}
		if got := b.tell("topology"); strings.Contains(got, `"a"`) || !strings.Contains(got, `"link-b-z"`) {
			t.Error(got)
		}
		if got := changes(o); got != `z: topologyInfo.nodeName "a" to "z"` {
			t.Error(got)
		}
	})
}

// Seed terragraph-configuration-management, "E2E Configuration".
func TestSeed_E2EConfiguration(t *testing.T) {
	// "the user operations on these configurations are otherwise the same as for nodes"
	t.Run("TCM-E1", func(t *testing.T) {
		b := newBench(t)
		for _, name := range []string{"controller", "aggregator"} {
			b.do(SetE2E{File: name, Replica: "r1", Config: doc(t, `{"flags":{"v":"1"}}`)})
			b.do(SetE2E{File: name, Replica: "r1", Config: doc(t, `{"flags":{"e2e.x":2}}`), Modify: true})
			if got := b.read(b.File(name, "r1", false)); got != `{"flags": {"v": "1","x": "2"}}` {
				t.Errorf("%s: %s", name, got)
			}
		}
		b.refuses(SetE2E{File: "x", Config: doc(t, `{}`)}, `file "x" does not exist: must be controller or aggregator`)
	})
	t.Run("TCM-E2", func(t *testing.T) { // "The following actions are supported in the E2E configuration files"
		b := newBench(t)
		o := b.do(SetE2E{File: "controller", Replica: "r1",
			Config: doc(t, `{"flags":{"v":"3","listen":"a:1","status_reports_interval":"2"},"scanParams":{"a":1},"statsAgentParams":{"sources":{"a":{"enabled":true,"zmq_url":"ipc://x"}}}}`)})
		for _, name := range []string{"REBOOT", "RESTART_STATS_AGENT", "UPDATE_GLOG_LEVEL", "UPDATE_GFLAG",
			"UPDATE_SCAN_CONFIG"} {
			if !strings.Contains(actions(o), name) {
				t.Errorf("%s: %s", name, actions(o))
			}
		}
	})
	t.Run("TCM-E8", func(t *testing.T) { // "UPDATE_GFLAG: Reload associated gflag value"
		b := newBench(t)
		o := b.do(SetE2E{File: "controller", Replica: "r1", Config: doc(t, `{"flags":{"status_reports_interval":"2"}}`)})
		if len(o.Flags) != 1 || o.Flags[0].Name != "status_reports_interval" || o.Flags[0].Value != "2" ||
			o.Flags[0].Default {
			t.Errorf("%+v", o.Flags)
		}
		o = b.do(SetE2E{File: "controller", Replica: "r1", Config: doc(t, `{}`)})
		if len(o.Flags) != 1 || !o.Flags[0].Default {
			t.Errorf("%+v", o.Flags)
		}
	})
	t.Run("TCM-E5", func(t *testing.T) { // "Configuration fields must be marked "syncable""
		b := newBench(t)
		b.do(SetE2E{File: "controller", Replica: "r1", Config: doc(t, `{"flags":{"listen":"a:1"},"scanParams":{"a":1}}`)})
		b.do(SetE2E{File: "controller", Replica: "r2", Config: doc(t, `{"flags":{"listen":"a:2"},"scanParams":{"a":2}}`)})
		if got := b.read(b.File("controller", "r1", false)); got != `{"flags": {"listen": "a:1"},"scanParams": {"a": 2}}` {
			t.Error(got)
		}
		if got := b.read(b.File("controller", "r2", false)); got != `{"flags": {"listen": "a:2"},"scanParams": {"a": 2}}` {
			t.Error(got)
		}
	})
	t.Run("TCM-E7", func(t *testing.T) { // "network-level configuration is synced, and host-level configuration is not"
		b := newBench(t)
		b.do(SetE2E{File: "controller", Replica: "r1",
			Config: doc(t, `{"flags":{"listen":"a:1"},"topologyParams":{"enabledChannels":"1"}}`)})
		b.has("e2e/controller", `{"topologyParams": {"enabledChannels": "1"}}`)
		l := history.Layer{Kind: history.E2E, Name: "controller/r1"}
		b.has(l.String(), `{"flags": {"listen": "a:1"}}`)
	})
}
