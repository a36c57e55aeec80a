package controller

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
)

// The defects of the original's loop that concern the controller, by their numbers in the study of it (§5.1). The
// others concern the node.

func TestDefect_01_ThereAndBackIsNoCycle(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		n := r.nodes["b"]
		n.mu.Lock()
		n.untidy = true // an untidy node's missing reports prune nothing
		n.mu.Unlock()
		for range 3 {
			r.deploy(c)
			r.describe(c, clusterDoc("mesh", "b", "a", "c"))
			r.pass(time.Minute)
			r.describe(c, clusterDoc("star", "a", "b", "c"))
			r.pass(time.Minute)
			r.undeploy(c)
		}
		for name := range r.nodes { // each push was decoded, which detects cycles
			for _, p := range r.nodes[name].pushes {
				if _, faults := peer.Decode(p.PeerConfiguration); len(faults) > 0 {
					t.Errorf("%s: %v", name, faults)
				}
			}
		}
		r.agrees(c)
	})
}

func TestDefect_02_NothingDependsOnWhatIsForgotten(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		r.deploy(c)
		r.describe(c, clusterDoc("mesh", "b", "a", "c"))
		r.undeploy(c)
		r.describe(c, peerDoc("b", daemon))
		r.deploy(c)
		ids := map[string]bool{}
		conf := r.runs("b")
		for _, p := range conf.Parameters {
			ids[p.ID] = true
		}
		for _, p := range conf.Parameters {
			for _, id := range p.Dependencies {
				if !ids[id] {
					t.Errorf("%s depends on %s, which is not there", p.ID, id)
				}
			}
		}
		r.nodes["b"].connect(c) // the same is sent again on request
		r.pass(time.Minute)
		r.agrees(c)
	})
}

func TestDefect_04_AFailedRemovalHoldsUpNothing(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		r.deploy(c)
		n := r.nodes["a"]
		network := peer.NetworkOf(r.lab(c), uuid.MustParse(n.id))
		n.mu.Lock()
		n.stuck = map[string]string{peer.BridgeID(network): string(stateloop.RemovingFailed)}
		n.mu.Unlock()
		r.undeploy(c)
		r.describe(c, peerDoc("a", daemon))
		r.pass(time.Minute)
		for _, p := range r.runs("a").Parameters {
			if p.Kind == peer.KindExecutor && (p.Target != stateloop.ToBePresent || len(p.Dependencies) > 0) {
				t.Errorf("%+v", p)
			}
		}
		d, _ := c.Peer(r.Context(), "a")
		if i := slices.IndexFunc(d.Parameters,
			func(p fleetapi.PeerParameter) bool { return p.ID == peer.ExecutorID("daemon") }); i < 0 ||
			d.Parameters[i].State != "Present" {
			t.Errorf("%+v", d.Parameters)
		}
	})
}

func TestDefect_07_WhoWaitsIsSeenToWait(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		n := r.nodes["c"]
		id := peer.TunnelID(peer.NetworkOf(r.lab(c), uuid.MustParse(n.id)), uuid.MustParse(r.nodes["a"].id))
		n.mu.Lock()
		n.stuck = map[string]string{id: string(stateloop.WaitingForDependencies)}
		n.mu.Unlock()
		r.deploy(c)
		d, _ := c.Peer(r.Context(), "c")
		i := slices.IndexFunc(d.Parameters, func(p fleetapi.PeerParameter) bool { return p.ID == id })
		if i < 0 || d.Parameters[i].State != "WaitingForDependencies" || d.Parameters[i].Review != "no" ||
			d.Health != "yellow" || d.Ready {
			t.Errorf("%+v", d)
		}
	})
}

func TestDefect_08_UndeployingReachesTheNodes(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		r.deploy(c)
		r.nodes["b"].cut()
		r.pass(time.Second)
		r.undeploy(c)
		for name, want := range map[string]int{"a": 0, "c": 0} {
			if present, _ := r.parts(name); present != want {
				t.Errorf("%s has %d parts", name, present)
			}
		}
		if why := r.cluster(c, "undeploying", false); !strings.Contains(why, "b") {
			t.Error(why)
		}
		r.nodes["b"].connect(c)
		r.pass(time.Minute)
		r.cluster(c, "undeployed", false)
		r.agrees(c)
	})
}

func TestDefect_09_EditsOfDescriptorsReachTheNodes(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		r.deploy(c)
		before := map[string]int{}
		for name, n := range r.nodes {
			before[name], _ = n.got()
		}
		r.describe(c, peerDoc("b", daemon)) // an executor for b alone; the tunnels are unchanged
		r.pass(time.Minute)
		r.counts(map[string]int{"a": before["a"], "b": before["b"] + 1, "c": before["c"], "d": before["d"]})
		r.describe(c, clusterDoc("mesh", "a", "b", "c")) // b and c get a tunnel, a's is isolated now
		r.pass(time.Minute)
		r.counts(map[string]int{"a": before["a"] + 1, "b": before["b"] + 2, "c": before["c"] + 1, "d": before["d"]})
		if r.tunnel("b", "c").VNI == 0 || !r.tunnel("a", "b").Isolated {
			t.Errorf("%+v %+v", r.tunnel("b", "c"), r.tunnel("a", "b"))
		}
		r.describe(c, clusterDoc("star", "a", "b")) // c is no longer a member
		r.pass(time.Minute)
		if present, _ := r.parts("c"); present != 0 {
			t.Errorf("c has %d parts", present)
		}
		r.agrees(c)
	})
}

