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

	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

func TestANodeGoesToAnotherReplica(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		r.synced(a, "n1")
		n := r.nodes["n1"]
		r.wants(b, "n1", "OtherReplica")
		n.mu.Lock()
		n.reject = "bad"
		n.mu.Unlock()
		r.network(b, `{"envParams":{"B":"bad"}}`)
		r.pass(time.Second)
		r.wants(a, "n1", "RolledBack")
		if err := b.Command(r.Context(), alice, "n1", fleetapi.Retry); err != nil { // through the outbox
			t.Error(err)
		}
		r.pass(time.Second)
		if pushes, _ := n.got(); pushes != 3 {
			t.Errorf("%d pushes after a retry from the other replica", pushes)
		}
		n.connect(b)
		r.pass(10 * time.Second)
		r.wants(a, "n1", "OtherReplica")
		r.wants(b, "n1", "RolledBack")
		r.network(a, `{"envParams":{"B":"good"}}`)
		r.pass(time.Second)
		r.wants(b, "n1", "InSync")
		r.stop("b")
		r.pass(11 * time.Second)
		r.wants(a, "n1", "Offline")
		n.connect(a)
		r.pass(6 * time.Second)
		r.wants(a, "n1", "InSync")
		if pushes, _ := n.got(); pushes != 4 {
			t.Errorf("%d pushes", pushes)
		}
	})
}

func TestADeadReplicasNodesAreOfflineAfterItsLease(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		r.synced(a, "n1")
		r.wants(b, "n1", "OtherReplica")
		a.cancel() // it ends without releasing its lease, so the release is blocked
		r.store.Fail(errors.New("cut off"))
		time.Sleep(time.Second)
		r.store.Fail(nil)
		r.pass(storage.LeaseTTL + 2*time.Second)
		r.wants(b, "n1", "Offline")
	})
}

func TestARenameIsSeenWhole(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		topology := `{"name":"t","sites":[{"name":"s","location":{"latitude":0,"longitude":0,"altitude":0}}],"nodes":[{"name":"n1","node_type":2,"mac_addr":"00:00:00:00:00:01","pop_node":true,"site_name":"s","wlan_mac_addrs":[]}],"links":[]}`
		r.write(c, ops.SetTopology{Document: r.doc(topology)})
		r.write(c, ops.SetNodes{Overrides: r.doc(`{"n1":{"envParams":{"B":"own"}}}`)})
		r.synced(c, "n1")
		n := r.nodes["n1"]
		pushes, _ := n.got()
		r.write(c, ops.EditTopology{Object: "node", Op: "rename", Name: "n1", To: "n9"})
		r.pass(time.Minute)
		r.wants(c, "n9", "InSync")
		if again, _ := n.got(); again != pushes+1 {
			t.Errorf("a rename pushed %d times: %s", again-pushes, n.doc)
		}
		for _, p := range n.pushes { // never without its own layer, or with another name's facts
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
		p, err := a.Preview(r.Context(), fleetapi.WriteRequest{Caller: alice, Write: ops.SetNodes{Overrides: r.doc(
			`{"n1":{"envParams":{"B":"1"}},"n2":{"envParams":{"B":"1"}}}`)}})
		if err != nil || len(p.Nodes) != 2 || p.Nodes["n1"].State != "pending" || p.Complete {
			t.Fatalf("%+v, %v", p, err)
		}
		r.pass(time.Second)
		for _, c := range []*Controller{a, b} {
			p, err = c.PreviewResult(r.Context(), p.ID)
			if err != nil || !p.Complete || p.Nodes["n2"].State != "answered" ||
				p.Nodes["n2"].Actions[0].Name != "RELOAD_FIREWALL" {
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
		if p, err = a.Preview(r.Context(), fleetapi.WriteRequest{Caller: alice, Write: ops.SetNodes{Overrides: r.doc(
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
				_, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice, Write: ops.SetNetwork{
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
			Caller: alice, Write: ops.SetNetwork{Overrides: config.Object{}},
			IfMatch: map[history.Layer]uint64{{Kind: history.Network}: 3},
		})
		var conflicts history.Conflicts
		if !errors.As(err, &conflicts) || conflicts[0].By.Number != 20 {
			t.Error("a write that was bound to an old revision:", err)
		}
		w, err := b.Write(r.Context(),
			fleetapi.WriteRequest{Caller: alice, DryRun: true, Write: ops.SetNetwork{Overrides: config.Object{}}})
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
		r.wants(a, "n1", "InSync")
		r.wants(b, "n1", "OtherReplica")
	})
}

func TestTheEndOfAStreamIsToldOnceTheStoreTakesIt(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		r.synced(a, "n1")
		fail := func(err error) {
			r.store.Fail(err)
		}
		fail(errors.New("no store"))
		r.nodes["n1"].cut()
		r.pass(2 * time.Second)
		fail(nil)
		r.pass(5 * time.Second)
		r.wants(a, "n1", "Offline")
		r.wants(b, "n1", "Offline")
	})
}

func TestAStoreThatFailsForAWhileLosesNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.synced(c, "n1", "n2")
		fail := func(err error) {
			r.store.Fail(err)
		}
		r.nodes["n2"].cut()
		synctest.Wait()
		n := r.nodes["n1"]
		n.mu.Lock()
		n.reject = "bad"
		n.mu.Unlock()
		if _, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice,
			Write: ops.SetNetwork{Overrides: r.doc(`{"envParams":{"B":"bad"}}`)}}); err != nil {
			t.Fatal(err)
		}
		fail(errors.New("no store")) // before what follows is stored
		r.nodes["n2"].connect(c)
		if _, err := c.Write(r.Context(),
			fleetapi.WriteRequest{Caller: alice, Write: ops.SetNetwork{Overrides: config.Object{}}}); err == nil {
			t.Error("a write without a store was accepted")
		}
		if c.Ready(r.Context()) == nil {
			t.Error("it is ready without a store")
		}
		r.pass(30 * time.Second)
		fail(nil)
		r.pass(time.Minute)
		r.wants(c, "n1", "RolledBack")
		r.wants(c, "n2", "InSync")
		if len(n.last) > 0 {
			t.Error("an answer was not acknowledged")
		}
		r.network(c, `{"envParams":{"B":"good"}}`)
		r.pass(time.Second)
		r.wants(c, "n1", "InSync")
		r.wants(c, "n2", "InSync")
	})
}

// refusing is a store that refuses some keys.
type refusing struct {
	storage.Store
	prefix string
	err    atomic.Pointer[error]
}

func (s *refusing) Commit(ctx context.Context, t kv.Txn) (kv.TxnResult, error) {
	if err := s.err.Load(); err != nil {
		for _, op := range t.Then {
			if op.Kind == kv.OpPut && strings.HasPrefix(string(op.Key), s.prefix) {
				return kv.TxnResult{}, *err
			}
		}
	}
	return s.Store.Commit(ctx, t)
}

// A proposal that the store refused is none: the controller shows it to no one and queries the node again.
func TestAProposalThatIsNotStoredBlocksNothing(t *testing.T) {
	onRig(t, func(r *rig) {
		s := &refusing{Store: r.store, prefix: string(history.InProposed)}
		full := fmt.Errorf("commit: %w", kv.ErrFull)
		s.err.Store(&full)
		r.change = func(o *Options) { o.Store = s }
		c := r.start("a")
		n := r.join(c, "n1")
		n.board, n.base = "board-9",
			`{"base":{"RELEASE_M20":{"sysParams":{"managedConfig":true,"factsEnvironment":7},"envParams":{"T":"<&>"}}}}`
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
