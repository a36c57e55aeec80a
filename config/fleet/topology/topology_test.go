package topology

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/config"
)

// real are the stored topologies, by file name.
func real(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("../../testdata/terragraph/topology_conf/*.conf")
	if err != nil || len(names) == 0 {
		t.Fatalf("no topologies: %v", err)
	}
	out := map[string][]byte{}
	for _, name := range names {
		if out[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func canonical(v any) string { return string(config.AppendCanonical(nil, v)) }

// Fields unknown to us are kept and written back unchanged.
func TestTheStoredTopologiesLoadAndAreWrittenBackUnchanged(t *testing.T) {
	for name, text := range real(t) {
		got, faults := Parse(text)
		if faults != nil {
			t.Errorf("%s: %v", name, faults)
			continue
		}
		o, _ := config.ParseObject(text)
		if canonical(got.Document()) != canonical(o) {
			t.Errorf("%s is written back as\n%s", name, canonical(got.Document()))
		}
		pops := 0
		for _, n := range got.Nodes {
			if n.Pop {
				pops++
			}
			if n.Status != Online || n.MAC == "" {
				t.Errorf("%s: %+v", name, n)
			}
		}
		if pops == 0 || len(got.Links) == 0 || len(got.Sites) < 2 || !got.Sites[0].Located {
			t.Errorf("%s: %d points of presence, %d links, %d sites", name, pops, len(got.Links), len(got.Sites))
		}
	}
}

func TestWhatIsAbsentHasItsDefault(t *testing.T) {
	text := `{"future": [1], "nodes": [{"name": "a", "site_name": "s", "mac_addr": "AA-00-00-00-00-01", "x": {"y": ` +
		`1.50}}, {"name": "b", "site_name": "r"}],
		"links": [{"a_node_name": "b", "z_node_name": "a", "z_node_mac": "AA:00:00:00:00:01", "linkup_attempts": 7}]}`
	got, faults := Parse([]byte(text))
	if faults != nil {
		t.Fatal(faults)
	}
	n, l := got.Nodes[0], got.Links[0]
	if n.Status != Online || n.Type != DN || n.MAC != "aa:00:00:00:00:01" || !l.Alive || l.Type != Wireless ||
		l.Name != "link-a-b" {
		t.Errorf("%+v %+v", n, l)
	}
	if len(got.Sites) != 2 || got.Sites[0].Name != "s" || got.Sites[0].Located {
		t.Errorf("without a list of sites: %+v", got.Sites)
	}
	o, _ := config.ParseObject([]byte(text))
	if canonical(got.Document()) != canonical(o) {
		t.Errorf("written back as %s", canonical(got.Document()))
	}
}

func TestEveryFaultIsToldAtOnceWithItsPath(t *testing.T) {
	_, faults := Parse([]byte(`{"name": 3, "nodes": [
		{"name": "a", "site_name": "s", "node_type": 3, "mac_addr": "02:00:00:00:00:01", "wlan_mac_addrs": ` +
		`["02:00:00:00:00:02", "02:00:00:00:00:02", ""]},
		{"name": "a", "site_name": "t", "mac_addr": "02-00-00-00-00-02", "pop_node": 1, "status": "ONLINE"},
		{"name": "", "site_name": "s", "mac_addr": "02:00:00:00-00:03", "ant_azimuth": "north", "wlan_mac_addrs": {}},
		{"name": "b", "site_name": "s", "mac_addr": "nonsense"}, 7],
	"links": [
		{"name": "l", "a_node_name": "a", "z_node_name": "a", "z_node_mac": "02:00:00:00:00:0g"},
		{"name": "l", "a_node_name": "b", "a_node_mac": "02:00:00:00:00:01", "z_node_name": "nobody", "link_type": 9, ` +
		`"is_alive": 0}],
	"sites": [{"name": "s", "location": {"latitude": 91, "longitude": "x", "altitude": 1}}, {"name": "s", ` +
		`"location": 4}, {}]}`))
	want := strings.Split(strings.TrimSpace(`
links.0.z_node_mac: invalid value "02:00:00:00:00:0g": must be six pairs of hex digits joined by ':' or '-'
links.0.z_node_name: invalid value "a", the node of the other end too: must be another node
links.1.a_node_mac: invalid value 02:00:00:00:00:01, which is node "a"'s: must be a MAC of node "b"
links.1.is_alive: invalid type int64: must be true or false
links.1.link_type: invalid value 9: must be 1 (wireless) or 2 (ethernet)
links.1.name: duplicate value "l", also at links.0: must be unique
links.1.z_node_name: invalid value "nobody", which is not a node: must be the name of a node
name: invalid type int64: must be a string
nodes.0.node_type: invalid value 3: must be 1 (CN) or 2 (DN)
nodes.0.wlan_mac_addrs.1: duplicate value 02:00:00:00:00:02: must be unique
nodes.0.wlan_mac_addrs.2: invalid value "": must be six pairs of hex digits joined by ':' or '-'
nodes.1.mac_addr: invalid value 02:00:00:00:00:02, which node "a" has: must be unique: each MAC on one node
nodes.1.name: duplicate value "a", also at nodes.0: must be unique
nodes.1.pop_node: invalid type int64: must be true or false
nodes.1.site_name: invalid value "t", which is not a site: must be the name of a site
nodes.1.status: invalid type string: must be 1 (OFFLINE), 2 (ONLINE) or 3 (ONLINE_INITIATOR)
nodes.2.ant_azimuth: invalid type string: must be a number
nodes.2.mac_addr: invalid value "02:00:00:00-00:03": must be six pairs of hex digits joined by ':' or '-'
nodes.2.name: invalid value "": must be a name
nodes.2.wlan_mac_addrs: invalid type object: must be an array of MACs
nodes.3.mac_addr: invalid value "nonsense": must be six pairs of hex digits joined by ':' or '-'
nodes.4: invalid type int64: must be an object
sites.0.location.latitude: invalid value 91: must be -90 to 90
sites.0.location.longitude: invalid type string: must be a number
sites.1.location: invalid type int64: must be an object with latitude, longitude and altitude
sites.1.name: duplicate value "s", also at sites.0: must be unique
sites.2.name: required: must be a string`), "\n")
	got := strings.Split(faults.Error(), "\n")
	for i := range max(len(got), len(want)) {
		g, w := "", ""
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			t.Errorf("line %d:\n%s, want\n%s", i, g, w)
		}
	}
}

func TestADocumentIsAnObjectOfLists(t *testing.T) {
	for text, want := range map[string]string{
		`[]`:                      "invalid type array: must be one JSON object",
		`{"nodes": {}}`:           "nodes: invalid type object: must be an array of objects",
		`{"links": null}`:         "links: invalid type null: must be an array of objects",
		`{"name": "x" "y"}`:       `invalid JSON: line 1 column 14: invalid character '"' after object key:value pair`,
		`{"sites": [{"name":1}]}`: "sites.0.name: invalid type int64: must be a string",
		`{"sysParams": {}}`:       "the document is not a topology: must have name, nodes, links and sites",
	} {
		if _, faults := Parse([]byte(text)); faults.Error() != want {
			t.Errorf("%s: %v, want %s", text, faults, want)
		}
	}
	if got, faults := Parse([]byte(`{}`)); faults != nil || canonical(got.Document()) != "{}" {
		t.Errorf("an empty topology: %+v %v", got, faults)
	}
}

// A topology that was made, not read, has all the fields that the original's files have.
func TestAMadeTopologyIsReadAsItWas(t *testing.T) {
	made := &Topology{
		Name: "made",
		Nodes: []Node{{Name: "a", Type: CN, Site: "s", Status: Offline, Pop: true, WlanMACs: []string{"02:00:00:00:00:01"},
			AntAzimuth: 1.5}, {Name: "b", Type: DN, Site: "s", Status: Online}},
		Links: []Link{{Name: "link-a-b", A: "a", Z: "b", Type: Ethernet, BackupCN: true}},
		Sites: []Site{{Name: "s", Latitude: 1, Longitude: -2, Altitude: 3, Located: true}},
	}
	read, faults := FromDocument(made.Document())
	if faults != nil {
		t.Fatal(faults)
	}
	if canonical(read.Document()) != canonical(made.Document()) {
		t.Errorf("read back as %s", canonical(read.Document()))
	}
	n, l, s := read.Nodes[0], read.Links[0], read.Sites[0]
	if n.Type != CN || n.Status != Offline || !n.Pop || n.WlanMACs[0] != "02:00:00:00:00:01" || n.AntAzimuth != 1.5 ||
		l.Alive || !l.BackupCN || l.Type != Ethernet || s.Longitude != -2 || !s.Located {
		t.Errorf("%+v %+v %+v", n, l, s)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range real(f) {
		f.Add(string(text))
	}
	f.Add(`{"nodes":[{"name":"a","site_name":"s"}],"links":[{"a_node_name":"a","z_node_name":"a"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, faults := Parse([]byte(text))
		if faults != nil {
			return
		}
		o, _ := config.ParseObject([]byte(text))
		if canonical(got.Document()) != canonical(o) {
			t.Errorf("%s is written back as %s", text, canonical(got.Document()))
		}
	})
}
