package controller

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	nodespkg "edgespan/actors/controller/nodes"
	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
	"edgespan/config/layers"
)

func TestANodeJoinsAndGetsItsConfig(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.network(c, `{"envParams":{"B":"2"}}`)
		n := r.node(c, "n1")
		r.pass(time.Second)
		r.wants(c, "n1", "InSync")
		pushes, md5 := n.got()
		want := r.doc(`{"sysParams":{"managedConfig":true},"envParams":{"A":"1","B":"2"}}`)
		if pushes != 1 || md5 != config.MD5(want) || n.pending != nil {
			t.Errorf("%d pushes, runs %s, pending %v", pushes, n.doc, n.pending)
		}
		if n.heard["nodeproto.Confirm"] != 1 || n.heard["nodeproto.Probe"] != 1 || n.heard["nodeproto.Managed"] != 1 {
			t.Errorf("heard %v", n.heard)
		}
	})
}

// synced starts nodes and waits until they are in sync.
func (r *rig) synced(c *Controller, names ...string) {
	r.Helper()
	for _, name := range names {
		r.node(c, name)
	}
	r.pass(time.Second)
	for _, name := range names {
		r.wants(c, name, "InSync")
	}
}

func TestOnlyNodesWhoseOwnConfigChangesHearOfIt(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.synced(c, "n1", "n2", "n3")
		r.write(c, ops.SetNodes{Overrides: r.doc(`{"n2":{"envParams":{"B":"own"}}}`)})
		r.network(c, `{"envParams":{"B":"all"}}`)
		r.pass(time.Second)
		for name, want := range map[string]int{"n1": 2, "n2": 2, "n3": 2} { // n2 by its own layer only
			if got, _ := r.nodes[name].got(); got != want {
				t.Errorf("%s was pushed to %d times, want %d", name, got, want)
			}
		}
		before := r.nodes["n1"].heard["nodeproto.Number"] + r.nodes["n3"].heard["nodeproto.Number"]
		r.write(c, ops.SetNodes{Overrides: r.doc(`{"n2":{"envParams":{"C":"own"}}}`), Modify: true})
		r.pass(time.Minute)
		if got, _ := r.nodes["n2"].got(); got != 3 {
			t.Errorf("n2 was pushed to %d times", got)
		}
		if after := r.nodes["n1"].heard["nodeproto.Number"] + r.nodes["n3"].heard["nodeproto.Number"]; after != before ||
			len(r.nodes["n1"].pushes) != 2 {
			t.Error("another node heard of it")
		}
		rollouts, err := c.Rollouts(r.Context())
		if err != nil || len(rollouts) != 3 || rollouts[0].Nodes != 1 || rollouts[1].Nodes != 2 ||
			rollouts[0].State != "done" || rollouts[1].Acked != 2 {
			t.Errorf("rollouts %+v, %v", rollouts, err)
		}
	})
}

func TestWhatANodeCannotTakeIsNotPushedAgainUntilAChange(t *testing.T) {
	for name, set := range map[string]func(*fakeNode){
		"rejected":  func(n *fakeNode) { n.reject = "bad" },
		"unhealthy": func(n *fakeNode) { n.unhealthy = "bad" },
	} {
		t.Run(name, func(t *testing.T) {
			onRig(t, func(r *rig) {
				c := r.start("a")
				r.synced(c, "n1")
				n := r.nodes["n1"]
				n.mu.Lock()
				set(n)
				n.mu.Unlock()
				r.network(c, `{"envParams":{"B":"bad"}}`)
				r.pass(time.Hour)
				r.wants(c, "n1", "RolledBack")
				_, why := r.state(c, "n1")
				if pushes, _ := n.got(); pushes != 2 || !strings.Contains(why, "bad") && !strings.Contains(why, "down") {
					t.Errorf("%d pushes: %s", pushes, why)
				}
				if len(n.last) != 0 {
					t.Error("its answer was not acknowledged")
				}
				rollouts, _ := c.Rollouts(r.Context())
				if rollouts[0].Failed["n1"] == "" {
					t.Errorf("rollouts %+v", rollouts)
				}
				r.network(c, `{"envParams":{"B":"good"}}`)
				r.pass(time.Second)
				r.wants(c, "n1", "InSync")
				r.network(c, `{"envParams":{"B":"bad"}}`) // the refusal is remembered
				r.pass(time.Hour)
				if pushes, _ := n.got(); pushes != 3 {
					t.Errorf("%d pushes", pushes)
				}
				if err := c.Command(r.Context(), alice, "n1", fleetapi.Retry); err != nil {
					t.Error(err)
				}
				r.pass(time.Second)
				if pushes, _ := n.got(); pushes != 4 {
					t.Errorf("%d pushes after a retry", pushes)
				}
			})
		})
	}
}

