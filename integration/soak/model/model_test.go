package model

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/nodeconf"
	"edgespan/config/stateloop/peer"
)

// keys are n keys of any 32 octets.
func keys(n int) (k Keys) {
	for i := range n {
		of := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{byte(i + 1)}, 32))
		k.Private, k.Public = append(k.Private, of), append(k.Public, of)
	}
	return k
}

// Each configuration that a plan draws is one that a node takes, with the overrides of all nodes below its own, and has
// the port that the judges go by.
func TestEachConfigurationIsValid(t *testing.T) {
	layered := 0
	for seed := range uint64(20) {
		p := NewPlan(seed, 3)
		for range 100 {
			s := p.Next()
			if s.Kind != Change && s.Kind != Layer {
				continue
			}
			for node := 1; node <= 3; node++ {
				own := s.Fleet.Document(node, keys(3))
				doc, _ := config.Merge(readObject(t, LayerDocument(s.Port)), readObject(t, own))
				text, err := json.Marshal(doc)
				if err == nil {
					err = valid(text)
				}
				if err != nil {
					t.Fatalf("seed %d, %v: node %d: %v", seed, s, node, err)
				}
				w := s.Fleet.Node(node).Networks[1]
				if got := portOf(doc); got != w.Port {
					t.Fatalf("seed %d, %v: node %d: port %q, judged by %q", seed, s, node, got, w.Port)
				}
				if portOf(readObject(t, own)) == nil {
					layered++
				}
			}
		}
	}
	if layered == 0 {
		t.Error("no node ever leaves its port to the overrides of all nodes")
	}
}

