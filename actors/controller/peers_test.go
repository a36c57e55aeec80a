package controller

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/kv"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
)

// onPeers runs a test with peers a, b and c, in sync and with descriptors, node d, which is neither, and a cluster lab
// of the three.
func onPeers(t *testing.T, f func(*rig, *Controller)) {
	onRig(t, func(r *rig) { f(r, r.peered()) })
}

// peered starts a controller with the peers of onPeers.
func (r *rig) peered() *Controller {
	r.Helper()
	c := r.start("a")
	for i, name := range []string{"a", "b", "c"} {
		r.join(c, name).ports = []nodeproto.Port{{Label: "wan0",
			Addresses: []string{"fe80::1", fmt.Sprintf("192.0.2.%d", i+1)}, MTU: 1500}}
		r.nodes[name].connect(c)
	}
	r.node(c, "d")
	r.describe(c, peerDoc("a"), peerDoc("b"), peerDoc("c"), clusterDoc("star", "a", "b", "c"))
	r.pass(time.Minute)
	for name := range r.nodes {
		r.wants(c, name, "InSync")
	}
	return c
}

func peerDoc(name string, more ...string) string {
	return fmt.Sprintf(`{"kind":"PeerDescriptor","metadata":{"name":%q},"spec":{"interfaces":{"dut":{"ifName":"eth1"}},"underlays":{"wan":{"port":"wan0"}}%s}}`,
		name, strings.Join(append([]string{""}, more...), ","))
}

func clusterDoc(topology string, members ...string) string {
	var all []string
	for _, m := range members {
		all = append(all, fmt.Sprintf(`%q:{"interfaces":"dut","underlay":"wan"}`, m))
	}
	return fmt.Sprintf(`{"kind":"ClusterDescriptor","metadata":{"name":"lab"},"spec":{"leader":%q,"topology":%q,"members":{%s}}}`, members[0], topology, strings.Join(all, ","))
}

const daemon = `"executors":{"daemon":{"command":["/usr/bin/true"]}}`

func (r *rig) describe(c *Controller, docs ...string) {
	r.Helper()
	w := ops.Describe{}
	for _, text := range docs {
		w.Documents = append(w.Documents, r.doc(text))
	}
	r.write(c, w)
}

func (r *rig) deploy(c *Controller) {
	r.Helper()
	r.write(c, ops.Deploy{Clusters: []string{"lab"}})
	r.pass(time.Minute)
}

func (r *rig) undeploy(c *Controller) {
	r.Helper()
	r.write(c, ops.Undeploy{Clusters: []string{"lab"}})
	r.pass(time.Minute)
}

// runs returns the PeerConfiguration that a node runs.
func (r *rig) runs(name string) peer.Configuration {
	r.Helper()
	n := r.nodes[name]
	n.mu.Lock()
	defer n.mu.Unlock()
	c, faults := peer.Decode(n.peer)
	if len(faults) > 0 {
		r.Errorf("%s: %v", name, faults)
	}
	return c
}

// parts counts what a node runs, by target.
func (r *rig) parts(name string) (present, absent int) {
	for _, p := range r.runs(name).Parameters {
		if p.Target == stateloop.ToBePresent {
			present++
		} else {
			absent++
		}
	}
	return present, absent
}

func (r *rig) counts(want map[string]int) {
	r.Helper()
	for name, n := range want {
		if got, _ := r.nodes[name].got(); got != n {
			r.Errorf("%s was pushed to %d times, want %d", name, got, n)
		}
	}
}

// cluster checks the state of the cluster.
func (r *rig) cluster(c *Controller, state string, ready bool) string {
	r.Helper()
	synctest.Wait()
	all, err := c.Clusters(r.Context())
	if err != nil || len(all) != 1 {
		r.Fatalf("clusters %v, %v", all, err)
	}
	if all[0].State != state || all[0].Ready != ready {
		r.Errorf("the cluster is %s, ready %v, %s: want %s, %v", all[0].State, all[0].Ready, all[0].Why, state, ready)
	}
	return all[0].Why
}

// tunnel returns the end of the tunnel from one node to another, as it runs.
func (r *rig) tunnel(from, to string) peer.TunnelValue {
	r.Helper()
	for _, p := range r.runs(from).Parameters {
		if p.Tunnel != nil && p.Tunnel.Peer == to {
			return *p.Tunnel
		}
	}
	return peer.TunnelValue{}
}