func TestWhatNobodyConfirmedIsPushedAgainAfterTheInterval(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.synced(c, "n1")
		n := r.nodes["n1"]
		n.mu.Lock()
		n.silent = true
		n.mu.Unlock()
		r.network(c, `{"envParams":{"B":"1"}}`)
		r.pass(119 * time.Second)
		if pushes, _ := n.got(); pushes != 2 {
			t.Errorf("%d pushes", pushes)
		}
		r.pass(60 * time.Second) // undone after 2 min
		r.wants(c, "n1", "Pushing")
		r.network(c, `{"envParams":{"B":"2"}}`) // a change restarts the interval
		r.pass(time.Second)
		if pushes, _ := n.got(); pushes != 3 {
			t.Errorf("%d pushes after a change", pushes)
		}
		n.mu.Lock()
		n.silent = false
		n.mu.Unlock()
		r.pass(5 * time.Minute)
		r.wants(c, "n1", "InSync")
	})
}

// A push that is lost with its node's stream is sent again on the next stream, whichever replica that leads to.
func TestAPushThatIsLostWithItsStreamIsMadeAgain(t *testing.T) {
	for _, next := range []string{"a", "b"} {
		t.Run("back at "+next, func(t *testing.T) {
			onRig(t, func(r *rig) {
				r.change = func(o *Options) { o.Shared = true }
				c := r.start("a")
				r.start("b")
				r.synced(c, "n1")
				n := r.nodes["n1"]
				n.lose()
				r.network(c, `{"envParams":{"B":"1"}}`)
				r.pass(5 * time.Second)
				n.connect(r.replicas[next])
				r.pass(10 * time.Second)
				r.wants(r.replicas[next], "n1", "Pushing")
				r.pass(10 * time.Second)
				r.wants(r.replicas[next], "n1", "InSync")
				if pushes, _ := n.got(); pushes != 2 {
					t.Errorf("%d pushes arrived", pushes)
				}
			})
		})
	}
}

func TestANodeThatIsNotManagedIsLeftAlone(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		n := r.join(c, "n1")
		r.write(c, ops.SetNodes{Overrides: r.doc(`{"n1":{"sysParams":{"managedConfig":false}}}`)})
		n.connect(c)
		r.network(c, `{"envParams":{"B":"2"}}`)
		r.pass(time.Hour)
		r.wants(c, "n1", "Unmanaged")
		if pushes, _ := n.got(); pushes != 0 || n.managed == nil || *n.managed {
			t.Errorf("%d pushes, told %v", pushes, n.managed)
		}
		r.write(c, ops.Unset{Layer: layers.Node, Keys: [][]string{{"n1"}}})
		r.pass(time.Second)
		r.wants(c, "n1", "InSync")
	})
}

func TestAHeldNodeIsReleased(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.synced(c, "n1")
		n := r.nodes["n1"]
		n.mu.Lock()
		n.held = &nodeproto.Held{By: "bob", Since: time.Now()}
		n.mu.Unlock()
		r.pass(6 * time.Second)
		r.network(c, `{"envParams":{"B":"2"}}`)
		r.pass(time.Hour)
		r.wants(c, "n1", "HeldLocally")
		if err := c.Command(r.Context(), alice, "n1", fleetapi.Release); err != nil {
			t.Error(err)
		}
		r.pass(time.Second)
		r.wants(c, "n1", "InSync")
	})
}