func TestDefect_12_NumbersStayOverReconnectsAndAreTheSameAtBothEnds(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		r.deploy(c)
		vni, pushes := r.tunnel("a", "b").VNI, len(r.nodes["a"].pushes)
		for range 3 {
			r.nodes["b"].cut()
			r.pass(time.Minute)
			r.nodes["b"].connect(c)
			r.pass(time.Minute)
		}
		r.describe(c, clusterDoc("mesh", "c", "a", "b"))
		r.pass(time.Minute)
		for name, n := range map[string]uint32{"a": r.tunnel("a", "b").VNI, "b": r.tunnel("b", "a").VNI} {
			if n != vni {
				t.Errorf("%s: number %d, was %d", name, n, vni)
			}
		}
		r.counts(map[string]int{"a": pushes + 1}) // of the mesh
		seen := map[uint32]string{}
		for _, pair := range [][2]string{{"a", "b"}, {"a", "c"}, {"b", "c"}} {
			n := r.tunnel(pair[0], pair[1]).VNI
			if r.tunnel(pair[1], pair[0]).VNI != n || n == 0 || seen[n] != "" {
				t.Errorf("%v: number %d and %d, also of %s", pair, n, r.tunnel(pair[1], pair[0]).VNI, seen[n])
			}
			seen[n] = pair[0] + pair[1]
		}
	})
}

func TestDefect_15_WhatIsWantedNowIsWhatANodeGetsAsItComes(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		r.deploy(c)
		for range 5 {
			r.nodes["b"].connect(c) // at the same time as the write
			r.write(c, ops.Undeploy{Clusters: []string{"lab"}})
			r.nodes["b"].connect(c)
			r.write(c, ops.Deploy{Clusters: []string{"lab"}})
		}
		r.pass(5 * time.Minute)
		r.agrees(c)
		r.cluster(c, "deployed", true)
		// A report from before a change prunes nothing, whatever it contains.
		n := r.nodes["a"]
		old := nodeproto.Report{}
		n.mu.Lock()
		old, s := n.report(), n.stream
		n.mu.Unlock()
		for i := range old.Parameters {
			old.Parameters[i].State = string(stateloop.Absent)
		}
		n.cut() // it does not answer the change
		n.connect(c)
		r.settled()
		has := len(r.has("a"))
		c.Received(s, old)
		r.settled()
		if got := len(r.has("a")); got != has || got == 0 {
			t.Errorf("a may have %d parts, had %d", got, has)
		}
	})
}

func TestDefect_16_ALeaderWithoutInterfacesIsAMember(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		r.describe(c, strings.Replace(clusterDoc("star", "a", "b", "c"), `"a":{"interfaces":"dut","underlay":"wan"}`,
			`"a":{"underlay":"wan"}`, 1))
		r.nodes["a"].cut()
		r.pass(time.Second)
		r.deploy(c)
		if why := r.cluster(c, "deploying", false); !strings.Contains(why, "a: it is offline") {
			t.Error(why)
		}
		if p, _ := c.Peer(r.Context(), "a"); !slices.Equal(p.Clusters, []string{"lab"}) {
			t.Errorf("%+v", p.Peer)
		}
		r.nodes["a"].connect(c)
		r.pass(time.Minute)
		r.cluster(c, "deployed", true)
		if r.tunnel("a", "c").VNI == 0 {
			t.Error("the leader has no tunnel")
		}
	})
}

func TestDefect_19_AForgottenNodeLeavesNothingOfItsState(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		r.deploy(c)
		if err := c.Command(r.Context(), alice, "c", "forget"); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Minute)
		p, err := c.Peer(r.Context(), "c")
		if err != nil || p.Online || p.ID != "" || len(p.Parameters) > 0 || p.LastReport != nil || p.Health != "unknown" {
			t.Errorf("%+v, %v", p, err)
		}
		if e, _, _ := r.store.Get(r.Context(), history.UnderlayKey(r.nodes["c"].id)); e.Exists() {
			t.Errorf("its ports are %s", e.Value)
		}
		if got := r.tunnel("a", "c"); got.VNI != 0 {
			t.Errorf("a has a tunnel to it: %+v", got)
		}
		// A report about an old config counts as a report about an old config.
		n := r.nodes["b"]
		n.mu.Lock()
		n.reject = "{"
		n.mu.Unlock()
		r.describe(c, peerDoc("b", daemon))
		r.pass(time.Minute)
		d, _ := c.Peer(r.Context(), "b")
		if d.Ready || d.Desired == d.Applied || !slices.ContainsFunc(d.Parameters,
			func(p fleetapi.PeerParameter) bool { return strings.HasPrefix(p.Reason, stateloop.StaleReport) }) {
			t.Errorf("%+v", d)
		}
	})
}
