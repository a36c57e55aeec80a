package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
	"edgespan/config/layers/metadata"
)

// townRun is a town whose nodes are connected to one controller, with a watch over the nodes that are down. A node is
// down from a push until it runs the pushed config or its previous one again.
type townRun struct {
	testing.TB
	town  *town
	store storage.Store
	c     *Controller
	nodes []*townNode
	takes time.Duration // from a push until the node has applied it

	bad     string // a text that makes a document unusable for every node …
	outcome nodeproto.PushOutcome
	spared  func(node int) bool // … except these

	mu      sync.Mutex
	down    []bool
	isDown  int
	limit   int          // nodes down at once
	grown   bool         // a node went down since the last check
	checks  int          // of the paths
	cut     string       // the first node to lose its last path, and when
	had     map[int]bool // nodes that were pushed the bad text
	pushes  int
	done    int // confirmed
	batches int // how often all were up again
}

// townFlags returns the controller's flags for batches of this size.
func townFlags(limit, canary int) map[string]string {
	return map[string]string{"config_rollout_batch_limit": fmt.Sprint(limit), "config_rollout_canary": fmt.Sprint(canary)}
}

// newTownRun starts a controller on a store that has the nodes of a town already, connects all of them, waits until
// they are in sync, and turns staged rollouts on.
func newTownRun(tb testing.TB, t *town, store storage.Store, flags map[string]string) *townRun {
	tb.Helper()
	r := &townRun{TB: tb, town: t, store: store, down: make([]bool, len(t.names)), had: map[int]bool{}}
	for from := 0; from < len(t.names); from += kv.MaxOps / 2 {
		var txn kv.Txn
		for i := from; i < min(from+kv.MaxOps/2, len(t.names)); i++ {
			txn.Then = append(txn.Then,
				kv.Put(history.NodeKey(t.ids[i]), storage.Encode(history.JoinedNode{ID: t.ids[i], Name: t.names[i]})),
				kv.Put(history.NameKey(t.names[i]), []byte(t.ids[i])))
		}
		if _, err := store.Commit(tb.Context(), txn); err != nil {
			tb.Fatal(err)
		}
	}
	var err error
	if r.c, err = Start(r.options("a", flags)); err != nil {
		tb.Fatal(err)
	}
	r.until("the store is read",
		func() bool { return r.c.Ready(tb.Context()) == nil && len(r.c.d.dir.handles()) == len(t.names) })
	for i := range t.names {
		n := &townNode{r: r, i: i, id: uint64(i + 1), md5: config.MD5(config.Object{})}
		r.nodes = append(r.nodes, n)
		h := nodeproto.Hello{Node: t.ids[i], Name: t.names[i], Software: "RELEASE_M20"}
		if err := r.c.Admit(tb.Context(), h); err != nil {
			tb.Fatal(err)
		}
		r.c.Connected(n, h)
		n.tell()
	}
	r.until("all are in sync", r.inSync)
	number := r.write(ops.SetTopology{Document: t.topology.Document()}) // the topology changes each node's config
	r.until("all have the topology", func() bool {
		all, err := r.c.Rollouts(tb.Context())
		return err == nil && slices.ContainsFunc(all,
			func(one fleetapi.Rollout) bool { return one.Revision == number && one.Acked == len(t.names) })
	})
	r.write(ops.SetE2E{File: ownFile,
		Config: config.Object{"flags": config.Object{"config_staged_rollout_enabled": "true"}}, Modify: true})
	r.until("somebody leads", func() bool {
		e, _, err := store.Get(tb.Context(), history.ElectionKey(storage.LeaderKeyName))
		return err == nil && e.Exists()
	})
	return r
}

func (r *townRun) options(replica string, flags map[string]string) Options {
	m, faults := metadata.Parse(config.Object{"flags": config.Object{"config_staged_rollout_enabled": config.Object{
		"type": "BOOLEAN", "action": "UPDATE_GFLAG", "sync": true, "desc": "x", "tag": "x",
	}}}, metadata.Options{E2E: true})
	if faults != nil {
		r.Fatal(faults)
	}
	return Options{
		Store: r.store, Elector: elector, Replica: replica, Metadata: testMetadata, Issuer: &issuer{},
		MaskKey: []byte("k"), Flags: flags,
		E2E: map[string]*metadata.Metadata{ownFile: m}, Base: &base{docs: map[string]string{"RELEASE_M20": bigBase()}},
		Settings: fleet.Defaults(replica),
	}
}

// until waits for a condition, ten minutes at most.
func (r *townRun) until(what string, match func() bool) {
	r.Helper()
	for at := time.Now(); !match(); time.Sleep(10 * time.Millisecond) {
		if time.Since(at) > 10*time.Minute {
			r.Fatalf("%s: not within 10 minutes: %d pushes, %d confirmed", what, r.pushes, r.confirmed())
		}
	}
}

func (r *townRun) write(w ops.Write) uint64 {
	r.Helper()
	for at := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		out, err := r.c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice, Write: w, Message: "test"})
		if err == nil {
			return out.Revision
		}
		if !errors.Is(err, fleetapi.ErrBusy) || time.Since(at) > time.Minute {
			r.Fatal(err)
		}
	}
}