func TestUnknownHardwareIsAskedAndLearnt(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		for _, name := range []string{"n1", "n2", "n3"} {
			n := r.join(c, name)
			n.board, n.base = "board-9",
				`{"base":{"RELEASE_M20":{"sysParams":{"managedConfig":true},"envParams":{"L":1.0}}},"hardware":{"RELEASE_M20":{"envParams":{"HW":"9"}}}}`
			if name == "n1" {
				n.base = "broken"
			}
			n.connect(c)
		}
		r.pass(time.Second)
		r.wants(c, "n1", "UnknownHardware")
		asked := 0
		for _, n := range r.nodes {
			asked += n.heard["nodeproto.Request"]
			if pushes, _ := n.got(); pushes != 0 {
				t.Errorf("%s was pushed to", n.name)
			}
		}
		if asked != 1 {
			t.Errorf("nodes of one board were asked %d times at once", asked)
		}
		r.pass(10 * time.Minute)
		for _, n := range r.nodes { // what one node proposed counts for no other yet
			if pushes, _ := n.got(); pushes != 0 {
				t.Errorf("%s was pushed to", n.name)
			}
		}
		all, err := c.Hardware(r.Context())
		if err != nil || len(all) != 2 || all[0].Board != "board-9" || all[0].By != "" || all[0].Base[0] != "RELEASE_M20" {
			t.Fatalf("proposals: %+v, %v", all, err)
		}
		if err := c.AcceptHardware(r.Context(), alice, "board-9", "", all[0].Digest); !errors.Is(err, fleetapi.ErrRefused) {
			t.Errorf("one of two was accepted: %v", err)
		}
		if err := c.AcceptHardware(r.Context(), alice, "board-9", "n1", all[0].Digest); err == nil {
			t.Error("what nobody proposed was accepted")
		}
		doc, err := c.HardwareConfig(r.Context(), "board-9", all[0].Node, false)
		if v, _ := config.Lookup(doc.Object, []string{"hardware", "RELEASE_M20", "envParams", "HW"}); err != nil || v != "9" {
			t.Errorf("the proposal: %v, %v", doc.Object, err)
		}
		proposed := history.ProposedKey(r.nodes[all[0].Node].id)
		if e, _, _ := r.store.Get(r.Context(), proposed); !e.Exists() || e.Lease == 0 {
			t.Error("a proposal is not kept for this replica's life")
		}
		if doc.Digest == "" || doc.Digest != all[0].Digest || doc.Digest == all[1].Digest {
			t.Errorf("digests: %q, %q, of another one %q", doc.Digest, all[0].Digest, all[1].Digest)
		}
		for _, other := range []string{"", all[1].Digest} { // a digest that changed after the operator looked
			if err := c.AcceptHardware(r.Context(), alice, "board-9", all[0].Node, other); !errors.Is(err, fleetapi.ErrRefused) {
				t.Errorf("accepted by %q: %v", other, err)
			}
		}
		if err := c.AcceptHardware(r.Context(), alice, "board-9", all[0].Node, doc.Digest); err != nil {
			t.Fatal(err)
		}
		r.pass(10 * time.Minute)
		want := config.MD5(r.doc(`{"sysParams":{"managedConfig":true},"envParams":{"L":1,"HW":"9"}}`))
		for name, n := range r.nodes {
			r.wants(c, name, "InSync")
			if _, md5 := n.got(); md5 != want {
				t.Errorf("%s runs %s", name, n.doc)
			}
		}
		if err := c.RejectHardware(r.Context(), alice, "board-9", ""); err != nil { // the other proposal
			t.Error(err)
		}
		r.stop("a")
		if page, _ := r.store.List(r.Context(), history.InProposed, kv.ListOptions{}); len(page.Entries) != 0 {
			t.Error("proposals are stored for good")
		}
		c = r.start("a")
		if all, err = c.Hardware(r.Context()); err != nil || len(all) != 1 || all[0].By != "alice" {
			t.Errorf("after a restart: %+v, %v", all, err)
		}
		r.nodes["n1"].connect(c)
		r.pass(10 * time.Second)
		r.wants(c, "n1", "InSync")
		if err := c.ForgetHardware(r.Context(), alice, "board-9"); err != nil {
			t.Error(err)
		}
		r.pass(10 * time.Second)
		if all, err = c.Hardware(r.Context()); err != nil || len(all) != 0 {
			t.Errorf("after it was forgotten: %+v, %v", all, err)
		}
	})
}

// TestWhatNodesProposeIsBounded has hostile nodes propose large documents, often.
func TestWhatNodesProposeIsBounded(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		big := `{"base":{"RELEASE_M20":{"envParams":{"A":"` + strings.Repeat("x", proposalBytes-100) + `"}}}}`
		const nodes = maxProposals + 6
		for i := range nodes {
			n := r.join(c, fmt.Sprintf("n%d", i))
			n.board, n.base = fmt.Sprintf("board-%d", i), big
			if i == 0 {
				n.base += strings.Repeat(" ", 200) // too large by itself
			}
			n.connect(c)
		}
		r.pass(10 * time.Minute) // each node is queried a few times
		all, err := c.Hardware(r.Context())
		total := 0
		for _, h := range all {
			total += h.Bytes
			if h.Node == "n0" {
				t.Error("a proposal of more than its limit is kept")
			}
		}
		if err != nil || len(all) < 30 || len(all) > maxProposals || total > allProposalBytes {
			t.Errorf("%d proposals of %d bytes, %v", len(all), total, err)
		}
		page, _ := r.store.List(r.Context(), history.InProposed, kv.ListOptions{})
		if len(page.Entries) != len(all) {
			t.Errorf("the store has %d of %d", len(page.Entries), len(all))
		}
	})
}

