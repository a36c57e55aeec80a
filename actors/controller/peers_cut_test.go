package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// mains is the power supply of a controller. Each write to the store and each message to or from a node is a step, and
// the power may fail at any of them. The store stays as that step found or left it, and the nodes keep running.
type mains struct {
	mu    sync.Mutex
	steps []string // since it was armed
	at    int      // the step, from 1, at which the power fails; 0: none
	after bool     // the step is done, but the controller does not hear of it
	cuts  int      // how often the power failed
	last  *powered
}

// powered is one controller life's connection to the store; it is cut when the power fails.
type powered struct {
	*severed
	mains *mains
}

// plug puts each further life of a controller on these mains.
func (m *mains) plug(r *rig) {
	r.change = func(o *Options) {
		m.last = &powered{&severed{memory: r.store}, m}
		o.Store = m.last
	}
	r.wire = m.wire
}

func (m *mains) arm(at int, after bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at, m.after, m.steps = at, after, nil
}

// disarm keeps the power on and returns the steps so far.
func (m *mains) disarm() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at = 0
	return m.steps
}

// step does one step of a controller life that has power.
func (p *powered) step(what string, do func()) {
	p.mains.mu.Lock()
	defer p.mains.mu.Unlock()
	if p.cut.Load() {
		return
	}
	p.mains.steps = append(p.mains.steps, what)
	ends := len(p.mains.steps) == p.mains.at
	if !ends || p.mains.after {
		do()
	}
	if ends {
		p.cut.Store(true)
		p.mains.cuts++
	}
}

func (p *powered) Commit(ctx context.Context, t kv.Txn) (o kv.TxnResult, err error) {
	if !t.Writes() {
		return p.severed.Commit(ctx, t)
	}
	var keys []string
	for _, op := range t.Then {
		keys = append(keys, string(op.Key))
	}
	p.step("commit "+strings.Join(keys, ", "), func() { o, err = p.severed.Commit(ctx, t) })
	if p.cut.Load() {
		return kv.TxnResult{}, errSevered
	}
	return o, err
}

// wire carries the messages of a living controller.
func (m *mains) wire(at *Controller, n *fakeNode, msg any, pass func()) {
	at.d.Store.(*powered).step(fmt.Sprintf("%s: %s", n.name, strings.TrimPrefix(fmt.Sprintf("%T", msg), "nodeproto.")),
		pass)
}

// turn is what an operator does to the cluster, and the state expected of the cluster afterwards.
type turn struct {
	name  string
	write func(*rig) ops.Write
	state string
}

var turns = []turn{
	{"deploy", func(*rig) ops.Write { return ops.Deploy{Clusters: []string{"lab"}} }, "deployed"},
	{"edit", func(r *rig) ops.Write {
		return ops.Describe{Documents: []config.Object{r.doc(clusterDoc("star", "b", "a", "c")), r.doc(peerDoc("c", daemon))}}
	}, "deployed"},
	{"undeploy", func(*rig) ops.Write { return ops.Undeploy{Clusters: []string{"lab"}} }, "undeployed"},
}

// result is what a change led to.
type result struct {
	steps []string
	cuts  int
	end   string // what the nodes run, the pushes of each generation, and the store's content
}

// powerTour makes the changes up to one in which the power fails at a step.
func powerTour(t *testing.T, name string, at int, after bool) (out result) {
	onRig(t, func(r *rig) {
		m := &mains{}
		m.plug(r)
		r.peered()
		for _, c := range turns {
			here := c.name == name
			if m.arm(0, false); here {
				m.arm(at, after)
			}
			r.bring(m, c)
			if here {
				out = result{m.disarm(), m.cuts, ""}
				r.pass(150 * time.Second) // the next push would be due by then
				out.end = r.ends()
				r.agrees(r.replicas["a"])
				r.cluster(r.replicas["a"], c.state, c.state == "deployed")
				return
			}
		}
	})
	return out
}

// bring makes one change, as an operator who retries when no answer came, with a controller that restarts where its
// power fails.
func (r *rig) bring(m *mains, c turn) {
	r.Helper()
	done := false
	for range 60 {
		if m.last.cut.Load() {
			r.stop("a")
			again := r.start("a")
			for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
				r.nodes[name].connect(again)
			}
			r.pass(time.Second)
		}
		if !done {
			_, err := r.replicas["a"].Write(r.Context(),
				fleetapi.WriteRequest{Caller: alice, Write: c.write(r), Message: c.name})
			done = err == nil && !m.last.cut.Load() // a controller without power has not answered
			if err != nil && !m.last.cut.Load() {
				r.Errorf("%s: %v", c.name, err)
			}
		}
		r.pass(time.Second)
		all, err := r.replicas["a"].Clusters(r.Context())
		if err == nil && done && !m.last.cut.Load() && len(all) == 1 && all[0].State == c.state &&
			all[0].Ready == (c.state == "deployed") {
			return
		}
	}
	r.Errorf("%s does not come to its end", c.name)
}

// ends describes the final state as text.
func (r *rig) ends() string {
	r.Helper()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.nodes)) {
		n := r.nodes[name]
		fmt.Fprintf(&b, "%s runs %s: %s %s\n", name, n.generation, n.doc, n.peer)
		for _, p := range n.pushes {
			fmt.Fprintf(&b, "%s was pushed %s: %s\n", name, p.Generation, p.MD5)
		}
	}
	all, err := r.replicas["a"].History(r.Context(), fleetapi.HistoryQuery{})
	if err != nil {
		r.Error(err)
	}
	for _, e := range all {
		fmt.Fprintf(&b, "revision %d: %s\n", e.Number, e.Message)
	}
	page, err := r.store.List(r.Context(), "", kv.ListOptions{})
	if err != nil || page.More {
		r.Error(err)
	}
	for _, e := range page.Entries {
		if history.InFormats.Has(e.Key) {
			continue // the leader notes there once that no layer needed migrating
		}
		fmt.Fprintf(&b, "key %s\n", e.Key)
	}
	return b.String()
}

// The power of a controller fails before and right after each step of a rollout to three peers, that is each write to
// the store and each message to or from a node, while a cluster is deployed, edited and removed. The outcome is always
// the same as without the failure: the same revisions, numbers of tunnels, generations and keys in the store, and no
// node is pushed a generation twice.
func TestAPowerCutAtEveryStepOfADeployRepeatsNothing(t *testing.T) {
	every := 1
	if testing.Short() {
		every = 13
	}
	tours, cuts := 0, 0
	for _, c := range turns {
		clean := powerTour(t, c.name, 0, false)
		t.Logf("%s: %d steps", c.name, len(clean.steps))
		for i := every; i <= 2*len(clean.steps); i += every {
			at, after := (i+1)/2, i%2 == 0
			tours++
			t.Run(fmt.Sprintf("%s/%d/%v", c.name, at, map[bool]string{false: "before", true: "after"}[after]),
				func(t *testing.T) {
					got := powerTour(t, c.name, at, after)
					if t.Logf("at %s", got.steps[min(at, len(got.steps))-1]); got.end != clean.end {
						t.Errorf("it ends otherwise (-want +got):\n%s", cmp.Diff(clean.end, got.end))
					}
					cuts += got.cuts
				})
		}
	}
	if t.Logf("%d power cuts", cuts); cuts < tours*9/10 { // whether a report is there when all is done varies
		t.Errorf("in %d tours the power went %d times", tours, cuts)
	}
}
