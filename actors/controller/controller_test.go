package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	nodespkg "edgespan/actors/controller/nodes"
	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/history"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
	"edgespan/config/link"
	"edgespan/config/operate"
	"edgespan/config/revision"
)

func TestANodeJoinsAndGetsItsConfig(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.network(c, `{"envParams":{"B":"2"}}`)
		n := r.node(c, "n1")
		r.pass(time.Second)
		r.wants(c, "n1", "in sync")
		pushes, md5 := n.got()
		want := r.doc(`{"sysParams":{"managedConfig":true},"envParams":{"A":"1","B":"2"}}`)
		if pushes != 1 || md5 != config.MD5(want) || n.pending != nil {
			t.Errorf("%d pushes, runs %s, pending %v", pushes, n.doc, n.pending)
		}
		if n.heard["link.Confirm"] != 1 || n.heard["link.Probe"] != 1 || n.heard["link.Managed"] != 1 {
			t.Errorf("heard %v", n.heard)
		}
	})
}

// nodes are some that are in sync.
func (r *rig) synced(c *Controller, names ...string) {
	r.Helper()
	for _, name := range names {
		r.node(c, name)
	}
	r.pass(time.Second)
	for _, name := range names {
		r.wants(c, name, "in sync")
	}
}

func TestOnlyNodesWhoseOwnConfigChangesHearOfIt(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.synced(c, "n1", "n2", "n3")
		r.write(c, operate.SetNodes{Overrides: r.doc(`{"n2":{"envParams":{"B":"own"}}}`)})
		r.network(c, `{"envParams":{"B":"all"}}`)
		r.pass(time.Second)
		for name, want := range map[string]int{"n1": 2, "n2": 2, "n3": 2} { // n2 by its own only
			if got, _ := r.nodes[name].got(); got != want {
				t.Errorf("%s was pushed to %d times, want %d", name, got, want)
			}
		}
		before := r.nodes["n1"].heard["link.Number"] + r.nodes["n3"].heard["link.Number"]
		r.write(c, operate.SetNodes{Overrides: r.doc(`{"n2":{"envParams":{"C":"own"}}}`), Modify: true})
		r.pass(time.Minute)
		if got, _ := r.nodes["n2"].got(); got != 3 {
			t.Errorf("n2 was pushed to %d times", got)
		}
		if after := r.nodes["n1"].heard["link.Number"] + r.nodes["n3"].heard["link.Number"]; after != before || len(r.nodes["n1"].pushes) != 2 {
			t.Error("another node heard of it")
		}
		rollouts, err := c.Rollouts(r.Context())
		if err != nil || len(rollouts) != 3 || rollouts[0].Nodes != 1 || rollouts[1].Nodes != 2 || rollouts[0].State != "done" || rollouts[1].Acked != 2 {
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
				r.wants(c, "n1", "failed")
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
				r.wants(c, "n1", "in sync")
				r.network(c, `{"envParams":{"B":"bad"}}`) // it is remembered
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
		r.wants(c, "n1", "waiting")
		r.network(c, `{"envParams":{"B":"2"}}`) // a change begins the interval anew
		r.pass(time.Second)
		if pushes, _ := n.got(); pushes != 3 {
			t.Errorf("%d pushes after a change", pushes)
		}
		n.mu.Lock()
		n.silent = false
		n.mu.Unlock()
		r.pass(5 * time.Minute)
		r.wants(c, "n1", "in sync")
	})
}