// A plan deploys the cluster plain and encrypted, as a star and as a mesh, changes and undeploys it, and its members are
// all nodes.
func TestAPlanHasClusters(t *testing.T) {
	seen := map[Cluster]bool{}
	for seed := range uint64(20) {
		for p := NewPlan(seed, 3); p.number < 100; {
			s := p.Next()
			seen[s.Cluster] = true
			for node := 1; node <= 3; node++ {
				if s.Fleet.Node(node).Joined != s.Cluster.Deployed ||
					s.Fleet.MayTunnel(node) != (s.Cluster.Deployed && !s.Cluster.Encrypted) {
					t.Fatalf("seed %d, %v: node %d: %+v", seed, s, node, s.Fleet.Node(node))
				}
			}
			if s.Kind == Deploy {
				described(t, ClusterDocuments(3, s.Cluster), s.Cluster)
			}
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d kinds of clusters: %v", len(seen), seen)
	}
}

// described reads descriptors as the controller does.
func described(t *testing.T, docs []byte, want Cluster) {
	t.Helper()
	peers := 0
	for in := json.NewDecoder(bytes.NewReader(docs)); in.More(); {
		var text json.RawMessage
		if err := in.Decode(&text); err != nil {
			t.Fatal(err)
		}
		doc := readObject(t, text)
		if doc["kind"] == "PeerDescriptor" {
			if _, faults := peer.ParsePeer(doc); faults != nil {
				t.Fatal(faults)
			}
			peers++
			continue
		}
		c, faults := peer.ParseCluster(doc)
		if faults != nil || len(c.Members) != peers || (c.Topology == "mesh") != want.Mesh ||
			(c.Encryption == peer.EncryptionWireGuard) != want.Encrypted {
			t.Fatalf("%+v: %+v, %v", want, c, faults)
		}
	}
}

// portOf returns the port of network 1, or nil.
func portOf(doc config.Object) any {
	return doc["networkInstances"].(config.Object)[NetworkID(1)].(config.Object)["port"]
}

func readObject(t *testing.T, text []byte) config.Object {
	t.Helper()
	o, faults := config.ParseObject(text)
	if faults != nil {
		t.Fatal(faults)
	}
	return o
}

func TestASeedRepeatsAPlan(t *testing.T) {
	a, b, c := NewPlan(7, 2), NewPlan(7, 2), NewPlan(8, 2)
	same := true
	for range 200 {
		x, y, z := a.Next(), b.Next(), c.Next()
		if !reflect.DeepEqual(x, y) {
			t.Fatalf("one seed gives %v and %v", x, y)
		}
		same = same && x.String() == z.String()
	}
	if same {
		t.Error("another seed gives the same plan")
	}
}

// A plan has each fault before it has any a second time; each lasts as long as it may, and node 1's daemon stays.
func TestAPlanHasEachFault(t *testing.T) {
	p, seen := NewPlan(3, 2), []Kind(nil)
	for len(seen) < len(FaultKinds()) {
		s := p.Next()
		if !slices.Contains(FaultKinds(), s.Kind) {
			continue
		}
		if slices.Contains(seen, s.Kind) {
			t.Errorf("%q comes again before %d others have come", s.Kind, len(FaultKinds())-len(seen))
		}
		if (s.Kind == KillDaemon || s.Kind == PowerCut || s.Kind == StopDaemon) && s.Node == 1 {
			t.Errorf("%v", s)
		}
		if s.For < 0 || s.For > time.Minute {
			t.Errorf("%v", s)
		}
		seen = append(seen, s.Kind)
	}
}

func TestAPlanDrawsOnlyTheFaultsAskedFor(t *testing.T) {
	for p := NewPlan(3, 2, Flush); p.number < 60; {
		if s := p.Next(); slices.Contains(FaultKinds(), s.Kind) && s.Kind != Flush {
			t.Errorf("%v", s)
		}
	}
}

func TestWhatMayReachWhat(t *testing.T) {
	f := Fleet{
		{Networks: map[int]Network{1: {Port: "uplink"}, 2: {}, VPN: {Port: "uplink"}}, Apps: map[int]App{
			1: {1, Open, true}, 2: {1, Server, true}, 3: {2, Open, true}, 4: {VPN, Open, true}, 5: {1, Narrow, true}}},
		{Networks: map[int]Network{1: {Port: "wan"}, VPN: {Port: "uplink"}}, Apps: map[int]App{
			1: {1, Open, true}, 2: {1, Closed, true}, 3: {1, Open, false}, 4: {VPN, Open, true}, 5: {3, Open, true}}},
	}
	for _, c := range []struct {
		from, to Endpoint
		port     int
		want     bool
	}{
		{Endpoint{1, 1}, Endpoint{1, 2}, Served, true},
		{Endpoint{1, 1}, Endpoint{1, 2}, Other, false},  // a server takes one port
		{Endpoint{1, 2}, Endpoint{1, 1}, Other, true},   // and sends to all
		{Endpoint{1, 1}, Endpoint{1, 3}, Served, false}, // another network
		{Endpoint{1, 1}, Endpoint{2, 1}, Served, false}, // another node
		{Endpoint{1, 4}, Endpoint{2, 4}, Other, true},   // but for the tunnel
		{Endpoint{1, 4}, Outside, Served, false},        // which leads nowhere else
		{Endpoint{1, 1}, Outside, Other, true},          //
		{Endpoint{1, 3}, Outside, Served, false},        // a network without a port
		{Endpoint{1, 5}, Outside, Served, true},         //
		{Endpoint{1, 5}, Outside, Other, false},         //
		{Endpoint{1, 5}, Endpoint{1, 1}, Served, false}, //
		{Endpoint{2, 2}, Outside, Served, false},        // closed
		{Endpoint{2, 1}, Endpoint{2, 3}, Served, false}, // not active
		{Endpoint{2, 5}, Outside, Served, false},        // its network does not exist
		{Endpoint{1, 1}, Endpoint{1, 1}, Served, false}, // itself
		{Endpoint{1, 9}, Endpoint{9, 1}, Served, false}, // neither exists
	} {
		if got := f.MayReach(c.from, c.to, c.port); got != c.want {
			t.Errorf("%v to %v at %d: %v", c.from, c.to, c.port, got)
		}
	}
}

// In a cluster, the apps behind the members' links reach each other, and nothing else.
func TestWhatAClusterConnects(t *testing.T) {
	f := Fleet{{Networks: map[int]Network{1: {Port: "wan"}}, Apps: map[int]App{1: {1, Open, true}}, Joined: true},
		{Joined: true}, {}}
	one, two, apart := Endpoint{1, ClusterApp}, Endpoint{2, ClusterApp}, Endpoint{3, ClusterApp}
	for _, port := range Beacons {
		if !f.MayReach(one, two, port) || !f.MayReach(two, one, port) {
			t.Errorf("port %d does not pass", port)
		}
		for _, c := range [][2]Endpoint{{one, one}, {one, apart}, {apart, two}, {one, Outside}, {Outside, one},
			{{1, 1}, one}, {one, {1, 1}}, {one, {4, ClusterApp}}} {
			if f.MayReach(c[0], c[1], port) {
				t.Errorf("%v reaches %v at port %d", c[0], c[1], port)
			}
		}
	}
	if f.MayLeave(one, ServerAddr, Served) {
		t.Error("the app behind a link of a cluster may leave by an uplink")
	}
}

// An app whose rules name the server outside sends to no other address there.
func TestWhatMayLeaveANode(t *testing.T) {
	f := Fleet{{Networks: map[int]Network{1: {Port: "uplink"}, 2: {}}, Apps: map[int]App{
		1: {1, Open, true}, 2: {1, Narrow, true}, 3: {2, Open, true}, 4: {1, Closed, true}}}}
	for _, c := range []struct {
		app  int
		to   string
		port int
		want bool
	}{
		{1, ServerAddr, Other, true}, {1, "10.21.0.2", Other, true},
		{2, ServerAddr, Served, true}, {2, ServerAddr, Other, false}, {2, "10.21.0.2", Served, false},
		{3, ServerAddr, Served, false}, {3, "10.21.0.2", Served, false}, {4, ServerAddr, Served, false},
	} {
		if got := f.MayLeave(Endpoint{1, c.app}, c.to, c.port); got != c.want {
			t.Errorf("app %d to %s at %d: %v", c.app, c.to, c.port, got)
		}
	}
}

func TestTheFormOfEndpoints(t *testing.T) {
	if e, err := ParseEndpoint("3.14"); err != nil || e != (Endpoint{3, 14}) {
		t.Errorf("3.14 is %v, %v", e, err)
	}
	for _, wrong := range []string{"", "3", "3.", "3.x", " 3.1", "3.1 ", "3.01"} {
		if e, err := ParseEndpoint(wrong); err == nil {
			t.Errorf("%q is %v", wrong, e)
		}
	}
}

func valid(doc []byte) error {
	_, _, err := nodeconf.Read(doc)
	return err
}

// A node alone has its networks, apps and rules without tunnels, in a configuration that a node takes.
func TestANodeAloneHasNoTunnels(t *testing.T) {
	f := NewPlan(5, 2).Fleet().Alone(2)
	if err := valid(f.Document(2, keys(2))); err != nil {
		t.Fatal(err)
	}
	if doc := f.Document(2, Keys{}); bytes.Contains(doc, []byte("vpn")) || !bytes.Contains(doc, []byte(AppID(1))) {
		t.Errorf("%s", doc)
	}
	one, two := Endpoint{2, 1}, Endpoint{2, 2}
	if !f.MayReach(one, two, Served) || !f.MayReach(one, Outside, Other) || f.MayReach(Endpoint{1, 1}, Outside, Served) {
		t.Errorf("%+v", f)
	}
}
