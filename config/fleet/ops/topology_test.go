package ops

import (
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/optimize"
	"edgespan/config/kv"
	"edgespan/config/layers"
)

// town is two DNs on two sites, a hundred metres apart, with a link.
const town = `{"name":"town",
	"nodes":[{"name":"a","node_type":2,"mac_addr":"02:00:00:00:00:01","wlan_mac_addrs":["02:00:00:00:00:0a"],"pop_node":true,"site_name":"A","extra":1},
		{"name":"b","node_type":2,"mac_addr":"02:00:00:00:00:02","wlan_mac_addrs":["02:00:00:00:00:0b"],"site_name":"B"}],
	"links":[{"name":"link-a-b","a_node_name":"a","a_node_mac":"02:00:00:00:00:0a","z_node_name":"b","z_node_mac":"02:00:00:00:00:0b","link_type":1}],
	"sites":[{"name":"A","location":{"latitude":48.0,"longitude":10.0,"altitude":0.0}},{"name":"B","location":{"latitude":48.001,"longitude":10.0,"altitude":0.0}}]}`

func townBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, "a", "b")
	b.do(SetTopology{doc(t, town)})
	return b
}

// fact is what the auto layer of a node says of the topology at a path.
func (b *bench) fact(node, at string) string {
	b.Helper()
	v, err := b.State.Layer(autoLayer(node))
	if err != nil {
		b.Fatal(err)
	}
	value, found := config.Lookup(v.Document, append([]string{factsKey}, strings.Fields(at)...))
	if !found {
		return ""
	}
	return config.OneLine(value)
}

func TestTheTopologyShowsWhatIsAlive(t *testing.T) {
	b := townBench(t)
	if got := b.read(b.Topology()); strings.Count(got, `"status": 2`) != 2 || !strings.Contains(got, `"is_alive": true`) ||
		!strings.Contains(got, `"extra": 1`) {
		t.Error(got)
	}
	b.Nodes["b"] = NodeFact{}
	if got := b.read(b.Topology()); strings.Count(got, `"status": 2`) != 1 || strings.Count(got, `"status": 1`) != 1 ||
		!strings.Contains(got, `"is_alive": false`) {
		t.Error(got)
	}
	if got := b.tell("topology"); strings.Contains(got, "status") {
		t.Errorf("it is stored: %s", got)
	}
}

// Reference §1.16, setNodeTopologyInfo: once for a change, and not when nothing changes.
func TestTheAutoLayerSaysTheTopology(t *testing.T) {
	b := townBench(t)
	if got := b.fact("a",
		"neighborInfo"); got != `{"02:00:00:00:00:0b": {"initiatorMac": "02:00:00:00:00:0a","nodeType": 2}}` {
		t.Error(got)
	}
	if o := b.do(SetTopology{doc(t, town)}); len(o.Change.Layers) != 0 {
		t.Errorf("the same again writes %v", o.Change.Layers)
	}
	if w, ok, err := b.Facts(); ok || err != nil {
		t.Errorf("nothing is new: %v, %v", w, err)
	}
	b.do(Optimize{Kinds: optimize.All})
	if got := b.fact("b", "radioInfo"); got != `{"02:00:00:00:00:0b": {"distributedIgnitionColor": 0}}` {
		t.Error(got)
	}
	// A user's value is in force before ours; the facts follow when they are asked for.
	b.do(SetNodes{Overrides: doc(t, `{"b":{"radioParamsOverride":{"02:00:00:00:00:0B":{"fwParams":{"polarity":4}}}}}`)})
	w, ok, err := b.Facts()
	if got := config.OneLine(w.Values); !ok || err != nil ||
		got != `{"a": {"topologyInfo": {"neighborInfo": {"02:00:00:00:00:0b": {"nodePolarity": 4}}}}}` {
		t.Errorf("%s, %v, %v", got, ok, err)
	}
	b.do(w)
	if _, ok, _ := b.Facts(); ok {
		t.Error("they follow once")
	}
	// A node that leaves the topology takes them along, and keeps its own layer.
	o := b.do(SetTopology{doc(t, `{"name":"town","nodes":[{"name":"a","node_type":1,"site_name":"A"}]}`)})
	if b.fact("b", "") != "" || b.tell("node/b") == "" || b.fact("a", "neighborInfo") != "" ||
		b.fact("a", "distributedIgnitionNumColors") != "" {
		t.Errorf("b: %s; a: %s", b.tell("auto/b"), b.tell("auto/a"))
	}
	if got := strings.Join(o.Warnings, "\n"); !strings.Contains(got,
		`node "b": is in the topology no more, and keeps its overrides`) {
		t.Error(got)
	}
}