// has returns what may be on a node according to the store.
func (r *rig) has(name string) []peer.Leftover {
	r.Helper()
	e, _, err := r.store.Get(r.Context(), history.PushKey(r.nodes[name].id))
	if err != nil {
		r.Fatal(err)
	}
	m, err := fleet.ParseMemory(e.Value)
	if err != nil && e.Exists() {
		r.Fatal(err)
	}
	return m.Has
}

// agrees checks that every node is in sync and has what Derive returns.
func (r *rig) agrees(c *Controller) {
	r.Helper()
	for name := range r.nodes {
		r.wants(c, name, "InSync")
	}
	r.derived(c)
}

// derived checks that every node has what Derive returns for the current layers and ports, and that nothing else is
// expected of it.
func (r *rig) derived(c *Controller) {
	r.Helper()
	w, err := c.d.snapshot(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	f, err := w.Peers()
	if err != nil {
		r.Fatal(err)
	}
	nodes := map[string]peer.Node{}
	for name, n := range r.nodes {
		at := peer.Node{ID: uuid.MustParse(n.id), Ports: map[string]peer.Port{}}
		for _, p := range n.ports {
			last := netip.MustParseAddr(p.Addresses[len(p.Addresses)-1])
			at.Ports[p.Label] = peer.Port{Addresses: []netip.Addr{last}, MTU: p.MTU}
		}
		nodes[name] = at
	}
	for name, n := range r.nodes {
		got, want := r.runs(name), peer.Derive(peer.Input{Name: name, Nodes: nodes, Fleet: f})
		if got.Digest() != want.Digest() {
			r.Errorf("%s runs %+v\nwant %+v", name, got.Parameters, want.Parameters)
		}
		left := 0
		for _, g := range r.has(name) {
			if !slices.ContainsFunc(want.Parameters, func(p peer.DeclaredParameter) bool { return p.ID == g.ID }) &&
				n.stuck[g.ID] == "" {
				left++
			}
		}
		if left > 0 {
			r.Errorf("%s: %d parts are gone and not forgotten: %+v", name, left, r.has(name))
		}
	}
}

func TestADeploymentReachesItsMembersInOneGenerationEach(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		r.cluster(c, "undeployed", false)
		before := map[string]int{}
		for name, n := range r.nodes {
			before[name], _ = n.got()
		}
		generation := r.nodes["b"].generation.Counter
		r.deploy(c)
		r.counts(map[string]int{"a": before["a"] + 1, "b": before["b"] + 1, "c": before["c"] + 1, "d": before["d"]})
		if got := r.nodes["b"].generation.Counter; got != generation+1 {
			t.Errorf("b runs generation %d after %d", got, generation)
		}
		if got := r.tunnel("b", "a"); got.Local.String() != "192.0.2.2" || got.Remote.String() != "192.0.2.1" ||
			got.VNI != peer.FirstVNI || got.MTU != 1450 {
			t.Errorf("tunnel %+v", got)
		}
		if got := r.tunnel("b", "c"); got.VNI != 0 {
			t.Errorf("a star has a tunnel beside its leader: %+v", got)
		}
		r.cluster(c, "deployed", true)
		r.agrees(c)
		d, err := c.Cluster(r.Context(), "lab")
		if err != nil || len(d.Tunnels) != 2 || d.Tunnels[0].States != [2]string{"Present", "Present"} ||
			d.Tunnels[0].Reason != "" || len(d.Peers) != 3 {
			t.Errorf("%+v, %v", d, err)
		}
		p, err := c.Peer(r.Context(), "b")
		if err != nil || p.Health != "green" || !p.Ready || p.Counts["Present"] != len(p.Parameters) ||
			len(p.Parameters) == 0 || p.Desired == "" || p.Desired != p.Applied {
			t.Errorf("%+v, %v", p, err)
		}
		if p.LastReport == nil || p.AgeSeconds == nil || *p.AgeSeconds > 5 || !slices.Equal(p.Clusters, []string{"lab"}) {
			t.Errorf("%+v", p.Peer)
		}
	})
}