// A push that goes down with the stream of its node is made again on the next one, whichever
// replica that is to.
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
				r.wants(r.replicas[next], "n1", "waiting")
				r.pass(10 * time.Second)
				r.wants(r.replicas[next], "n1", "in sync")
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
		r.write(c, operate.SetNodes{Overrides: r.doc(`{"n1":{"sysParams":{"managedConfig":false}}}`)})
		n.connect(c)
		r.network(c, `{"envParams":{"B":"2"}}`)
		r.pass(time.Hour)
		r.wants(c, "n1", "unmanaged")
		if pushes, _ := n.got(); pushes != 0 || n.managed == nil || *n.managed {
			t.Errorf("%d pushes, told %v", pushes, n.managed)
		}
		r.write(c, operate.Unset{Layer: layers.Node, Keys: [][]string{{"n1"}}})
		r.pass(time.Second)
		r.wants(c, "n1", "in sync")
	})
}

func TestAHeldNodeIsReleased(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.synced(c, "n1")
		n := r.nodes["n1"]
		n.mu.Lock()
		n.held = &link.Held{By: "bob", Since: time.Now()}
		n.mu.Unlock()
		r.pass(6 * time.Second)
		r.network(c, `{"envParams":{"B":"2"}}`)
		r.pass(time.Hour)
		r.wants(c, "n1", "held locally")
		if err := c.Command(r.Context(), alice, "n1", fleetapi.Release); err != nil {
			t.Error(err)
		}
		r.pass(time.Second)
		r.wants(c, "n1", "in sync")
	})
}

func TestUnknownHardwareIsAskedAndLearnt(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		for _, name := range []string{"n1", "n2", "n3"} {
			n := r.join(c, name)
			n.board, n.base = "board-9", `{"base":{"RELEASE_M20":{"sysParams":{"managedConfig":true},"envParams":{"L":1.0}}},"hardware":{"RELEASE_M20":{"envParams":{"HW":"9"}}}}`
			if name == "n1" {
				n.base = "broken"
			}
			n.connect(c)
		}
		r.pass(time.Second)
		r.wants(c, "n1", "hardware")
		asked := 0
		for _, n := range r.nodes {
			asked += n.heard["link.Ask"]
			if pushes, _ := n.got(); pushes != 0 {
				t.Errorf("%s was pushed to", n.name)
			}
		}
		if asked != 1 {
			t.Errorf("nodes of one board were asked %d times at once", asked)
		}
		r.pass(10 * time.Minute)
		for _, n := range r.nodes { // what a node told counts for nobody yet
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
		for _, other := range []string{"", all[1].Digest} { // one that was made after somebody looked
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
			r.wants(c, name, "in sync")
			if _, md5 := n.got(); md5 != want {
				t.Errorf("%s runs %s", name, n.doc)
			}
		}
		if err := c.RejectHardware(r.Context(), alice, "board-9", ""); err != nil { // the other one
			t.Error(err)
		}
		r.stop("a")
		if page, _ := r.store.List(r.Context(), history.InProposed, revision.ListOptions{}); len(page.Entries) != 0 {
			t.Error("proposals are stored for good")
		}
		c = r.start("a")
		if all, err = c.Hardware(r.Context()); err != nil || len(all) != 1 || all[0].By != "alice" {
			t.Errorf("after a restart: %+v, %v", all, err)
		}
		r.nodes["n1"].connect(c)
		r.pass(10 * time.Second)
		r.wants(c, "n1", "in sync")
		if err := c.ForgetHardware(r.Context(), alice, "board-9"); err != nil {
			t.Error(err)
		}
		r.pass(10 * time.Second)
		if all, err = c.Hardware(r.Context()); err != nil || len(all) != 0 {
			t.Errorf("after it was forgotten: %+v, %v", all, err)
		}
	})
}