func TestEditsOfTheTopology(t *testing.T) {
	b := newBench(t, "a", "b", "c")
	edit := func(op, object, name, text string) WriteOutcome {
		t.Helper()
		w := EditTopology{Object: object, Op: op, Name: name}
		if op == "rename" {
			w.To = text
		} else if text != "" {
			w.Document = doc(t, text)
		}
		return b.do(w)
	}
	edit("add", "site", "", `{"name":"A"}`)
	edit("add", "site", "", `{"name":"B"}`)
	edit("add", "node", "", `{"name":"a","site_name":"A","mac_addr":"02:00:00:00:00:01","vendor":1}`)
	edit("add", "node", "", `{"name":"b","site_name":"B","mac_addr":"02:00:00:00:00:02"}`)
	edit("add", "link", "",
		`{"a_node_name":"a","a_node_mac":"02:00:00:00:00:01","z_node_name":"b","z_node_mac":"02:00:00:00:00:02"}`)
	if got := b.fact("b", "neighborInfo"); !strings.Contains(got, "02:00:00:00:00:01") {
		t.Error(got)
	}
	// What hangs on a MAC goes with it.
	b.do(SetNodes{Overrides: doc(t, `{"b":{"linkParamsOverride":{"02:00:00:00:00:01":{"fwParams":{"laMaxMcs":9}}}}}`)})
	edit("edit", "node", "a", `{"mac_addr":"02:00:00:00:00:11","more":2}`)
	b.has("node/b", `{"linkParamsOverride": {"02:00:00:00:00:11": {"fwParams": {"laMaxMcs": 9}}}}`)
	if got := b.tell("topology"); !strings.Contains(got, `"vendor": 1`) || !strings.Contains(got, `"more": 2`) ||
		!strings.Contains(got, `"a_node_mac": "02:00:00:00:00:11"`) {
		t.Error(got)
	}
	edit("edit", "link", "link-a-b", `{"is_backup_cn_link":true}`)
	if got := b.fact("b", "neighborInfo"); got != "" {
		t.Error(got)
	}
	edit("rename", "link", "link-a-b", "way")
	edit("rename", "site", "A", "Z")
	if got := b.fact("a", "site name"); got != `"Z"` {
		t.Error(got)
	}
	edit("edit", "site", "Z", `{"location":{"latitude":1,"longitude":2}}`)
	b.do(SetNodes{Overrides: doc(t, `{"b":{"tunnelConfig":{"t":{"dstNodeName":"a"}}},"a":{"envParams":{"A":"1"}}}`)})
	if o := edit("rename", "node", "a", "aa"); !strings.Contains(strings.Join(o.Warnings, "\n"),
		"b: tunnelConfig.t.dstNodeName: names the node as it was called before") {
		t.Error(o.Warnings)
	}
	b.Nodes["aa"] = b.Nodes["a"]
	delete(b.Nodes, "a")
	edit("delete", "link", "way", "")
	edit("delete", "node", "aa", "")
	b.has("node/aa", "")
	b.has("auto/aa", "")
	edit("delete", "site", "Z", "")
	if got := b.tell("topology"); got != `{"links": [],"nodes": [{"mac_addr": "02:00:00:00:00:02","name": `+
		`"b","site_name": "B"}],"sites": [{"name": "B"}]}` {
		t.Error(got)
	}
}