func TestAMemberThatIsOfflineGetsItWhenItComes(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		r.nodes["c"].cut()
		r.pass(time.Second)
		r.deploy(c)
		why := r.cluster(c, "deploying", false)
		if !strings.Contains(why, "c: it is offline") {
			t.Error(why)
		}
		if p, _ := c.Peer(r.Context(), "c"); p.Health != "unknown" || p.Ready || p.Online {
			t.Errorf("%+v", p.Peer)
		}
		if p, _ := c.Peer(r.Context(), "a"); p.Health != "green" || !p.Ready {
			t.Errorf("%+v", p.Peer)
		}
		r.nodes["c"].connect(c)
		r.pass(time.Minute)
		r.cluster(c, "deployed", true)
		r.agrees(c)
	})
}

func TestAnAddressThatComesLaterFlowsIntoTheOthers(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		r.deploy(c)
		before := r.nodes["d"].pushes
		n := r.nodes["a"]
		n.mu.Lock()
		n.ports = []nodeproto.Port{{Label: "wan0", Addresses: []string{"198.51.100.7"}, MTU: 1400}}
		n.mu.Unlock()
		r.pass(time.Minute)
		for _, name := range []string{"b", "c"} {
			if got := r.tunnel(name, "a"); got.Remote.String() != "198.51.100.7" || got.MTU != 1350 {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if len(r.nodes["d"].pushes) != len(before) {
			t.Error("d heard of it")
		}
		r.agrees(c)
		n.mu.Lock()
		n.ports = []nodeproto.Port{{Label: "wan0", MTU: 1400}} // its cable is pulled
		n.mu.Unlock()
		pushes, _ := r.nodes["b"].got()
		r.pass(time.Minute)
		r.counts(map[string]int{"b": pushes})
	})
}

func TestAnUndeployedClusterIsRemovedAndThenForgotten(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		r.deploy(c)
		n := r.nodes["b"]
		network := peer.NetworkOf(r.lab(c), uuid.MustParse(n.id))
		bridge := peer.BridgeID(network)
		n.mu.Lock()
		n.stuck = map[string]string{bridge: string(stateloop.RemovingFailed)}
		n.mu.Unlock()
		r.undeploy(c)
		if present, absent := r.parts("b"); present != 0 || absent == 0 {
			t.Errorf("b runs %d and removes %d", present, absent)
		}
		// as in docs/peers.md
		if why := r.cluster(c, "undeploying", false); why != "b has not yet reported that its part is removed" {
			t.Error(why)
		}
		if has := r.has("b"); len(has) != 1 || has[0].ID != bridge {
			t.Errorf("b may have %+v", has)
		}
		p, _ := c.Peer(r.Context(), "b")
		if p.Health != "red" || p.Counts["RemovingFailed"] != 1 {
			t.Errorf("%+v", p.Peer)
		}
		// A failed removal blocks nothing that is desired.
		r.describe(c, peerDoc("b", daemon))
		r.pass(time.Minute)
		if present, absent := r.parts("b"); present != 1 || absent != 1 {
			t.Errorf("b runs %d and removes %d", present, absent)
		}
		for name := range r.replicas { // nor does another run forget it
			r.stop(name)
		}
		c = r.start("a2")
		for _, name := range []string{"a", "b", "c", "d"} {
			r.nodes[name].connect(c)
		}
		r.pass(time.Minute)
		r.cluster(c, "undeploying", false)
		n.mu.Lock()
		n.stuck = nil
		n.mu.Unlock()
		pushes, _ := n.got()
		r.pass(time.Minute)
		r.cluster(c, "undeployed", false)
		r.counts(map[string]int{"b": pushes}) // pruning pushes to no node
		r.agrees(c)
	})
}

// The minimum time between two pushes, two minutes, applies to pushes of the same configuration.
func TestADeployWaitsForNoPushBeforeIt(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		for range 2 {
			r.write(c, ops.Deploy{Clusters: []string{"lab"}})
			r.pass(time.Second)
			r.cluster(c, "deployed", true)
			r.write(c, ops.Undeploy{Clusters: []string{"lab"}})
			r.pass(time.Second)
			r.cluster(c, "undeployed", false)
		}
	})
}

func TestWhoIsStillToSayThatItIsGone(t *testing.T) {
	if why := notRemovedText([]string{"a", "b",
		"c"}); why != "a and 2 more have not yet reported that their parts are removed" {
		t.Error(why)
	}
}