// TestWhatNodesProposeIsBounded has hostile nodes answer with much, and often.
func TestWhatNodesProposeIsBounded(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		big := `{"base":{"RELEASE_M20":{"envParams":{"A":"` + strings.Repeat("x", proposalBytes-100) + `"}}}}`
		const nodes = mostProposals + 6
		for i := range nodes {
			n := r.join(c, fmt.Sprintf("n%d", i))
			n.board, n.base = fmt.Sprintf("board-%d", i), big
			if i == 0 {
				n.base += strings.Repeat(" ", 200) // too much by itself
			}
			n.connect(c)
		}
		r.pass(10 * time.Minute) // each is asked a few times
		all, err := c.Hardware(r.Context())
		total := 0
		for _, h := range all {
			total += h.Bytes
			if h.Node == "n0" {
				t.Error("a proposal of more than its limit is kept")
			}
		}
		if err != nil || len(all) < 30 || len(all) > mostProposals || total > allProposalBytes {
			t.Errorf("%d proposals of %d bytes, %v", len(all), total, err)
		}
		page, _ := r.store.List(r.Context(), history.InProposed, revision.ListOptions{})
		if len(page.Entries) != len(all) {
			t.Errorf("the store has %d of %d", len(page.Entries), len(all))
		}
	})
}

// TestTheMetadataOfABoardIsNoRuleForOthers accepts a board whose node calls a key an integer.
func TestTheMetadataOfABoardIsNoRuleForOthers(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.node(c, "plain")
		n := r.join(c, "odd")
		n.board, n.base = "board-9", `{"base":{"RELEASE_M20":{"sysParams":{"managedConfig":true}}},"metadata":{"anything":{"type":"INTEGER","desc":"x","action":"NO_ACTION"}}}`
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
		r.wants(c, "odd", "in sync")
		write := func(node string) error {
			_, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice, Write: operate.SetNodes{Overrides: config.Object{node: r.doc(`{"anything":"text"}`)}}})
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
				r.wants(c, "n1", "needs adoption")
				if err := c.Command(r.Context(), alice, "n1", what); err != nil {
					t.Fatal(err)
				}
				r.pass(time.Second)
				r.wants(c, "n1", "in sync")
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
		r.wants(c, "n1", "faulty layers")
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
		r.wants(c, "n1", "in sync")
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
		r.wants(c, "n1", "failed")
		c.d.Send(c.d.dir.node(n.id).Process(), nodespkg.Said{Stream: nil, Word: nil}) // a nil stream: it panics
		r.pass(10 * time.Second)
		r.wants(c, "n1", "failed")
		r.wants(c, "n2", "in sync")
		if pushes, _ := n.got(); pushes != 2 {
			t.Errorf("%d pushes", pushes)
		}
		r.network(c, `{"envParams":{"B":"good"}}`)
		r.pass(time.Second)
		r.wants(c, "n1", "in sync")
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
			r.wants(c, name, "in sync")
			if pushes, _ := n.got(); pushes != 1 {
				t.Errorf("%s was pushed to %d times", name, pushes)
			}
		}
	})
}

func TestANodeGoesToAnotherReplica(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		r.synced(a, "n1")
		n := r.nodes["n1"]
		r.wants(b, "n1", "elsewhere")
		n.mu.Lock()
		n.reject = "bad"
		n.mu.Unlock()
		r.network(b, `{"envParams":{"B":"bad"}}`)
		r.pass(time.Second)
		r.wants(a, "n1", "failed")
		if err := b.Command(r.Context(), alice, "n1", fleetapi.Retry); err != nil { // by the mailbox
			t.Error(err)
		}
		r.pass(time.Second)
		if pushes, _ := n.got(); pushes != 3 {
			t.Errorf("%d pushes after a retry from the other replica", pushes)
		}
		n.connect(b)
		r.pass(10 * time.Second)
		r.wants(a, "n1", "elsewhere")
		r.wants(b, "n1", "failed")
		r.network(a, `{"envParams":{"B":"good"}}`)
		r.pass(time.Second)
		r.wants(b, "n1", "in sync")
		r.stop("b")
		r.pass(11 * time.Second)
		r.wants(a, "n1", "offline")
		n.connect(a)
		r.pass(6 * time.Second)
		r.wants(a, "n1", "in sync")
		if pushes, _ := n.got(); pushes != 4 {
			t.Errorf("%d pushes", pushes)
		}
	})
}

