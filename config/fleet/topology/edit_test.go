package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config"
)

// street is a line a-b-c of nodes on sites of their own, each with a MAC and a radio, and
// layers that hang on them.
func street(t *testing.T) State {
	t.Helper()
	object := func(text string) config.Object {
		o, faults := config.ParseObject([]byte(text))
		if faults != nil {
			t.Fatal(faults)
		}
		return o
	}
	top, faults := FromDocument(object(`{"name": "street", "nodes": [
		{"name": "a", "site_name": "A", "mac_addr": "02:00:00:00:00:0a", "wlan_mac_addrs": ["02:00:00:00:01:0a"], ` +
		`"pop_node": true, "future": 1},
		{"name": "b", "site_name": "B", "mac_addr": "02:00:00:00:00:0b", "wlan_mac_addrs": ["02:00:00:00:01:0b"]},
		{"name": "c", "site_name": "C", "mac_addr": "02:00:00:00:00:0c"}],
	"links": [
		{"name": "link-a-b", "a_node_name": "a", "a_node_mac": "02:00:00:00:01:0a", "z_node_name": "b", "z_node_mac": ` +
		`"02:00:00:00:01:0b", "is_alive": true},
		{"name": "uphill", "a_node_name": "b", "a_node_mac": "02:00:00:00:01:0b", "z_node_name": "c", "z_node_mac": ` +
		`"02:00:00:00:00:0c"}],
	"sites": [{"name": "A"}, {"name": "B"}, {"name": "C"}, {"name": "empty"}]}`))
	if faults != nil {
		t.Fatal(faults)
	}
	return State{
		top, object(`{
		"a": {"linkParamsOverride": {"02:00:00:00:01:0b": {"x": 1}}, "radioParamsOverride": {"02:00:00:00:01:0a": {"p": 1}}},
		"b": {"linkParamsOverride": {"02:00:00:00:01:0a": {"x": 2}, "02:00:00:00:00:0c": {"x": 3}}, ` +
			`"radioParamsOverride": {"02:00:00:00:01:0b": {"p": 2}}, "t": 5}}`),
		object(`{"b": {"linkParamsOverride": {"02:00:00:00:01:0a": {"y": 1}}}, "ghost": {}}`),
	}
}

func line(v any) string {
	return strings.NewReplacer("\n", "", "  ", "", `"`, "", "02:00:00:00:", "").Replace(canonical(v))
}

// brief is a state in one line, but for the sites.
func brief(s State) string {
	var out []string
	for _, n := range s.Topology.Nodes {
		out = append(out, n.Name+"@"+n.Site)
	}
	for _, l := range s.Topology.Links {
		out = append(out, l.Name+"="+l.A+"/"+strings.TrimPrefix(l.AMAC, "02:00:00:00:")+"-"+l.Z+"/"+
			strings.TrimPrefix(l.ZMAC, "02:00:00:00:"))
	}
	return strings.Join(out, " ") + " auto " + line(s.Auto) + " node " + line(s.Node)
}

// with is a state with one more node, and more sites.
func with(s State, n Node, sites ...Site) (State, config.Faults) {
	t := *s.Topology
	t.Nodes, t.Sites = append(slices.Clone(t.Nodes), n), append(slices.Clone(t.Sites), sites...)
	return s.checkNext(State{&t, s.Auto, s.Node}, nil)
}

