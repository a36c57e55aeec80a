package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"edgespan/config"
	"edgespan/config/layers"
)

// host is a node that accepts pushes: it settles, and is confirmed or undoes the push.
type host struct {
	digest, before Digest
	generation     Generation
	pending        Generation
	versions       layers.Versions
	managed        *bool
	settled, deaf  bool // deaf to probes, so that nothing is confirmed
	attempt        uint64
	undo           time.Time
	bad            map[Digest]bool // it rejects these
	rejected       map[Digest]bool // it did
}

// world is a controller with 20 nodes and its store.
type world struct {
	t      *rapid.T
	now    time.Time
	fleet  *DesiredConfigs
	query  *Queries
	nodes  map[string]*Node
	hosts  map[string]*host
	pushes map[string][]Push
	at     map[string]time.Time
	asked  map[string][]time.Time // by node and by board
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, now: noon, query: NewQueries(Defaults("")), nodes: map[string]*Node{}, hosts: map[string]*host{},
		pushes: map[string][]Push{}, at: map[string]time.Time{}, asked: map[string][]time.Time{},
		fleet: tiny(t, `{"sysParams": {"managedConfig": true}}`),
	}
	for i := range 20 {
		name := fmt.Sprintf("n%02d", i)
		v := layers.Versions{Software: "EDGESPAN-1-0-0", Board: []string{"b1", "b1", "x1", "x2"}[i%4]}
		w.nodes[name] = New(name, Memory{}, Defaults("me"))
		w.hosts[name] = &host{digest: Digest{Config: "first"}, versions: v, bad: map[Digest]bool{},
			rejected: map[Digest]bool{}}
		w.step(name, Known{Joined: true})
		w.step(name, Connected{"1", "me"})
	}
	return w
}

// step gives an event to one node and carries out its effects.
func (w *world) step(name string, e Event) {
	for _, effect := range w.nodes[name].Step(w.now, e) {
		w.effect(name, effect)
	}
}

func (w *world) effect(name string, effect Effect) {
	h := w.hosts[name]
	switch effect := effect.(type) {
	case Push:
		w.push(name, h, effect)
	case SetManaged:
		h.managed = &effect.Managed
	case Probe:
		if h.deaf {
			return
		}
		w.step(name, Answered{Stream: "1", Probe: effect.Probe, Generation: h.generation, Digest: h.digest})
	case Confirm:
		if effect.Generation == h.generation {
			h.pending = Generation{}
		}
	case Compare:
		w.step(name, Compared{effect.Desired, effect.Running, nil})
	case Compute:
		w.put(name)
	case RequestBaseConfig:
		granted, next := w.query.Allow(w.now, name, effect.Board)
		if granted {
			w.grant(name, w.query.node)
			w.grant(effect.Board, w.query.board)
		}
		w.step(name, Asked{granted, next})
	}
}

func (w *world) grant(of string, limit time.Duration) {
	if last := w.asked[of]; len(last) > 0 && w.now.Sub(last[len(last)-1]) < limit {
		w.t.Fatalf("%s is asked %v after it was", of, w.now.Sub(last[len(last)-1]))
	}
	w.asked[of] = append(w.asked[of], w.now)
}

func (w *world) push(name string, h *host, p Push) {
	if !p.Whole {
		h.generation = p.Generation
		return
	}
	if last := w.pushes[name]; len(last) > 0 && last[len(last)-1].Digest == p.Digest &&
		w.now.Sub(w.at[name]) < 2*time.Minute {
		w.t.Fatalf("%s is pushed %s twice within %v", name, p.Digest, w.now.Sub(w.at[name]))
	}
	if h.rejected[p.Digest] {
		w.t.Fatalf("%s is pushed %s, which it rejected", name, p.Digest)
	}
	w.pushes[name], w.at[name] = append(w.pushes[name], p), w.now
	if h.rejected[p.Digest] = h.bad[p.Digest]; h.rejected[p.Digest] {
		w.step(name, Rejected{p.Attempt, p.Digest, "x"})
		return
	}
	if h.pending == (Generation{}) {
		h.before = h.digest
	}
	h.attempt = p.Attempt
	h.digest, h.generation, h.pending, h.settled, h.undo = p.Digest, p.Generation, p.Generation, false,
		w.now.Add(p.Confirm)
	w.step(name, Acked{p.Attempt})
}