func TestADeadReplicasNodesAreOfflineAfterItsLease(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		r.synced(a, "n1")
		r.wants(b, "n1", "elsewhere")
		a.cancel() // it ends without a word, but for its lease: so that is kept from it
		r.store.mu.Lock()
		r.store.fault = errors.New("cut off")
		r.store.mu.Unlock()
		time.Sleep(time.Second)
		r.store.mu.Lock()
		r.store.fault = nil
		r.store.mu.Unlock()
		r.pass(storage.LeaseTTL + 2*time.Second)
		r.wants(b, "n1", "offline")
	})
}

func TestJoin(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		inv, err := c.Invite(r.Context(), alice, "n1", time.Hour, false)
		if err != nil || !strings.Contains(inv.Command, inv.Token) {
			t.Fatal(inv, err)
		}
		r.pass(time.Second)
		r.wants(c, "n1", "not joined")
		n := newFakeNode(r, "n1")
		j := link.Join{Token: inv.Token, Name: "n1", Node: n.id, Key: "k"}
		for what, bad := range map[string]link.Join{
			"a wrong token":        {Token: "no", Name: "n1", Node: n.id, Key: "k"},
			"another name's token": {Token: inv.Token, Name: "n2", Node: n.id, Key: "k"},
			"no name, wrong token": {Token: "no", Node: n.id, Key: "k"},
		} {
			if refusal(c.Join(r.Context(), bad)) == nil {
				t.Error(what, "was taken")
			}
		}
		for range 2 { // the second time for a lost answer
			if err := refusal(c.Join(r.Context(), j)); err != nil {
				t.Fatal(err)
			}
		}
		j.Name = "" // the token's is meant
		if joined, err := c.Join(r.Context(), j); joined.Name != "n1" || err != nil {
			t.Error("without a name:", joined, err)
		}
		j.Key = "another"
		if refusal(c.Join(r.Context(), j)) == nil {
			t.Error("a token was spent twice")
		}
		inv, err = c.Invite(r.Context(), alice, "n2", 0, false)
		if left := time.Until(inv.Expires); err != nil || left < 23*time.Hour || left > 24*time.Hour {
			r.Errorf("an invitation without a time: %+v, %v", inv, err)
		}
		if refusal(c.Join(r.Context(), link.Join{Token: inv.Token, Name: "n2", Node: n.id, Key: "k"})) == nil {
			t.Error("a node got a second name")
		}
		if _, err := c.Invite(r.Context(), alice, "n1", time.Hour, false); !errors.Is(err, fleetapi.ErrRefused) {
			t.Error("a second node was invited for a name:", err)
		}
		n.connect(c)
		r.pass(time.Second)
		r.wants(c, "n1", "in sync")
		inv, err = c.Invite(r.Context(), alice, "n1", time.Hour, true)
		if err != nil {
			t.Fatal(err)
		}
		r.pass(time.Second)
		if n.stream != nil || len(r.issuer.revoked) != 1 || r.issuer.revoked[0].Node != n.id {
			t.Errorf("a replaced node is connected, or not revoked: %v", r.issuer.revoked)
		}
		if c.Admit(r.Context(), link.Hello{Node: n.id}) == nil {
			t.Error("a replaced node was admitted")
		}
		other := newFakeNode(r, "n1b")
		if err := refusal(c.Join(r.Context(), link.Join{Token: inv.Token, Name: "n1", Node: other.id, Key: "k"})); err != nil {
			t.Fatal(err)
		}
		other.connect(c)
		r.pass(time.Second)
		r.wants(c, "n1", "in sync")
		if err := c.Command(r.Context(), alice, "n1", fleetapi.Forget); err != nil {
			t.Error(err)
		}
		r.pass(time.Second)
		if _, err := c.Node(r.Context(), "n1"); err == nil || other.stream != nil {
			t.Error("a forgotten node is known:", err)
		}
	})
}

