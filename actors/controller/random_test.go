package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
)

// histories returns how many random histories run. Meanwhile it has the garbage collector run less often: each history
// creates a few replicas, which are 2 MB of empty maps each and live only briefly.
func histories(t *testing.T, n int) int {
	t.Helper()
	before := debug.SetGCPercent(800)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	if text := os.Getenv("EDGESPAN_HISTORIES"); text != "" {
		more, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		return more
	}
	if testing.Short() {
		return n / 50
	}
	return n
}

// TestRandomHistories runs two replicas with random writes, nodes that answer at random, streams that break and move,
// and replicas that end and start. At the end, when all is quiet, every managed node runs what the model of its layers
// defines.
func TestRandomHistories(t *testing.T) {
	for i := range histories(t, 1000) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			onRig(t, func(r *rig) {
				r.change = func(o *Options) { o.Shared = i%2 == 0 }
				(&walk{rig: r, rand: rand.New(rand.NewPCG(uint64(i), 7))}).run()
			})
		})
	}
}

type walk struct {
	*rig
	rand    *rand.Rand
	network config.Object
	own     map[string]config.Object
	log     []string
}

var walkNodes = []string{"n0", "n1", "n2", "n3"}

func (w *walk) run() {
	w.own, w.network = map[string]config.Object{}, config.Object{}
	w.start("a")
	w.start("b")
	for _, name := range walkNodes {
		w.join(w.some(), name)
	}
	for range 5 + w.rand.IntN(25) {
		w.step()
	}
	w.quiet()
	w.check()
}

// some returns one of the running replicas.
func (w *walk) some() *Controller {
	for {
		if c := w.replicas[[]string{"a", "b"}[w.rand.IntN(2)]]; c != nil {
			return c
		}
	}
}

func (w *walk) node() *fakeNode { return w.nodes[walkNodes[w.rand.IntN(len(walkNodes))]] }

func (w *walk) step() {
	switch w.rand.IntN(12) {
	case 0, 1:
		w.writeNetwork()
	case 2, 3:
		w.writeNode()
	case 4, 5:
		n, c := w.node(), w.some()
		lost := w.rand.IntN(2) == 0
		w.note("connect %s to %s, lost %v", n.name, c.d.Replica, lost)
		if lost {
			n.lose()
		}
		n.connect(c)
	case 6:
		n := w.node()
		w.note("cut %s", n.name)
		if w.rand.IntN(2) == 0 {
			n.cut()
		} else {
			n.lose()
		}
	case 7:
		w.mood()
	case 8:
		w.restart()
	case 9:
		n, c := w.node(), w.some()
		what := []fleetapi.Command{fleetapi.Retry, fleetapi.Release, fleetapi.Confirm}[w.rand.IntN(3)]
		w.note("%s %s at %s", what, n.name, c.d.Replica)
		ctx, cancel := context.WithTimeout(w.Context(), 5*time.Second)
		_ = c.Command(ctx, alice, n.name, what) // it may be refused
		cancel()
	default:
		d := time.Duration(w.rand.IntN(200_000)) * time.Millisecond
		if w.rand.IntN(3) == 0 {
			d = time.Duration(w.rand.IntN(100)) * time.Microsecond
		}
		w.note("pass %v", d)
		time.Sleep(d)
	}
	if w.rand.IntN(2) == 0 {
		synctest.Wait()
	}
}

func (w *walk) note(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *walk) overrides() config.Object {
	env := config.Object{}
	for _, key := range []string{"A", "B", "C"} {
		if w.rand.IntN(2) == 0 {
			env[key] = []string{"x", "y", "bad"}[w.rand.IntN(3)]
		}
	}
	return config.Object{"envParams": env}
}

func (w *walk) put(c *Controller, x ops.Write) {
	w.Helper()
	if _, err := c.Write(w.Context(), fleetapi.WriteRequest{Caller: alice, Write: x}); err != nil {
		w.Fatalf("write: %v\n%v", err, w.log)
	}
}

func (w *walk) writeNetwork() {
	o, c := w.overrides(), w.some()
	w.note("network %v at %s", o, c.d.Replica)
	w.put(c, ops.SetNetwork{Overrides: o})
	w.network = o
}