// change writes the network layer, which changes the desired config of all nodes.
func (r *townRun) change(text string) uint64 {
	r.Helper()
	r.mu.Lock()
	r.pushes, r.done, r.limit, r.checks, r.batches, r.cut, r.grown = 0, 0, 0, 0, 0, "", false
	r.mu.Unlock()
	return r.write(ops.SetNetwork{Overrides: config.Object{"envParams": config.Object{"A": text}}})
}

// fails makes nodes end a push whose config contains the text with this outcome, except those that are spared.
func (r *townRun) fails(text string, outcome nodeproto.PushOutcome, spared func(node int) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bad, r.outcome, r.spared, r.had = text, outcome, spared, map[int]bool{}
}

func (r *townRun) confirmed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

// inSync reports whether the controller knows all nodes to be in sync.
func (r *townRun) inSync() bool {
	for _, s := range r.c.d.dir.handles() {
		if row := s.Row(); row == nil || row.Key.State != fleet.InSync {
			return false
		}
	}
	return true
}

// rollout returns the staged rollout of a revision, one with state "" if there is none yet.
func (r *townRun) rollout(revision uint64) fleetapi.RolloutDetail {
	r.Helper()
	d, err := r.c.ExplainRollout(r.Context(), revision)
	var missing *ops.NotFoundError
	if err != nil && !errors.As(err, &missing) {
		r.Fatal(err)
	}
	return d
}

// ends waits until a rollout is in a state.
func (r *townRun) ends(revision uint64, state string) fleetapi.RolloutDetail {
	r.Helper()
	var d fleetapi.RolloutDetail
	r.until("the rollout is "+state, func() bool {
		time.Sleep(50 * time.Millisecond) // each poll formats ten thousand names
		d = r.rollout(revision)
		return d.State == state
	})
	return d
}

func (r *townRun) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := r.c.Stop(ctx); err != nil {
		r.Error(err)
	}
}

// goes marks a node as down, comes as up again. Paths are checked when the first node returns: at no moment since were
// more nodes down.
func (r *townRun) goes(i int, document []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pushes++
	if r.bad != "" && contains(document, r.bad) {
		r.had[i] = true
	}
	if !r.down[i] {
		r.down[i], r.grown = true, true
		r.isDown++
		r.limit = max(r.limit, r.isDown)
	}
}

func (r *townRun) comes(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.down[i] {
		return
	}
	if r.grown {
		r.grown = false
		r.checks++
		if lost := r.town.cutOff(r.down); len(lost) > 0 && r.cut == "" {
			r.cut = fmt.Sprintf("%d nodes have lost their last path, %s is one, while %d are down", len(lost),
				r.town.names[lost[0]], r.isDown)
		}
	}
	r.down[i] = false
	if r.isDown--; r.isDown == 0 {
		r.batches++
	}
}

// townNode is one node of a town.
type townNode struct {
	r          *townRun
	i          int
	id         uint64
	mu         sync.Mutex
	md5        string
	generation nodeproto.Generation
	pending    bool
}

func (n *townNode) ID() uint64 { return n.id }
func (n *townNode) End(string) {}

func (n *townNode) say(m nodeproto.FromNode) { n.r.c.Received(n, m) }

// tell reports the node's state.
func (n *townNode) tell() {
	on := true
	m := nodeproto.Report{MD5: n.md5, Generation: n.generation, Software: "RELEASE_M20", Source: "controller",
		Managed: &on, Settled: true}
	if n.pending {
		m.Pending = &nodeproto.PendingReport{Generation: n.generation, Settled: true, Remaining: time.Minute}
	}
	n.say(m)
}

// Send receives a message from the controller.
func (n *townNode) Send(m nodeproto.FromController) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch m := m.(type) {
	case nodeproto.Push:
		n.r.goes(n.i, m.Document)
		n.say(nodeproto.Result{Attempt: m.Attempt, Generation: m.Generation, MD5: m.MD5, Outcome: nodeproto.Accepted})
		time.AfterFunc(n.r.takes, func() { n.did(m) })
	case nodeproto.Number:
		n.generation = m.Generation
		n.tell()
	case nodeproto.Probe:
		n.say(nodeproto.Probed{Number: m.Number, Generation: n.generation, MD5: n.md5})
	case nodeproto.Confirm:
		if n.pending {
			n.pending = false
			n.r.comes(n.i)
			n.r.mu.Lock()
			n.r.done++
			n.r.mu.Unlock()
		}
		n.tell()
	case nodeproto.Request:
		n.say(nodeproto.Answer{ID: m.ID, Data: []byte("{}")})
	}
	return nil
}

// did ends a push.
func (n *townNode) did(m nodeproto.Push) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r := n.r; r.bad != "" && contains(m.Document, r.bad) && (r.spared == nil || !r.spared(n.i)) {
		r.comes(n.i)
		n.say(nodeproto.Result{
			Attempt: m.Attempt, Generation: m.Generation, MD5: m.MD5, Outcome: r.outcome, Restored: n.generation,
			Faults: config.Faults{{Path: []string{"uplink"}, Problem: "is down"}},
		})
		n.tell()
		return
	}
	n.md5, n.generation, n.pending = m.MD5, m.Generation, true
	n.tell()
}
