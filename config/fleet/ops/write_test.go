package ops

import (
	"errors"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/override"
)

func TestAWriteSaysWhatItDoes(t *testing.T) {
	b := newBench(t, "n1", "n2", "n3")
	o := b.do(SetNetwork{Overrides: doc(t, `{"envParams":{"A":"1"},"vendor":{"x":1}}`)})
	if o.Message != "Success. 3 nodes change." || unknown(o) != "network/envParams/A network/vendor" ||
		changes(o) != `n1 n2 n3: envParams.A null to "1" vendor.x null to 1` {
		t.Errorf("%s, %s, %s", o.Message, unknown(o), changes(o))
	}
	o = b.do(SetNodes{Overrides: doc(t, `{"n2":{"envParams":{"A":"2"},"mine":1}}`)})
	if o.Message != "Success. 1 node changes." || unknown(o) != "n2/envParams/A n2/mine" ||
		changes(o) != `n2: envParams.A "1" to "2" mine null to 1` {
		t.Errorf("%s, %s, %s", o.Message, unknown(o), changes(o))
	}
	o = b.do(SetNodes{Overrides: doc(t, `{"n2":{"envParams":{"A":"2"},"mine":1}}`)})
	if o.Message != "Success. Nothing changes." || len(o.Change.Layers) != 0 {
		t.Errorf("%s, %v", o.Message, o.Change.Layers)
	}
	o = b.do(SetAuto{doc(t, `{"n2":{"envParams":{"A":"3"}}}`)})
	if o.Message != "Success. The config of no node changes." {
		t.Error(o.Message)
	}
	if _, err := b.Validate(nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

func TestUnset(t *testing.T) {
	b := newBench(t, "n1")
	b.do(SetNetwork{Overrides: doc(t, `{"envParams":{"A":"1","B":"1"}}`)})
	b.do(SetNodes{Overrides: doc(t, `{"n1":{"envParams":{"A":"2"}}}`)})
	b.do(Unset{Layer: layers.Network, Keys: paths(t, "envParams.A")})
	b.has("network", `{"envParams": {"B": "1"}}`)
	b.do(Unset{Layer: layers.Node, Keys: paths(t, "n1.envParams.A")})
	b.has("node/n1", "")
	b.refuses(Unset{Layer: layers.Node, Keys: paths(t, "n1.x n9.y")}, "n1: x: not in the node layer",
		"n9: unknown node")
	b.refuses(Unset{Layer: layers.Auto, Keys: paths(t, "n1.x")}, "the auto layer can't be written")
	b.refuses(Unset{Layer: layers.Node}, "names no key")
}

func TestSetAuto(t *testing.T) {
	b := newBench(t, "n1")
	b.do(SetAuto{doc(t, `{"n1":{"envParams":{"A":"1","B":"1"},"o":{"p":{"q":1}}}}`)})
	b.do(SetAuto{doc(t, `{"n1":{"envParams":{"A":null,"C":"1"},"o":{"p":{"q":null}},"x":null}}`)})
	b.has("auto/n1", `{"envParams": {"B": "1","C": "1"}}`)
	b.do(SetAuto{doc(t, `{"n1":{"envParams":{"B":null,"C":null}}}`)})
	b.has("auto/n1", "")
	b.do(SetAuto{doc(t, `{"n1":{"empty":{}}}`)})
	b.has("auto/n1", `{"empty": {}}`)
	b.do(SetAuto{doc(t, `{"n1":null}`)})
	b.has("auto/n1", "")
	b.refuses(SetAuto{doc(t, `{"n1":5,"n9":{}}`)}, "n1: invalid type int64", "n9: unknown node")
	b.refuses(SetAuto{doc(t, `{"n1":{"sysParams":1}}`)},
		"n1: sysParams: invalid type int64 in the auto layer over an object in the base layer")
}

// Reference §1.16, the tunnel hook, and its [BUG]: a modify that says nothing of tunnels
// removed all of them.
func TestTunnelsFollowTheNodesThatTheyLeadTo(t *testing.T) {
	b := newBench(t, "n1", "n2", "n3")
	b.Nodes["n2"] = NodeFact{Address: "fd00::2"}
	b.Hardware.Base = b.Hardware.Base[:2]
	o := b.do(SetNodes{Overrides: doc(t,
		`{"n1":{"tunnelConfig":{"t2":{"dstNodeName":"n2"},"t3":{"dstNodeName":"n3"},"t9":{"dstNodeName":"n9"},"own":{"dstIp":"fd00::9"}}}}`)})
	b.has("auto/n1", `{"tunnelConfig": {"t2": {"dstIp": "fd00::2"}}}`)
	if !strings.Contains(changes(o), `tunnelConfig.t2.dstIp null to "fd00::2"`) {
		t.Error(changes(o))
	}
	if got := strings.Join(o.Warnings, "\n"); !strings.Contains(got,
		`n1: tunnelConfig.t3.dstNodeName: node "n3" has no known address yet`) ||
		!strings.Contains(got, `node "n9" is not known`) {
		t.Error(got)
	}
	if _, ok, err := b.TunnelAddresses(); ok || err != nil {
		t.Errorf("%v, %v: nothing is new", ok, err)
	}

	b.Nodes["n2"], b.Nodes["n3"] = NodeFact{Address: "fd00::22"}, NodeFact{Address: "fd00::3"}
	w, ok, err := b.TunnelAddresses("n2")
	if got := config.OneLine(w.Values); !ok || err != nil ||
		got != `{"n1": {"tunnelConfig": {"t2": {"dstIp": "fd00::22"}}}}` {
		t.Errorf("%s, %v, %v", got, ok, err)
	}
	b.do(w)
	w, _, _ = b.TunnelAddresses()
	b.do(w)
	b.has("auto/n1", `{"tunnelConfig": {"t2": {"dstIp": "fd00::22"},"t3": {"dstIp": "fd00::3"}}}`)

	b.Nodes["n2"] = NodeFact{Address: "192.0.2.2"} // no address that dstIp takes: the other is written all the same
	b.Nodes["n3"] = NodeFact{Address: "fd00::33"}
	w, ok, err = b.TunnelAddresses()
	if got := config.OneLine(w.Values); !ok || err != nil ||
		got != `{"n1": {"tunnelConfig": {"t3": {"dstIp": "fd00::33"}}}}` {
		t.Errorf("%s %v %v", got, ok, err)
	}
	o = b.do(SetNodes{Modify: true, Overrides: doc(t, `{"n1":{"tunnelConfig":{"t4":{"dstNodeName":"n2"}}}}`)})
	if got := strings.Join(o.Warnings, "\n"); !strings.Contains(got,
		"connects from 192.0.2.2, which the metadata does not allow there") {
		t.Errorf("%q", got)
	}
	b.do(Unset{Layer: layers.Node, Keys: paths(t, "n1.tunnelConfig.t4")})
	b.Nodes["n3"] = NodeFact{Address: "fd00::3"}
	b.do(w)
	w, _, _ = b.TunnelAddresses()
	b.do(w)
	b.do(SetAuto{doc(t, `{"n1":{"tunnelConfig":{"t2":{"dstIp":"fd00::22"}}}}`)})
	b.Nodes["n2"] = NodeFact{} // away: its tunnel stays
	b.do(SetNodes{Modify: true, Overrides: doc(t, `{"n1":{"tunnelConfig":{"t2":{"enabled":true}}}}`)})
	b.has("auto/n1", `{"tunnelConfig": {"t2": {"dstIp": "fd00::22"},"t3": {"dstIp": "fd00::3"}}}`)
	b.do(SetNodes{Overrides: doc(t, `{"n1":{"envParams":{"A":"1"}}}`), Modify: true})
	b.Nodes["n2"] = NodeFact{Address: "fd00::22"}
	b.has("auto/n1", `{"tunnelConfig": {"t2": {"dstIp": "fd00::22"},"t3": {"dstIp": "fd00::3"}}}`)
	b.do(Unset{Layer: layers.Node, Keys: paths(t, "n1.tunnelConfig.t3")})
	b.has("auto/n1", `{"tunnelConfig": {"t2": {"dstIp": "fd00::22"}}}`)
	b.do(SetNodes{Overrides: doc(t, `{"n1":{}}`)})
	b.has("auto/n1", "")
}

func TestSecretsAreMaskedAndKept(t *testing.T) {
	b := newBench(t, "n1")
	b.do(SetNetwork{Overrides: doc(t, `{"wifi":{"password":"one"}}`)})
	o := b.do(SetNodes{Overrides: doc(t, `{"n1":{"wifi":{"password":"two"}}}`)})
	if text := config.OneLine(o.Effects[0].Diff) + changes(o); strings.Contains(text, "two") ||
		strings.Contains(text, "one") {
		t.Error(text)
	}
	for name, read := range map[string]func(reveal bool) (DocumentAnswer, error){
		"config":  func(r bool) (DocumentAnswer, error) { return b.Config(ConfigQuery{Node: "n1", Reveal: r}) },
		"paths":   func(r bool) (DocumentAnswer, error) { return b.Paths(PathsQuery{Paths: paths(t, "wifi"), Reveal: r}) },
		"network": func(r bool) (DocumentAnswer, error) { return b.Layer(LayerQuery{Layer: layers.Network, Reveal: r}) },
		"node":    func(r bool) (DocumentAnswer, error) { return b.Layer(LayerQuery{Layer: layers.Node, Reveal: r}) },
	} {
		masked, err := read(false)
		if got := b.read(masked, err); !strings.Contains(got, `{"$masked": true}`) || strings.Contains(got, "two") ||
			len(masked.Digest) != 64 {
			t.Errorf("%s: %s, %s", name, got, masked.Digest)
		}
		open, err := read(true)
		if got := b.read(open, err); strings.Contains(got, "$masked") || open.Digest != config.MD5(open.Object) {
			t.Errorf("%s: %s", name, got)
		}
	}
	before, _ := b.Layer(LayerQuery{Layer: layers.Node})
	b.do(SetNodes{Overrides: doc(t, `{"n1":{"wifi":{"password":{"$masked":true}},"envParams":{"A":"1"}}}`)})
	b.has("node/n1", `{"envParams": {"A": "1"},"wifi": {"password": "two"}}`)
	b.do(SetNodes{Overrides: doc(t, `{"n1":{"wifi":{"password":"three"}}}`)})
	after, _ := b.Layer(LayerQuery{Layer: layers.Node})
	if !config.Equal(before.Object, after.Object) || before.Digest == after.Digest {
		t.Errorf("%v and %v look alike, and their digests must not", before, after)
	}
	all, err := b.Explain("n1", []string{"wifi"})
	if err != nil || len(all) != 1 || all[0].By.Number != 4 || len(all[0].Shadowed) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	if text := config.OneLine([]any{all[0].Value, all[0].Shadowed[0].Value,
		all[0].ValueOrigin.Shadowed[0].Value}); strings.Contains(text, "three") || strings.Contains(text, "one") {
		t.Error(text)
	}
	third, err := history.At(b.store, 3)
	if err != nil {
		t.Fatal(err)
	}
	diffs, err := history.Diff(third, b.State)
	if err != nil || len(diffs) != 1 {
		t.Fatal(err)
	}
	masked, err := b.MaskDiffs(diffs)
	if err != nil {
		t.Fatal(err)
	}
	d := masked[0]
	if text := config.OneLine([]any{d.Before.Document, d.After.Document, d.Values[1].Old,
		d.Values[1].New}); strings.Contains(text, "two") || strings.Contains(text, "three") {
		t.Error(text)
	}
	if diffs[0].Values[1].New != "three" {
		t.Errorf("the differences themselves were masked: %+v", diffs[0].Values)
	}
}

func TestReadsThatFail(t *testing.T) {
	b := newBench(t, "n1")
	b.Nodes["new"] = NodeFact{}
	b.Nodes["broken"] = NodeFact{Reported: true, Versions: layers.Versions{Software: "RELEASE_M99"}}
	for want, read := range map[string]func() (DocumentAnswer, error){
		`node "n9" does not exist: a node of the topology`: func() (DocumentAnswer,
			error) {
			return b.Config(ConfigQuery{Node: "n9"})
		},
		`node "n8" or node "n9" does not exist`: func() (DocumentAnswer, error) {
			return b.Paths(PathsQuery{Nodes: []string{"n9", "n1", "n8"}, Paths: paths(t, "*")})
		},
		"new: No known node status: Please pass the software version and hardware board ID directly": func() (DocumentAnswer,
			error) {
			return b.Config(ConfigQuery{Node: "new"})
		},
		"broken: the layers of the versions can't be read: RELEASE_M99.json: invalid JSON": func() (DocumentAnswer,
			error) {
			return b.Config(ConfigQuery{Node: "broken"})
		},
		"the layers of the versions can't be read: RELEASE_M99.json: invalid JSON: files that can be read ": func() (DocumentAnswer,
			error) {
			return b.Layer(LayerQuery{Layer: layers.Base})
		},
		"the question names no path": func() (DocumentAnswer, error) { return b.Paths(PathsQuery{}) },
		`topology does not exist`:    func() (DocumentAnswer, error) { return b.Topology() },
		`node "n7" does not exist: a `: func() (DocumentAnswer,
			error) {
			return b.Layer(LayerQuery{Layer: layers.Auto, Nodes: []string{"n7"}})
		},
	} {
		if _, err := read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if got := b.read(b.Config(ConfigQuery{Node: "new",
		Versions: layers.Versions{Software: "RELEASE_M80", Board: "board-1"}})); !strings.Contains(got, "puma") {
		t.Error(got)
	}
	if got := b.read(b.Config(ConfigQuery{Node: "n1",
		Versions: layers.Versions{Firmware: "10.11.0"}})); !strings.Contains(got, `"FW"`) || strings.Contains(got, `"old"`) {
		t.Error(got)
	}
	b.refuses(SetNetwork{Overrides: doc(t, `{"a":1}`)}, "broken, new: the layers of the versions can't be read")
	b.do(SetNodes{Overrides: doc(t, `{"n1":{"a":1}}`)})
}

func TestBackToWhatWas(t *testing.T) {
	b := newBench(t, "n1", "n2")
	b.do(SetNetwork{Overrides: doc(t, `{"envParams":{"A":"1"}}`)})
	b.do(SetNodes{Overrides: doc(t, `{"n1":{"envParams":{"B":"1"}}}`)})
	b.do(SetNetwork{Overrides: doc(t, `{"envParams":{"A":"2"}}`)})
	o, err := b.Validate(Restore{Revision: 1})
	if err != nil || changes(o) != `n1: envParams.A "2" to "1" envParams.B "1" to null; n2: envParams.A "2" to "1"` ||
		o.Message != "Success. 2 nodes change." {
		t.Errorf("%v: %s", err, changes(o))
	}
	o, err = b.Validate(Restore{Revision: 1, Layers: []history.Layer{nodeLayer("n1")}})
	if err != nil || changes(o) != `n1: envParams.B "1" to null` {
		t.Errorf("%v: %s", err, changes(o))
	}
	b.do(Revert{Revision: 2})
	b.has("node/n1", "")
	b.has("network", `{"envParams": {"A": "2"}}`)
	b.refuses(Revert{Revision: 1}, "envParams.A: was changed again")
	b.refuses(Revert{Revision: 99}, "revision 99 does not exist")
	b.refuses(Restore{Revision: 99}, "revision 99 does not exist")
	var missing *NotFoundError
	if _, err := b.Validate(Restore{Revision: 99}); !errors.As(err, &missing) {
		t.Errorf("%T", err)
	}
}

func TestImport(t *testing.T) {
	b := newBench(t, "n1")
	b.do(SetNodes{Overrides: doc(t, `{"n1":{"envParams":{"A":"1"}}}`)})
	files := history.Files{
		Network: doc(t, `{"sysParams":{"managedConfig":true}}`), Nodes: doc(t, `{"b":{"envParams":{"B":"1"}}}`),
		Auto: doc(t, `{"a":{"topologyInfo":{"nodeName":"a"}}}`), Topology: doc(t, town),
		E2E: map[string]config.Object{"controller": doc(t, `{"flags":{"x.v":"2"}}`)},
	}
	o := b.do(Import{files})
	b.has("node/n1", "")
	b.has("auto/a", `{"topologyInfo": {"nodeName": "a"}}`) // read-only, as in a file at the start
	b.has("e2e/controller", `{"flags": {"x.v": "2"}}`)
	if len(o.Actions) != 1 || o.Actions[0].Name != "UPDATE_GLOG_LEVEL" ||
		!strings.Contains(changes(o), `b: envParams.B null to "1"`) {
		t.Errorf("%s, %s", actions(o), changes(o))
	}
	got, err := b.State.Export()
	if err != nil || !config.Equal(got.Nodes, files.Nodes) || !config.Equal(got.Auto, files.Auto) ||
		!config.Equal(got.Topology, files.Topology) {
		t.Errorf("%+v, %v", got, err)
	}
	b.refuses(Import{history.Files{
		Network: doc(t, `{"sysParams":{"managedConfig":5}}`), Nodes: doc(t, `{"n1":{"sysParams":{"managedConfig":6}}}`),
		E2E: map[string]config.Object{"controller": doc(t, `{"flags":{"bad-name":"1"}}`)},
	}}, "sysParams.managedConfig: invalid type int64", "sysParams.managedConfig: invalid type int64",
		"controller.flags.bad-name: invalid name of a flag")
	b.refuses(Import{history.Files{Metadata: doc(t, `{"x":{"desc":"d","type":"WRONG","action":"NO_ACTION"}}`)}},
		"metadata.x")
	b.refuses(Import{history.Files{Nodes: doc(t, `{"n1":5}`), Topology: doc(t, `{"nodes":5}`)}}, "node.n1",
		"topology.nodes")
	b.refuses(Import{history.Files{E2E: map[string]config.Object{"x": {}}}}, `file "x" does not exist`)
}

func TestFilesOfManyReplicas(t *testing.T) {
	b := newBench(t)
	b.do(Import{history.Files{E2E: map[string]config.Object{"controller": doc(t,
		`{"flags":{"listen":"a:0","v":"1"},"scanParams":{"a":1}}`)}}})
	if got := b.read(b.File("controller", "r1",
		false)); got != `{"flags": {"listen": "a:0","v": "1"},"scanParams": {"a": 1}}` {
		t.Errorf("a replica without its own part has the file's: %s", got)
	}
	before := b.State
	o := b.do(SetE2E{File: "controller", Replica: "r1", Config: doc(t, `{"flags":{"v":"1"},"scanParams":{"a":2}}`)})
	if got := actions(o); got != "UPDATE_SCAN_CONFIG REBOOT" && got != "REBOOT UPDATE_SCAN_CONFIG" {
		t.Error(got)
	}
	if got := b.read(b.File("controller", "r1", false)); got != `{"flags": {"v": "1"},"scanParams": {"a": 2}}` {
		t.Errorf("what it took away comes back: %s", got)
	}
	if got := b.read(b.File("controller", "r2",
		false)); got != `{"flags": {"listen": "a:0","v": "1"},"scanParams": {"a": 2}}` {
		t.Errorf("another replica keeps the file's: %s", got)
	}
	c, err := b.FileChange("controller", "r2", before)
	if err != nil || len(c.Actions) != 1 || c.Actions[0].Name != "UPDATE_SCAN_CONFIG" {
		t.Errorf("%+v, %v", c, err)
	}
	b.refuses(SetE2E{File: "controller", Replica: "r1",
		Config: doc(t, `{"flags":{"bad-name":"1"},"topologyParams":{"enabledChannels":"9"}}`)},
		"flags.bad-name: invalid name of a flag", "topologyParams.enabledChannels")
	if _, err := b.File("x", "", false); err == nil {
		t.Error("a file x")
	}
	o = b.do(SetE2E{File: "controller", Replica: "r1", Config: doc(t, `{"flags":{"v":"1"},"scanParams":{"a":2}}`)})
	if o.Message != "Success. Nothing changes." {
		t.Error(o.Message)
	}
	b.do(SetE2E{File: "controller", Replica: "r3", Config: doc(t, `{"scanParams":{"a":2}}`)})
	if got := b.read(b.File("controller", "r3", false)); strings.Contains(got, "listen") {
		t.Errorf("what it took away comes back: %s", got)
	}
	o = b.do(SetE2E{File: "aggregator", Config: doc(t, `{"flags":{"x":"1"}}`)})
	if unknown(o) != "aggregator/flags/x" || len(o.Warnings) != 1 {
		t.Errorf("%s, %v", unknown(o), o.Warnings)
	}
}

// An entry of a map that one replica takes away goes with what others have of their own in
// it: half an entry would lack what it requires.
func TestAnEntryGoesInAllReplicas(t *testing.T) {
	m, faults := metadata.Parse(doc(t,
		`{"m":{"desc":"d","action":"NO_ACTION","type":"MAP","sync":true,"mapVal":{"type":"OBJECT","objVal":{"properties":{
		"shared":{"desc":"d","type":"STRING","required":true},"own":{"desc":"d","type":"STRING","sync":false}}}}}}`),
		metadata.Options{E2E: true})
	if faults != nil {
		t.Fatal(faults)
	}
	b := newBench(t)
	b.E2E = map[string]*metadata.Metadata{"controller": m}
	b.do(SetE2E{File: "controller", Replica: "r1",
		Config: doc(t, `{"m":{"x":{"shared":"1","own":"a"},"y":{"shared":"1","own":"a"}}}`)})
	b.do(SetE2E{File: "controller", Replica: "r2", Config: doc(t, `{"m":{"x":{"own":"b"},"y":{"own":"b"}}}`),
		Modify: true})
	b.do(SetE2E{File: "controller", Replica: "r1", Config: doc(t, `{"m":{"y":{"shared":"2"}}}`)})
	if got := b.read(b.File("controller", "r2", false)); got != `{"flags": {},"m": {"y": {"own": "b","shared": "2"}}}` {
		t.Error(got)
	}
	b.has("e2e/controller%2Fr2", `{"m": {"y": {"own": "b"}}}`)
}

func TestFaultsOfManyNodesAreToldAtOnce(t *testing.T) {
	b := newBench(t, "n1", "n2")
	_, err := b.Validate(SetNodes{Overrides: doc(t,
		`{"n1":{"sysParams":{"managedConfig":1}},"n2":{"sysParams":5},"x":{},"y":7,"":{}}`)})
	var no *Refused
	if !errors.As(err, &no) {
		t.Fatal(err)
	}
	rules := map[string]bool{}
	for _, f := range no.Faults {
		rules[f.Rule] = true
	}
	if len(no.Faults) < 5 || !rules[override.RuleTopology] || !rules[override.RuleRequest] || !rules[override.RuleClash] ||
		!rules["type"] {
		t.Error(err)
	}
}

// TestValuesOfAReplicaThatHasItsOwnAreTold writes a file for all replicas, of which one has a
// value of its own, and imports it at that one.
func TestValuesOfAReplicaThatHasItsOwnAreTold(t *testing.T) {
	b := newBench(t)
	b.do(SetE2E{File: "controller", Replica: "r1", Config: doc(t, `{"flags":{"listen":"a:1"},"scanParams":{"a":1}}`)})
	o := b.do(SetE2E{File: "controller", Config: doc(t, `{"flags":{"listen":"a:3"},"scanParams":{"a":3}}`)})
	if got := strings.Join(o.Warnings, "\n"); strings.Count(got, "has its own") != 1 ||
		!strings.Contains(got, `controller: flags.listen: replica "r1" has its own, which stays`) {
		t.Errorf("%q", got)
	}
	if got := b.read(b.File("controller", "r1", false)); got != `{"flags": {"listen": "a:1"},"scanParams": {"a": 3}}` {
		t.Error(got)
	}
	o = b.do(SetE2E{File: "controller", Modify: true, Config: doc(t, `{"flags":{"listen":"a:1"}}`)})
	if got := strings.Join(o.Warnings, "\n"); strings.Contains(got, "has its own") {
		t.Errorf("the same value: %q", got)
	}
	file := history.Files{E2E: map[string]config.Object{"controller": doc(t, `{"flags":{"listen":"a:4"}}`)}}
	b.Replica = "r2"
	b.do(Import{Files: file})
	if got := b.read(b.File("controller", "r1", false)); got != `{"flags": {"listen": "a:1"}}` {
		t.Errorf("imported at another replica: %s", got)
	}
	b.Replica = "r1"
	b.do(SetE2E{File: "controller", Replica: "r1", Config: doc(t, `{"flags":{"listen":"a:5"}}`)})
	b.do(Import{Files: file})
	if got := b.read(b.File("controller", "r1", false)); got != `{"flags": {"listen": "a:4"}}` {
		t.Errorf("imported: %s", got)
	}
}