func TestEdits(t *testing.T) {
	s := street(t)
	node := func(name string, change func(*Node)) Node {
		n, _ := s.Topology.Node(name)
		change(&n)
		return n
	}
	link, _ := s.Topology.Link("uphill")
	link.ZMAC = "02:00:00:00:00:0d"
	const (
		nodes = "a@A b@B c@C "
		ab    = "link-a-b=a/01:0a-b/01:0b "
		bc    = "uphill=b/01:0b-c/00:0c "
		autoA = "a: {linkParamsOverride: {01:0b: {x: 1}},radioParamsOverride: {01:0a: {p: 1}}}"
		autoB = "{linkParamsOverride: {00:0c: {x: 3},01:0a: {x: 2}},radioParamsOverride: {01:0b: {p: 2}},t: 5}"
		nodeB = "{linkParamsOverride: {01:0a: {y: 1}}}"
		ghost = "ghost: {}}"
	)
	for _, c := range []struct {
		name string
		do   func() (State, config.Faults)
		want string
	}{
		{"nothing changed", func() (State, config.Faults) { return s.EditNode("b", node("b", func(*Node) {})) }, nodes + ab +
			bc + "auto {" + autoA + ",b: " + autoB + "} node {b: " + nodeB + "," + ghost},
		{"a rename moves the layers and the links",
			func() (State, config.Faults) { return s.EditNode("b", node("b", func(n *Node) { n.Name = "z" })) },
			"a@A z@B c@C link-a-z=a/01:0a-z/01:0b uphill=z/01:0b-c/00:0c auto {" + autoA + ",z: " + autoB + "} node {" +
				ghost[:9] + ",z: " + nodeB + "}"},
		{"a radio with another MAC", func() (State, config.Faults) {
			return s.EditNode("b", node("b", func(n *Node) { n.WlanMACs = []string{"02:00:00:00:01:ff"} }))
		}, nodes + "link-a-b=a/01:0a-b/01:ff uphill=b/01:ff-c/00:0c auto {" + strings.Replace(autoA, "01:0b", "01:ff", 1) +
			",b: " + strings.Replace(autoB, "01:0b", "01:ff", 1) + "} node {b: " + nodeB + "," + ghost},
		{"a link with another MAC", func() (State, config.Faults) { return s.EditLink("uphill", link) }, nodes + ab +
			"uphill=b/01:0b-c/00:0d auto {" + autoA + ",b: " +
			strings.Replace(autoB, "00:0c: {x: 3},01:0a: {x: 2}", "00:0d: {x: 3},01:0a: {x: 2}", 1) + "} node {b: " + nodeB +
			"," + ghost},
		{"a node goes with its links and layers", func() (State, config.Faults) { return s.DeleteNode("b") },
			"a@A c@C auto {a: {radioParamsOverride: {01:0a: {p: 1}}}} node {" + ghost},
		{"a link goes with its parameters", func() (State, config.Faults) { return s.DeleteLink("link-a-b") }, nodes + bc +
			"auto {a: {radioParamsOverride: {01:0a: {p: 1}}},b: " +
			strings.Replace(autoB, ",01:0a: {x: 2}", "", 1) + "} node {" + ghost},
		{"a site with another name keeps its nodes",
			func() (State, config.Faults) { return s.EditSite("B", Site{Name: "Q"}) }, "a@A b@Q c@C " + ab + bc + "auto {" +
				autoA + ",b: " + autoB + "} node {b: " + nodeB + "," + ghost},
		{"a node, a site and a link come", func() (State, config.Faults) {
			s, _ := with(s, Node{Name: "d", Site: "D", Type: DN, Status: Online}, Site{Name: "D"})
			return s.AddLink(Link{A: "d", Z: "c", Type: Wireless, Alive: true})
		}, nodes + "d@D " + ab + bc + "link-c-d=d/-c/ auto {" + autoA + ",b: " + autoB + "} node {b: " + nodeB + "," + ghost},
	} {
		before := canonical(s.Topology.Document()) + brief(s)
		got, faults := c.do()
		if faults != nil || brief(got) != c.want {
			t.Errorf("%s: %v\n%s, want\n%s", c.name, faults, brief(got), c.want)
		}
		if canonical(s.Topology.Document())+brief(s) != before {
			t.Fatalf("%s changed what it was given", c.name)
		}
		if n, _ := got.Topology.Node("a"); !strings.Contains(canonical(n.document()), `"future": 1`) {
			t.Errorf("%s forgets what it doesn't know", c.name)
		}
	}
	a := Node{Name: "a", Type: CN, Status: Online, Site: "A", MAC: "02:00:00:00:00:0a",
		WlanMACs: []string{"02:00:00:00:01:0a"}}
	if got, faults := s.EditNode("a", a); faults != nil ||
		!strings.Contains(canonical(got.Topology.Document()), `"future": 1`) {
		t.Errorf("a node that was made anew forgets what it doesn't know: %v", faults)
	}
	if got, faults := s.DeleteSite("empty"); faults != nil || len(got.Topology.Sites) != 3 {
		t.Errorf("an empty site stays: %v", faults)
	}
}