// TestTheMetadataOfABoardIsNoRuleForOthers accepts a board whose node declares a key an integer: the declaration binds
// no other board.
func TestTheMetadataOfABoardIsNoRuleForOthers(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.node(c, "plain")
		n := r.join(c, "odd")
		n.board, n.base = "board-9",
			`{"base":{"RELEASE_M20":{"sysParams":{"managedConfig":true}}},"metadata":{"anything":{"type":"INTEGER","desc":"x","action":"NO_ACTION"}}}`
		n.connect(c)
		r.pass(10 * time.Minute)
		shown, err := c.HardwareConfig(r.Context(), "board-9", "", false)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AcceptHardware(r.Context(), alice, "board-9", "", shown.Digest); err != nil {
			t.Fatal(err)
		}
		r.pass(10 * time.Minute)
		r.wants(c, "odd", "InSync")
		write := func(node string) error {
			_, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice,
				Write: ops.SetNodes{Overrides: config.Object{node: r.doc(`{"anything":"text"}`)}}})
			return err
		}
		if err := write("plain"); err != nil {
			t.Errorf("a node of another board: %v", err)
		}
		if err := write("odd"); err == nil {
			t.Error("the board's own rule does not count for it")
		}
	})
}

func TestAnAdoptionIsDecidedByPeople(t *testing.T) {
	for _, what := range []fleetapi.Command{fleetapi.AdoptReplace, fleetapi.AdoptImport} {
		t.Run(string(what), func(t *testing.T) {
			onRig(t, func(r *rig) {
				c := r.start("a")
				n := r.join(c, "n1")
				n.doc = []byte(`{"ports":{"eth0":{"ifName":"eth0"}}}`)
				n.md5 = config.MD5(r.doc(string(n.doc)))
				n.confirmed = fakeConfig{n.doc, n.peer, n.md5, n.generation}
				n.connect(c)
				r.pass(time.Hour)
				r.wants(c, "n1", "NeedsAdoption")
				if err := c.Command(r.Context(), alice, "n1", what); err != nil {
					t.Fatal(err)
				}
				r.pass(time.Second)
				r.wants(c, "n1", "InSync")
				if kept := strings.Contains(string(n.doc), "eth0"); kept != (what == fleetapi.AdoptImport) {
					t.Errorf("runs %s", n.doc)
				}
			})
		})
	}
}

func TestABrokenBaseFileMakesItsNodesFaulty(t *testing.T) {
	onRig(t, func(r *rig) {
		r.base.docs["RELEASE_M20"] = `{"a":`
		c := r.start("a")
		n := r.node(c, "n1")
		r.pass(time.Hour)
		r.wants(c, "n1", "ConfigError")
		if _, why := r.state(c, "n1"); !strings.Contains(why, "RELEASE_M20.json") {
			t.Error(why)
		}
		if pushes, _ := n.got(); pushes != 0 {
			t.Error("it was pushed to")
		}
		r.base.mu.Lock()
		r.base.docs["RELEASE_M20"] = `{"sysParams":{"managedConfig":true}}`
		r.base.mu.Unlock()
		c.Reload()
		r.pass(time.Second)
		r.wants(c, "n1", "InSync")
	})
}

func TestACrashOfANodesActorIsMadeUpForByTheStore(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.synced(c, "n1", "n2")
		n := r.nodes["n1"]
		n.mu.Lock()
		n.reject = "bad"
		n.mu.Unlock()
		r.network(c, `{"envParams":{"B":"bad"}}`)
		r.pass(time.Second)
		r.wants(c, "n1", "RolledBack")
		c.d.Send(c.d.dir.node(n.id).Process(), nodespkg.Message{Stream: nil, Message: nil}) // a nil stream: it panics
		r.pass(10 * time.Second)
		r.wants(c, "n1", "RolledBack")
		r.wants(c, "n2", "InSync")
		if pushes, _ := n.got(); pushes != 2 {
			t.Errorf("%d pushes", pushes)
		}
		r.network(c, `{"envParams":{"B":"good"}}`)
		r.pass(time.Second)
		r.wants(c, "n1", "InSync")
	})
}

func TestAControllerThatWasAwayForAnHourUndoesNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.synced(c, "n1", "n2")
		r.stop("a")
		r.pass(time.Hour)
		c = r.start("a")
		for _, n := range r.nodes {
			n.connect(c)
		}
		r.pass(time.Minute)
		for name, n := range r.nodes {
			r.wants(c, name, "InSync")
			if pushes, _ := n.got(); pushes != 1 {
				t.Errorf("%s was pushed to %d times", name, pushes)
			}
		}
	})
}