// TestTheSameMachineJoinsAgain has a node with a copied key replaced by itself: its revocation
// stays, and lets the certificates of the new join through, also where an answer is lost.
func TestTheSameMachineJoinsAgain(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		n := r.node(c, "n1")
		again := func(invite func() (fleetapi.Invitation, error)) link.Joined {
			t.Helper()
			inv, err := invite()
			if err != nil {
				t.Fatal(err)
			}
			if n.stream != nil {
				n.cut()
			}
			var out link.Joined
			for i := range 2 { // the second time for a lost answer
				joined, err := c.Join(r.Context(), link.Join{Token: inv.Token, Name: "n1", Node: n.id, Key: inv.Token})
				if err != nil || joined.Joining == "" || i > 0 && joined != out {
					t.Fatalf("joined %+v, before %+v: %v", joined, out, err)
				}
				out = joined
				// The answer is only given once the list in force here knows the join.
				if list := r.issuer.revoked; len(list) != 1 || list[0].Node != n.id || list[0].Joining != out.Joining {
					t.Errorf("revocations in force when the node hears %+v: %+v", out, list)
				}
			}
			n.connect(c)
			r.pass(time.Second)
			r.wants(c, "n1", "in sync")
			return out
		}
		first := again(func() (fleetapi.Invitation, error) { return c.Invite(r.Context(), alice, "n1", time.Hour, true) })
		second := again(func() (fleetapi.Invitation, error) {
			if err := c.Command(r.Context(), alice, "n1", fleetapi.Forget); err != nil {
				t.Fatal(err)
			}
			return c.Invite(r.Context(), alice, "n1", time.Hour, false)
		})
		if first.Joining == second.Joining {
			t.Error("two joins are the same")
		}
	})
}

// TestAJoinWithoutANameIsNoReadOfTheStore asks by tokens that nobody made, as anybody may.
func TestAJoinWithoutANameIsNoReadOfTheStore(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		ask := func(token string) error {
			return refusal(c.Join(r.Context(), link.Join{Token: token, Node: uuid.NewString(), Key: "k"}))
		}
		for i := range 300 {
			inv, err := c.Invite(r.Context(), alice, fmt.Sprintf("n%d", i), time.Hour, false)
			if err != nil {
				t.Fatal(err)
			}
			if i%100 == 0 { // before the watch of the store has told it
				if err := ask(inv.Token); err != nil {
					t.Fatal(err)
				}
				r.pass(2 * time.Second)
			}
		}
		r.pass(2 * time.Second)
		before := r.store.lists.Load()
		for i := range 1000 {
			if ask(fmt.Sprintf("esj-guess-%d", i)) == nil {
				t.Fatal("a guess joined")
			}
		}
		if n := r.store.lists.Load() - before; n > 1 {
			t.Errorf("1,000 joins without a name listed the store %d times", n)
		}
		inv, err := c.Invite(r.Context(), alice, "late", time.Hour, false)
		if err != nil {
			t.Fatal(err)
		}
		r.pass(time.Millisecond)
		if err := ask(inv.Token); err != nil { // while others are guessing
			t.Error(err)
		}
		r.pass(time.Second)
	})
}

// TestAnAdministratorStays has two replicas remove the last two administrators at once, and
// counts none whose token has expired.
func TestAnAdministratorStays(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		soon := time.Now().Add(time.Minute)
		for name, expires := range map[string]*time.Time{"ann": nil, "bea": nil, "old": &soon} {
			if _, err := a.AddOperator(r.Context(), alice, fleetapi.OperatorToken{Name: name, Role: fleetapi.Admin, Expires: expires}); err != nil {
				t.Fatal(err)
			}
		}
		r.pass(time.Hour)
		errs := make(chan error, 2)
		for c, name := range map[*Controller]string{a: "ann", b: "bea"} {
			go func() { errs <- c.RemoveOperator(r.Context(), alice, name) }()
		}
		r.pass(time.Second)
		if one, two := <-errs, <-errs; (one == nil) == (two == nil) {
			t.Errorf("both: %v, %v", one, two)
		}
		left, err := a.Operators(r.Context())
		if err != nil || len(left) != 2 {
			t.Fatalf("%+v, %v", left, err)
		}
		for _, t1 := range left {
			if t1.Name != "old" {
				if err := b.RemoveOperator(r.Context(), alice, t1.Name); !errors.Is(err, fleetapi.ErrRefused) {
					t.Errorf("beside an expired token the last administrator: %v", err)
				}
			}
		}
	})
}

