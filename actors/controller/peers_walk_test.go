package controller

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/stateloop"
)

// stroll is a random history of peers on two replicas: edits, deployments, nodes that connect, leave, move, fail and
// get other addresses, and controllers that end.
type stroll struct {
	*rig
	rand *rand.Rand
	done []string
}

func (w *stroll) any() *Controller {
	for _, name := range []string{"a", "b"} {
		if c := w.replicas[name]; c != nil && (w.rand.IntN(2) == 0 || len(w.replicas) == 1) {
			return c
		}
	}
	return w.replicas["a"]
}

// try makes a write that may be refused in the current state.
func (w *stroll) try(write ops.Write) {
	_, err := w.any().Write(w.Context(), fleetapi.WriteRequest{Caller: alice, Write: write, Message: "walk"})
	w.done = append(w.done, fmt.Sprintf("%T %+v: %v", write, write, err))
}

func (w *stroll) document() string {
	names := []string{"a", "b", "c"}
	if w.rand.IntN(2) == 0 {
		more := []string{}
		if w.rand.IntN(2) == 0 {
			more = append(more, daemon)
		}
		return peerDoc(names[w.rand.IntN(3)], more...)
	}
	w.rand.Shuffle(3, func(i, j int) { names[i], names[j] = names[j], names[i] })
	return clusterDoc([]string{"star", "mesh"}[w.rand.IntN(2)], names[:2+w.rand.IntN(2)]...)
}

func (w *stroll) step() {
	name := []string{"a", "b", "c", "d"}[w.rand.IntN(4)]
	n := w.nodes[name]
	switch w.rand.IntN(10) {
	case 0, 1:
		w.try(ops.Describe{Documents: []config.Object{w.doc(w.document())}})
	case 2:
		w.try(ops.Deploy{Clusters: []string{"lab"}})
	case 3:
		w.try(ops.Undeploy{Clusters: []string{"lab"}})
	case 4:
		w.done = append(w.done, "cut "+name)
		n.cut()
	case 5:
		w.done = append(w.done, "connect "+name)
		_ = n.try(w.Context(), w.any())
	case 6: // it fails at a part that it has
		w.done = append(w.done, "stuck "+name)
		words := []stateloop.State{stateloop.RemovingFailed, stateloop.CreatingFailed, stateloop.WaitingForDependencies,
			stateloop.CheckPresentFailed}
		all := w.runs(name).Parameters
		n.mu.Lock()
		if n.stuck = map[string]string{}; len(all) > 0 {
			n.stuck[all[w.rand.IntN(len(all))].ID] = string(words[w.rand.IntN(len(words))])
		}
		n.untidy = w.rand.IntN(2) == 0
		n.mu.Unlock()
	case 7:
		if name != "d" {
			w.done = append(w.done, "address "+name)
			n.mu.Lock()
			n.ports = []nodeproto.Port{{Label: "wan0", Addresses: []string{fmt.Sprintf("198.51.100.%d", 1+w.rand.IntN(200))},
				MTU: 1400 + w.rand.IntN(100)}}
			n.mu.Unlock()
		}
	case 8:
		if len(w.replicas) == 2 {
			which := []string{"a", "b"}[w.rand.IntN(2)]
			w.done = append(w.done, "stop "+which)
			w.stop(which)
		}
	case 9:
		for _, which := range []string{"a", "b"} {
			if w.replicas[which] == nil {
				w.done = append(w.done, "start "+which)
				w.start(which)
			}
		}
	}
}

// Whatever happened: once all is quiet, each node is in sync with what follows from the final descriptors and
// addresses, and neither replica still expects anything of it that was once pushed and is gone from them.
func TestRandomHistoriesOfPeersEndAsDerived(t *testing.T) {
	walks := uint64(40)
	if testing.Short() {
		walks = 10
	}
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // as histories does
	for seed := range walks {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			onPeers(t, func(r *rig, _ *Controller) {
				r.stop("a")
				r.change = func(o *Options) { o.Shared = true }
				c := r.start("a")
				for _, n := range r.nodes {
					n.connect(c)
				}
				w := &stroll{rig: r, rand: rand.New(rand.NewPCG(seed, 7))}
				r.start("b")
				for range 40 {
					w.step()
					r.pass(time.Duration(w.rand.IntN(20)) * 500 * time.Millisecond)
				}
				for _, which := range []string{"a", "b"} {
					if r.replicas[which] == nil {
						r.start(which)
					}
				}
				for _, name := range []string{"a", "b", "c", "d"} {
					n := r.nodes[name]
					n.mu.Lock()
					n.stuck, n.untidy = nil, false
					n.mu.Unlock()
					if !n.online() {
						n.connect(w.any())
					}
				}
				r.pass(10 * time.Minute)
				pushes := map[string]int{}
				for name, n := range r.nodes {
					pushes[name], _ = n.got()
				}
				for _, c := range r.replicas {
					r.same(c)
				}
				r.pass(5 * time.Minute)
				r.counts(pushes)
				if t.Failed() {
					for _, line := range w.done {
						t.Log(line)
					}
				}
			})
		})
	}
}

// same checks the end on one replica.
func (r *rig) same(c *Controller) {
	r.Helper()
	for name, n := range r.nodes {
		if n.to == c {
			r.wants(c, name, "InSync")
		}
	}
	r.derived(c)
	all, err := c.Clusters(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	for _, one := range all {
		if want := map[bool]string{true: "deployed", false: "undeployed"}[one.Deployed]; one.State != want ||
			one.Ready != one.Deployed {
			r.Errorf("cluster %+v", one)
		}
	}
	peers, err := c.Peers(r.Context())
	if err != nil || len(peers) != 4 || slices.ContainsFunc(peers,
		func(p fleetapi.Peer) bool { return !p.Ready || p.Health != "green" || p.Desired != p.Applied }) {
		r.Errorf("%+v, %v", peers, err)
	}
}