// put computes a node's desired config, and the layers of its kind if they are unknown.
func (w *world) put(name string) {
	v := w.hosts[name].versions
	if k, set := w.fleet.Kind(v); !set {
		w.tell(w.fleet.SetKind(k, parse(`{"sysParams": {"managedConfig": true}, "board": "`+v.Board+`"}`), nil, nil))
	}
	own := config.Object{}
	if s, has := w.fleet.Layers(name); has {
		own = s[layers.Node]
	}
	w.tell(w.fleet.Put(name, v, nil, own, Counted{}))
}

// tell gives touched nodes their desired configs, and no others.
func (w *world) tell(touched []Touched, err error) []string {
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, n := range touched {
		names = append(names, n.Node)
		w.step(n.Node, n.Desired)
	}
	return names
}

// report lets a node proceed and report.
func (w *world) report(name string) {
	h := w.hosts[name]
	if h.pending != (Generation{}) && !w.now.Before(h.undo) {
		w.step(name, Undone{h.attempt, h.digest, Unconfirmed, ""})
		h.digest, h.generation, h.pending, w.at[name] = h.before, Generation{Authority: "j", Counter: h.attempt},
			Generation{}, w.now
	}
	delete(h.rejected, h.digest) // it runs it after all
	r := ReportReceived{Stream: "1", Digest: h.digest, Generation: h.generation, Versions: h.versions, Managed: h.managed}
	if h.pending != (Generation{}) {
		r.Pending = &PendingConfig{Generation: h.pending, Settled: h.settled, Remaining: h.undo.Sub(w.now)}
		h.settled = true
	}
	w.step(name, r)
}

// learn is the answer of a queried node.
func (w *world) learn(board string) {
	h := w.fleet.hardware
	learnt := map[string]layers.Library{board: {Base: []string{"EDGESPAN_1"}}}
	for b, l := range h.Learnt {
		learnt[b] = l
	}
	h.Learnt = learnt
	for _, name := range w.fleet.SetHardware(h) {
		w.put(name)
	}
}

func (w *world) random() {
	name := fmt.Sprintf("n%02d", rapid.IntRange(0, 19).Draw(w.t, "node"))
	value := fmt.Sprintf(`{"x": %d}`, rapid.IntRange(0, 5).Draw(w.t, "value"))
	switch rapid.IntRange(0, 9).Draw(w.t, "what") {
	case 0:
		w.tell(w.fleet.SetNetwork(parse(value)))
	case 1:
		if s, has := w.fleet.Layers(name); has {
			v := w.hosts[name].versions
			touched := w.tell(w.fleet.Put(name, v, s[layers.Auto], parse(value), Counted{}))
			if slices.ContainsFunc(touched, func(n string) bool { return n != name }) {
				w.t.Fatalf("an override of %s touches %q", name, touched)
			}
		}
	case 2:
		w.hosts[name].bad[w.nodes[name].desired.Digest] = true
	case 3:
		w.learn([]string{"x1", "x2"}[rapid.IntRange(0, 1).Draw(w.t, "board")])
	case 4:
		w.now = w.now.Add(time.Minute)
		for n := range w.nodes {
			w.step(n, Tick{})
		}
	case 6:
		w.hosts[name].deaf = !w.hosts[name].deaf
	case 5: // the node's config is lost
		w.hosts[name].digest, w.hosts[name].pending = Digest{}, Generation{}
	default:
		w.now = w.now.Add(5 * time.Second)
		for i := range 20 {
			w.report(fmt.Sprintf("n%02d", i))
		}
	}
}

// Whatever happens to 20 nodes, the limits hold. In the end every node that can accept its desired config has it, and
// nothing more is sent.
func TestPropertyAFleetConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			w.random()
		}
		w.learn("x1")
		w.learn("x2")
		for _, h := range w.hosts {
			h.deaf = false
		}
		for range 60 {
			w.now = w.now.Add(5 * time.Second)
			for i := range 20 {
				name := fmt.Sprintf("n%02d", i)
				w.step(name, Tick{})
				w.report(name)
			}
		}
		for name, n := range w.nodes {
			state := n.State(w.now)
			if failed := w.hosts[name].rejected[n.desired.Digest]; state != InSync && !(failed && state == RolledBack) {
				t.Fatalf("%s: %q", name, n.Explain(w.now))
			}
			h := w.hosts[name]
			r := ReportReceived{Stream: "1", Digest: h.digest, Generation: h.generation, Versions: h.versions,
				Managed: h.managed}
			if effects := n.Step(w.now, r); effects != nil {
				t.Fatalf("%s is %s, and still: %s", name, state, tell(effects, w.now))
			}
		}
	})
}