func TestOperatorsAreKnownByTheirTokens(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		text, err := a.AddOperator(r.Context(), alice, fleetapi.OperatorToken{Name: "bob", Role: fleetapi.Viewer})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*Controller{a, b} {
			who, err := c.Authenticate(r.Context(), hashText(text))
			if err != nil || who != (fleetapi.Caller{Name: "bob", Role: fleetapi.Viewer}) {
				t.Error(who, err)
			}
		}
		for name, says := range map[string]string{"controller": `name: "controller" is reserved`, "local": `name: "local" is reserved`, "": "name: required"} {
			_, err := a.AddOperator(r.Context(), alice, fleetapi.OperatorToken{Name: name, Role: fleetapi.Admin})
			if !errors.Is(err, fleetapi.ErrRefused) || !strings.Contains(err.Error(), says) {
				t.Errorf("a token named %q: %v", name, err)
			}
		}
		if err := b.RemoveOperator(r.Context(), fleetapi.Caller{Role: fleetapi.Operator}, "bob"); err != nil {
			t.Error(err)
		}
		r.pass(time.Second)
		for _, c := range []*Controller{a, b} {
			if _, err := c.Authenticate(r.Context(), hashText(text)); !errors.Is(err, fleetapi.ErrNoToken) {
				t.Error("a removed token opens:", err)
			}
		}
	})
}

func TestARenameIsSeenWhole(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		topology := `{"name":"t","sites":[{"name":"s","location":{"latitude":0,"longitude":0,"altitude":0}}],"nodes":[{"name":"n1","node_type":2,"mac_addr":"00:00:00:00:00:01","pop_node":true,"site_name":"s","wlan_mac_addrs":[]}],"links":[]}`
		r.write(c, operate.SetTopology{Document: r.doc(topology)})
		r.write(c, operate.SetNodes{Overrides: r.doc(`{"n1":{"envParams":{"B":"own"}}}`)})
		r.synced(c, "n1")
		n := r.nodes["n1"]
		pushes, _ := n.got()
		r.write(c, operate.EditTopology{Object: "node", Op: "rename", Name: "n1", To: "n9"})
		r.pass(time.Minute)
		r.wants(c, "n9", "in sync")
		if again, _ := n.got(); again != pushes+1 {
			t.Errorf("a rename pushed %d times: %s", again-pushes, n.doc)
		}
		for _, p := range n.pushes { // not once without its own layer, or another name's facts
			if doc := string(p.Document); !strings.Contains(doc, `"own"`) {
				t.Errorf("it was pushed %s", doc)
			}
		}
		if _, err := c.Node(r.Context(), "n1"); err == nil {
			t.Error("the old name is known")
		}
	})
}