func (r *rig) lab(c *Controller) uuid.UUID {
	r.Helper()
	f, err := c.readPeers(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	return f.Clusters["lab"].ID
}

// Whatever step a controller dies in, the next one continues, and counts no generation for it.
func TestARestartBringsNobodyAnything(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		again := func(step string) {
			generations := map[string]uint64{}
			pushes := map[string]int{}
			for name, n := range r.nodes {
				generations[name] = n.generation.Counter
				pushes[name], _ = n.got()
			}
			r.stop("a")
			c = r.start("a")
			r.nodes["c"].connect(c) // the others' ports are known all the same
			r.pass(10 * time.Second)
			for _, name := range []string{"a", "b", "d"} {
				r.nodes[name].connect(c)
			}
			r.pass(time.Minute)
			for name, n := range r.nodes {
				if got, _ := n.got(); got != pushes[name] || n.generation.Counter != generations[name] {
					t.Errorf("%s: %s: %d pushes after %d, generation %d after %d", step, name, got, pushes[name], n.generation.Counter,
						generations[name])
				}
			}
			r.agrees(c)
		}
		again("described")
		r.deploy(c)
		again("deployed")
		r.cluster(c, "deployed", true)
		r.undeploy(c)
		again("undeployed")
		r.cluster(c, "undeployed", false)
	})
}

// Each replica shows the peers of the other replicas too.
func TestEachReplicaShowsAllPeers(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		r.change = func(o *Options) { o.Shared = true }
		other := r.start("b")
		for _, name := range []string{"b", "c"} {
			r.nodes[name].connect(other)
		}
		r.deploy(c)
		r.pass(time.Minute)
		// The first replica was started alone and sends the other nothing.
		r.cluster(c, "deployed", true)
		p, err := c.Peer(r.Context(), "b")
		if err != nil || p.Health != "green" || !p.Ready || len(p.Parameters) == 0 || p.Parameters[0].Reported == "" {
			t.Errorf("%+v, %v", p, err)
		}
		n := r.nodes["c"]
		n.mu.Lock()
		n.stuck = map[string]string{peer.BridgeID(peer.NetworkOf(r.lab(c),
			uuid.MustParse(n.id))): string(stateloop.CreatingFailed)}
		n.mu.Unlock()
		r.pass(time.Minute)
		if p, _ = c.Peer(r.Context(), "c"); p.Health != "red" {
			t.Errorf("%+v", p.Peer)
		}
		r.cluster(c, "deploying", false)
		n.cut()
		r.pass(time.Minute)
		if p, _ = c.Peer(r.Context(), "c"); p.Online || p.Ready || p.Why != "it is offline" {
			t.Errorf("%+v", p.Peer)
		}
	})
}

func TestWhoWatchesPeersHearsOfChanges(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		mark, err := c.Changed(r.Context(), 0)
		if err != nil || mark == 0 {
			t.Fatal(mark, err)
		}
		heard := make(chan uint64, 1)
		go func() {
			next, _ := c.Changed(r.Context(), mark)
			heard <- next
		}()
		r.pass(time.Minute) // reports keep coming and report nothing new
		select {
		case next := <-heard:
			t.Errorf("news %d after %d, and nothing happened", next, mark)
		default:
		}
		r.deploy(c)
		if next := <-heard; next == mark {
			t.Error("the mark is the same")
		}
	})
}

// A member that no descriptor names and nodes without descriptors have no configuration at all.
func TestWhoIsNoPeerHasNoConfiguration(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		r.deploy(c)
		n := r.nodes["d"]
		for _, p := range n.pushes {
			if p.PeerConfiguration != nil {
				t.Errorf("d got %s", p.PeerConfiguration)
			}
		}
		e, _, _ := r.store.Get(r.Context(), history.UnderlayKey(n.id))
		if e.Exists() || r.has("d") != nil {
			t.Errorf("the store has %s, %v of d", e.Value, r.has("d"))
		}
		page, err := r.store.List(r.Context(), history.InUnderlays, kv.ListOptions{})
		if err != nil || len(page.Entries) != 3 {
			t.Errorf("%d keys, %v", len(page.Entries), err)
		}
		if peers, err := c.Peers(r.Context()); err != nil || len(peers) != 4 || peers[3].Described || !peers[3].Online ||
			peers[3].Health != "green" {
			t.Errorf("%+v, %v", peers, err)
		}
	})
}