func TestEditsThatAreRefused(t *testing.T) {
	s := street(t)
	node := func(name string, change func(*Node)) Node {
		n, _ := s.Topology.Node(name)
		change(&n)
		return n
	}
	uphill, _ := s.Topology.Link("uphill")
	uphill.Z = "a"
	for _, c := range []struct {
		do   func() (State, config.Faults)
		want string
	}{
		{func() (State, config.Faults) { return s.EditNode("b", node("b", func(n *Node) { n.Name = "c" })) },
			`nodes.1.name: invalid value "c", the name of a node on site "C": must be unique`},
		{func() (State, config.Faults) { return s.EditNode("b", node("b", func(n *Node) { n.Name = "ghost" })) },
			`node.ghost: exists already: must be a name or MAC without overrides`},
		{func() (State, config.Faults) {
			return s.EditNode("b", node("b", func(n *Node) { n.Site = "X"; n.MAC = "02:00:00:00:00:0a" }))
		}, `nodes.1.mac_addr: invalid value 02:00:00:00:00:0a, which node "a" has: must be unique: each MAC on one node
nodes.1.site_name: invalid value "X", which is not a site: must be the name of a site`},
		{func() (State, config.Faults) { return s.EditNode("x", Node{}) },
			`nodes: has no "x": must be an existing name`},
		{func() (State, config.Faults) { return with(s, Node{MAC: "nonsense", Site: "A"}) },
			`nodes.3.mac_addr: invalid value "nonsense": must be six pairs of hex digits joined by ':' or '-'
nodes.3.name: invalid value "": must be a name
nodes.3.node_type: invalid value 0: must be 1 (CN) or 2 (DN)
nodes.3.status: invalid value 0: must be 1 (OFFLINE), 2 (ONLINE) or 3 (ONLINE_INITIATOR)`},
		{func() (State, config.Faults) { return s.AddLink(Link{A: "b", Z: "a", Type: Ethernet}) },
			`links.2.name: duplicate value "link-a-b", also at links.0: must be unique`},
		{func() (State, config.Faults) { return s.EditLink("uphill", uphill) },
			`links.uphill: leads to other nodes: must be the link's own nodes; another link is deleted and added`},
		{func() (State, config.Faults) { return s.EditSite("B", Site{Name: "A"}) },
			`sites.1.name: duplicate value "A", also at sites.0: must be unique`},
		{func() (State, config.Faults) { return s.DeleteSite("B") },
			`nodes.1.site_name: invalid value "B": node "b" is on it: must be a site without nodes`},
		{func() (State, config.Faults) { return s.DeleteNode("x") }, `nodes: has no "x": must be an existing name`},
		{func() (State, config.Faults) { return s.DeleteLink("x") }, `links: has no "x": must be an existing name`},
	} {
		got, faults := c.do()
		if faults.Error() != c.want {
			t.Errorf("%v, want\n%s", faults, c.want)
		}
		if brief(got) != brief(s) {
			t.Errorf("%s: and yet %s", c.want, brief(got))
		}
	}
}

// Renaming and renaming back is nothing, in the topology and in the layers.
func TestPropertyARenameCanBeTakenBack(t *testing.T) {
	s := street(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom(s.Topology.Nodes).Draw(t, "node")
		old := n.Name
		n.Name = fmt.Sprintf("new %s", rapid.StringMatching(`[a-z."]{1,5}`).Draw(t, "name"))
		there, faults := s.EditNode(old, n)
		if faults != nil {
			t.Fatal(faults)
		}
		if _, left := there.Auto[old]; left {
			t.Fatalf("the auto layer still has %s", old)
		}
		back := n
		back.Name = old
		again, faults := there.EditNode(n.Name, back)
		if faults != nil || canonical(again.Topology.Document()) != canonical(s.Topology.Document()) ||
			brief(again) != brief(s) {
			t.Fatalf("%v\n%s, want\n%s", faults, brief(again), brief(s))
		}
	})
}