func TestAPreviewAsksTheNodesOfAllReplicas(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		r.synced(a, "n1")
		r.synced(b, "n2")
		r.join(a, "n3")
		p, err := a.Preview(r.Context(), fleetapi.WriteRequest{Caller: alice, Write: operate.SetNodes{Overrides: r.doc(
			`{"n1":{"envParams":{"B":"1"}},"n2":{"envParams":{"B":"1"}}}`)}})
		if err != nil || len(p.Nodes) != 2 || p.Nodes["n1"].State != "pending" || p.Complete {
			t.Fatalf("%+v, %v", p, err)
		}
		r.pass(time.Second)
		for _, c := range []*Controller{a, b} {
			p, err = c.PreviewResult(r.Context(), p.ID)
			if err != nil || !p.Complete || p.Nodes["n2"].State != "answered" || p.Nodes["n2"].Actions[0].Name != "RELOAD_FIREWALL" {
				t.Errorf("%+v, %v", p, err)
			}
		}
		r.pass(2 * time.Minute)
		if _, err = a.PreviewResult(r.Context(), p.ID); err == nil {
			t.Error("a preview is kept for more than a minute")
		}
		s := a.d.settings()
		s.Preview = 5 * time.Minute
		a.Set(s)
		if p, err = a.Preview(r.Context(), fleetapi.WriteRequest{Caller: alice, Write: operate.SetNodes{Overrides: r.doc(
			`{"n1":{"envParams":{"B":"1"}}}`)}}); err != nil {
			t.Fatal(err)
		}
		r.pass(4 * time.Minute)
		if later, err := b.PreviewResult(r.Context(), p.ID); err != nil || !later.Complete {
			t.Errorf("kept for five minutes, after four: %+v, %v", later, err)
		}
		r.pass(2 * time.Minute)
		if _, err = a.PreviewResult(r.Context(), p.ID); err == nil || !strings.Contains(err.Error(), "5m0s") {
			t.Errorf("kept for five minutes, after six: %v", err)
		}
		if pushes, _ := r.nodes["n1"].got(); pushes != 1 {
			t.Error("a preview pushed")
		}
	})
}

func TestWritesMeetAtTheHead(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		done := make(chan error, 20)
		for i := range 20 {
			c := a
			if i%2 == 1 {
				c = b
			}
			go func() {
				_, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice, Write: operate.SetNetwork{
					Overrides: config.Object{"envParams": config.Object{string(rune('a' + i)): "1"}}, Modify: true,
				}})
				done <- err
			}()
		}
		for range 20 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		editions, err := a.History(r.Context(), fleetapi.HistoryQuery{})
		if err != nil || len(editions) != 20 || editions[0].Author != "alice" || editions[0].Layers[0] != "network" {
			t.Errorf("%d editions, %v", len(editions), err)
		}
		_, err = b.Write(r.Context(), fleetapi.WriteRequest{
			Caller: alice, Write: operate.SetNetwork{Overrides: config.Object{}},
			IfMatch: map[history.Layer]uint64{{Kind: history.Network}: 3},
		})
		var conflicts history.Conflicts
		if !errors.As(err, &conflicts) || conflicts[0].By.Number != 20 {
			t.Error("a write that was bound to an old revision:", err)
		}
		w, err := b.Write(r.Context(), fleetapi.WriteRequest{Caller: alice, DryRun: true, Write: operate.SetNetwork{Overrides: config.Object{}}})
		if err != nil || !w.Changed || !w.DryRun || w.Revision != 20 {
			t.Errorf("a dry run: %+v, %v", w, err)
		}
	})
}

func TestAReplicaThatLostItsLeaseSaysAgainWhoseStreamsItHas(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		r.synced(a, "n1")
		if err := r.store.Revoke(r.Context(), a.d.LeaseID()); err != nil {
			t.Fatal(err)
		}
		r.pass(storage.LeaseTTL)
		r.wants(a, "n1", "in sync")
		r.wants(b, "n1", "elsewhere")
	})
}

func TestTheEndOfAStreamIsToldOnceTheStoreTakesIt(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		r.synced(a, "n1")
		fail := func(err error) {
			r.store.mu.Lock()
			defer r.store.mu.Unlock()
			r.store.fault = err
		}
		fail(errors.New("no store"))
		r.nodes["n1"].cut()
		r.pass(2 * time.Second)
		fail(nil)
		r.pass(5 * time.Second)
		r.wants(a, "n1", "offline")
		r.wants(b, "n1", "offline")
	})
}

func TestAStoreThatFailsForAWhileLosesNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.synced(c, "n1", "n2")
		fail := func(err error) {
			r.store.mu.Lock()
			defer r.store.mu.Unlock()
			r.store.fault = err
		}
		r.nodes["n2"].cut()
		synctest.Wait()
		n := r.nodes["n1"]
		n.mu.Lock()
		n.reject = "bad"
		n.mu.Unlock()
		if _, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice, Write: operate.SetNetwork{Overrides: r.doc(`{"envParams":{"B":"bad"}}`)}}); err != nil {
			t.Fatal(err)
		}
		fail(errors.New("no store")) // before what follows is stored
		r.nodes["n2"].connect(c)
		if _, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice, Write: operate.SetNetwork{Overrides: config.Object{}}}); err == nil {
			t.Error("a write without a store was accepted")
		}
		if c.Ready(r.Context()) == nil {
			t.Error("it is ready without a store")
		}
		r.pass(30 * time.Second)
		fail(nil)
		r.pass(time.Minute)
		r.wants(c, "n1", "failed")
		r.wants(c, "n2", "in sync")
		if len(n.last) > 0 {
			t.Error("an answer was not acknowledged")
		}
		r.network(c, `{"envParams":{"B":"good"}}`)
		r.pass(time.Second)
		r.wants(c, "n1", "in sync")
		r.wants(c, "n2", "in sync")
	})
}

// refusing is a store that does not take some keys.
type refusing struct {
	storage.Store
	prefix string
	err    atomic.Pointer[error]
}

func (s *refusing) Commit(ctx context.Context, t revision.Txn) (revision.Outcome, error) {
	if err := s.err.Load(); err != nil {
		for _, op := range t.Then {
			if op.Kind == revision.OpPut && strings.HasPrefix(string(op.Key), s.prefix) {
				return revision.Outcome{}, *err
			}
		}
	}
	return s.Store.Commit(ctx, t)
}

// A proposal that the store did not take is none: nobody is shown it, and its node is asked again.
func TestAProposalThatIsNotStoredBlocksNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		s := &refusing{Store: r.store, prefix: string(history.InProposed)}
		full := fmt.Errorf("commit: %w", revision.ErrFull)
		s.err.Store(&full)
		r.change = func(o *Options) { o.Store = s }
		c := r.start("a")
		n := r.join(c, "n1")
		n.board, n.base = "board-9", `{"base":{"RELEASE_M20":{"sysParams":{"managedConfig":true,"factsEnvironment":7},"envParams":{"T":"<&>"}}}}`
		n.connect(c)
		r.pass(10 * time.Minute)
		if all, err := c.Hardware(r.Context()); err != nil || len(all) > 0 {
			t.Fatalf("it is shown: %+v, %v", all, err)
		}
		s.err.Store(nil)
		r.pass(10 * time.Minute)
		all, err := c.Hardware(r.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("it is not asked again: %+v, %v", all, err)
		}
		if err := c.AcceptHardware(r.Context(), alice, "board-9", "n1", all[0].Digest); err != nil {
			t.Error(err)
		}
		r.pass(10 * time.Minute)
		if env, err := c.FactsEnvironment(r.Context(), n.id); err != nil || env != 7 {
			t.Errorf("its environment of ConfigDB is %d, %v", env, err)
		}
		r.network(c, `{"sysParams":{"factsEnvironment":0}}`)
		r.pass(10 * time.Second)
		if env, err := c.FactsEnvironment(r.Context(), n.id); err != nil || env != 0 {
			t.Errorf("after a change it is %d, %v", env, err)
		}
		if env, err := c.FactsEnvironment(r.Context(), "nobody"); err != nil || env != 0 {
			t.Errorf("that of nobody is %d, %v", env, err)
		}
	})
}