func TestEditsThatAreRefused(t *testing.T) {
	b := townBench(t)
	entry := doc(t, `{"name":"a","site_name":"nowhere"}`)
	for _, c := range []struct {
		w    EditTopology
		want string
	}{
		{EditTopology{Object: "road", Op: "add"}, `object "road" does not exist: must be node, link or site`},
		{EditTopology{Object: "node", Op: "move"}, "must be add, edit, delete or rename"},
		{EditTopology{Object: "node", Op: "add", Document: entry}, "which is not a site"},
		{EditTopology{Object: "node", Op: "add", Document: entry}, `duplicate value "a", also at nodes.0`},
		{EditTopology{Object: "node", Op: "add"}, "says nothing"},
		{EditTopology{Object: "node", Op: "edit", Name: "x", Document: entry}, `node "x" does not exist`},
		{EditTopology{Object: "link", Op: "edit", Name: "x", Document: entry}, `link "x" does not exist`},
		{EditTopology{Object: "site", Op: "delete", Name: "x"}, `site "x" does not exist`},
		{EditTopology{Object: "site", Op: "delete", Name: "A"}, `node "a" is on it`},
		{EditTopology{Object: "node", Op: "edit", Name: "b", Document: entry},
			`name: invalid value "a": must be the name that it has`},
		{EditTopology{Object: "site", Op: "edit", Name: "A", Document: doc(t, `{"location":5}`)},
			"location: invalid type int64 over an object"},
		{EditTopology{Object: "site", Op: "rename", Name: "A", To: "B"}, "must be unique"},
		{EditTopology{Object: "site", Op: "rename", Name: "A"}, "must be another name"},
		{EditTopology{Object: "link", Op: "edit", Name: "link-a-b",
			Document: doc(t, `{"a_node_name":"b","z_node_name":"a"}`)}, "links"},
		{EditTopology{Object: "node", Op: "rename", Name: "x", To: "y"}, `node "x" does not exist`},
		{EditTopology{Object: "node", Op: "rename", Name: "a", To: "b"}, "b"},
		{EditTopology{Object: "node", Op: "rename", Name: "a", To: "a"}, "must be another name"},
		{EditTopology{Object: "node", Op: "rename", Name: "a"}, "must be another name"},
	} {
		b.refuses(c.w, c.want)
	}
	b.refuses(SetTopology{doc(t, `{"x":1}`)}, "the document is not a topology")
	b.refuses(Optimize{}, "names no kind")
	b.refuses(Optimize{Kinds: []optimize.Kind{"x"}}, `invalid value "x"`)
	empty := newBench(t)
	empty.refuses(Optimize{Kinds: optimize.All}, "no topology")
}

// A name may be that of a node that has joined, in no topology; its record goes along.
func TestARenameTakesTheNodeThatHasJoinedAlong(t *testing.T) {
	b := newBench(t, "n1")
	for key, value := range map[kv.Key]string{history.NameKey("n1"): "id-1",
		history.NodeKey("id-1"): `{"id":"id-1","name":"n1"}`} {
		if _, err := b.store.Commit(kv.Txn{Then: []kv.Op{kv.Put(key, []byte(value))}}); err != nil {
			t.Fatal(err)
		}
	}
	b.do(SetNodes{Overrides: doc(t, `{"n1":{"envParams":{"A":"1"}}}`)})
	o := b.do(EditTopology{Object: "node", Op: "rename", Name: "n1", To: "n2"})
	b.has("node/n2", `{"envParams": {"A": "1"}}`)
	if len(o.Change.Renamed) != 1 || len(o.Effects) != 0 {
		t.Errorf("%+v", o)
	}
	e, _, _ := b.store.Model.Get(history.NameKey("n2"))
	if string(e.Value) != "id-1" {
		t.Error("the name leads nowhere")
	}
	delete(b.Nodes, "n1")
	b.Nodes["n2"] = NodeFact{Versions: layers.Versions{Software: "RELEASE_M81"}, Reported: true}
	if o := b.do(Restore{Revision: 1}); len(o.Effects) != 0 {
		t.Errorf("nothing changes on a node that gets its name back: %s", changes(o))
	}
	b.has("node/n1", `{"envParams": {"A": "1"}}`)
	b.has("node/n2", "")
}

// Channels are assigned of those that the controller's file allows.
func TestChannelsOfTheControllersFile(t *testing.T) {
	b := townBench(t)
	b.do(SetE2E{File: "controller", Config: doc(t, `{"topologyParams":{"enabledChannels":"3"}}`)})
	b.do(Optimize{Kinds: optimize.All})
	if got := b.tell("auto/a"); !strings.Contains(got, `"channel": 3`) {
		t.Error(got)
	}
}