func (w *walk) writeNode() {
	o, c, n := w.overrides(), w.some(), w.node()
	if w.rand.IntN(4) == 0 {
		o["sysParams"] = config.Object{"managedConfig": w.rand.IntN(2) == 0}
	}
	w.note("%s %v at %s", n.name, o, c.d.Replica)
	w.put(c, ops.SetNodes{Overrides: config.Object{n.name: o}})
	w.own[n.name] = o
}

// mood changes how a node reacts to pushes.
func (w *walk) mood() {
	n := w.node()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reject, n.unhealthy, n.silent = "", "", false
	switch w.rand.IntN(4) {
	case 0:
		n.reject = "bad"
	case 1:
		n.unhealthy = "bad"
	case 2:
		n.silent = true
	}
	w.note("mood of %s: rejects %q, unhealthy %q, silent %v", n.name, n.reject, n.unhealthy, n.silent)
}

// restart ends a replica, or starts one that is not running.
func (w *walk) restart() {
	for _, name := range []string{"a", "b"} {
		if w.replicas[name] == nil {
			w.note("start %s", name)
			w.start(name)
			return
		}
	}
	name := []string{"a", "b"}[w.rand.IntN(2)]
	w.note("stop %s", name)
	w.stop(name)
}

// quiet makes all nodes healthy and connected, and retries what failed.
func (w *walk) quiet() {
	for _, name := range []string{"a", "b"} {
		if w.replicas[name] == nil {
			w.start(name)
		}
	}
	w.settle()
	for _, name := range walkNodes {
		if err := w.some().Command(w.Context(), alice, name, fleetapi.Retry); err != nil {
			w.Errorf("retry %s: %v", name, err)
		}
	}
	w.pass(10 * time.Minute)
}

// settle has nodes connect until all stay connected. Of two streams that a node opens at the same moment, the one
// announced last counts. That may be the one that the node has left; then the newer is ended, and the node connects
// again, as a real one does.
func (w *walk) settle() {
	for range 3 {
		for _, name := range walkNodes {
			n := w.nodes[name]
			n.mu.Lock()
			n.reject, n.unhealthy, n.silent = "", "", false
			n.mu.Unlock()
			if !n.online() {
				n.connect(w.some())
			}
		}
		w.pass(time.Minute) // what was lost is noticed
		if w.online() {
			return
		}
	}
	w.Fatalf("a node that comes again and again is let stay nowhere\n%v", w.log)
}

// online reports whether every node has a stream.
func (w *walk) online() bool {
	for _, n := range w.nodes {
		if !n.online() {
			return false
		}
	}
	return true
}

func (w *walk) check() {
	for _, name := range walkNodes {
		n := w.nodes[name]
		base, _ := config.ParseObject([]byte(w.base.docs["RELEASE_M20"]))
		want, _ := layers.Set{layers.Base: base, layers.Network: w.network, layers.Node: w.own[name]}.Effective()
		managed := want["sysParams"].(config.Object)["managedConfig"] == true
		state, why := w.rig.state(n.to, name)
		if !managed {
			if state != string(fleet.Unmanaged) {
				w.Errorf("%s is %s\n%s", name, state, why)
			}
			continue
		}
		if _, md5 := n.got(); md5 != config.MD5(want) || state != string(fleet.InSync) || n.pending != nil {
			w.Errorf("%s is %s and runs\n%s\nwant\n%s\n%s", name, state, n.doc, config.AppendCanonical(nil, want), why)
		}
		var counted fleet.Counted
		e, _, _ := w.store.Get(w.Context(), history.GenerationKey(n.id))
		if err := json.Unmarshal(e.Value, &counted); err != nil || counted.Generation != n.generation ||
			counted.Digest.Config != n.md5 {
			w.Errorf("%s runs generation %s, the store counted %+v, %v", name, n.generation, counted, err)
		}
		for _, c := range w.replicas {
			if c != n.to {
				want := string(fleet.OtherReplica)
				if c.d.Shared {
					want = string(fleet.InSync)
				}
				w.wants(c, name, want)
			}
		}
		attempts := map[uint64]string{}
		for _, p := range n.pushes {
			if other, was := attempts[p.Attempt]; was && other != p.MD5 {
				w.Errorf("%s: attempt %d was two configs", name, p.Attempt)
			}
			attempts[p.Attempt] = p.MD5
		}
	}
	if w.Failed() {
		for _, line := range w.log {
			w.Log(line)
		}
	}
}
