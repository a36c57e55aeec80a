package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	nodespkg "edgespan/actors/controller/nodes"
	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// The leader is killed: its lease ends after 2 s, and the other replica continues within 3 s.
func TestTheLeaderDiesInTheMiddleOfARollout(t *testing.T) {
	for _, at := range []time.Duration{0, 50 * time.Millisecond, 110 * time.Millisecond, 150 * time.Millisecond,
		time.Second} {
		t.Run(at.String(), func(t *testing.T) {
			onStaged(t, func(r *rig) {
				led := &severed{memory: newMemory()}
				r.store = led.memory
				r.change = func(o *Options) {
					o.Flags = map[string]string{"config_staged_rollout_enabled": "true", "config_rollout_stages": "50"}
					if o.Replica == "a" {
						o.Store = led
					}
				}
				r.start("a")
				r.pass(time.Second)
				b := r.start("b")
				r.fleetOf(b, 5)
				r.network(b, `{"envParams":{"B":"one"}}`)
				time.Sleep(at)
				led.cut.Store(true) // nothing from a reaches the store any more, and no one is notified
				if at < time.Second {
					r.pass(3 * time.Second)
				}
				if got := r.had("one"); got == "" {
					t.Errorf("nobody has it 3 s later:\n%s", decisions(r.newest(b)))
				}
				r.pass(5 * time.Second)
				d := r.is(b, "done", "one", "n0 n1 n2 n3 n4")
				if at < 100*time.Millisecond && !strings.Contains(decisions(d), "revision") {
					t.Error(decisions(d))
				}
			})
		})
	}
}

func TestARolloutGoesOnUnderAnotherLeaderAsItWas(t *testing.T) {
	onStaged(t, func(r *rig) {
		led := &severed{memory: newMemory()}
		r.store = led.memory
		r.change = func(o *Options) {
			o.Flags = map[string]string{"config_staged_rollout_enabled": "true", "config_rollout_stages": "50"}
			if o.Replica == "a" {
				o.Store = led
			}
		}
		r.start("a")
		r.pass(time.Second)
		b := r.start("b")
		r.fleetOf(b, 5)
		r.behave("n1", silent)
		r.behave("n2", silent)
		r.network(b, `{"envParams":{"B":"one"}}`)
		r.pass(time.Second)
		n := r.is(b, "running", "one", "n0 n1 n2").Revision
		r.rollout(b, n, fleetapi.PauseRollout)
		led.cut.Store(true)
		r.pass(3 * time.Second)
		r.is(b, "paused", "one", "n0 n1 n2")
		r.behave("n1", speaks)
		r.behave("n2", speaks)
		r.pass(time.Minute)
		r.is(b, "paused", "one", "n0 n1 n2")
		r.rollout(b, n, fleetapi.ResumeRollout)
		r.pass(time.Second)
		d := r.is(b, "done", "one", "n0 n1 n2 n3 n4")
		if len(d.Batches) != 3 || !strings.Contains(decisions(d), "replica b leads") {
			t.Error(decisions(d))
		}
	})
}

// ringOf is a topology of nodes in a ring. The first and the fourth are points of presence; the last one hangs off the
// second.
func ringOf(names []string) (doc string, links [][2]string) {
	ring := names[:len(names)-1]
	for i, name := range ring {
		links = append(links, [2]string{name, ring[(i+1)%len(ring)]})
	}
	links = append(links, [2]string{names[1], names[len(names)-1]})
	var nodes, sites, texts []string
	for i, name := range names {
		nodes = append(nodes,
			fmt.Sprintf(`{"name":%q,"site_name":"s-%s","node_type":2,"pop_node":%t,"mac_addr":"00:00:00:00:00:%02x"}`, name,
				name, i%3 == 0 && i < 6, i+1))
		sites = append(sites, fmt.Sprintf(`{"name":"s-%s","latitude":1,"longitude":1,"altitude":1}`, name))
	}
	for _, l := range links {
		a, z := min(l[0], l[1]), max(l[0], l[1])
		texts = append(texts,
			fmt.Sprintf(`{"name":"link-%s-%s","a_node_name":%q,"z_node_name":%q,"link_type":2,"is_alive":true}`, a, z, a, z))
	}
	return fmt.Sprintf(`{"name":"t","nodes":[%s],"sites":[%s],"links":[%s]}`, strings.Join(nodes, ","),
		strings.Join(sites, ","), strings.Join(texts, ",")), links
}

// wayOut returns the nodes that have a path to a point of presence while others are down.
func wayOut(names []string, links [][2]string, down map[string]bool) map[string]bool {
	up := map[string]bool{names[0]: !down[names[0]], names[3]: !down[names[3]]}
	for range names {
		for _, l := range links {
			for _, ends := range [][2]string{l, {l[1], l[0]}} {
				if up[ends[0]] && !down[ends[1]] {
					up[ends[1]] = true
				}
			}
		}
	}
	return up
}

// The seed: batches protect "against network-wide service disruption and network isolation". Nodes are slow, so that
// each batch is seen. At any time each node outside the batch has a path to a point of presence, except n6 while n1,
// its only neighbour, is out.
func TestNoNodeOutsideOfTheBatchIsIsolated(t *testing.T) {
	onStaged(t, func(r *rig) {
		c := r.start("a")
		names := r.fleetOf(c, 7)
		doc, links := ringOf(names)
		r.write(c, ops.SetTopology{Document: r.doc(doc)})
		r.pass(time.Minute)
		for _, name := range names {
			r.wants(c, name, "InSync")
			r.behave(name, func(n *fakeNode) { n.silent, n.pushes = true, nil })
		}
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Second)
		limit, rounds := 0, 0
		for ; r.newest(c).State != "done" && rounds < 200; rounds++ {
			r.pass(time.Second)
			down := map[string]bool{}
			for name, n := range r.nodes {
				n.mu.Lock()
				if n.pending != nil {
					down[name] = true
				}
				n.mu.Unlock()
			}
			limit = max(limit, len(down))
			up := wayOut(names, links, down)
			for _, name := range names {
				if !up[name] && !down[name] && (name != names[6] || !down[names[1]]) {
					t.Fatalf("%s has no way out while %v are out\n%s", name, down, decisions(r.newest(c)))
				}
			}
			if rounds%5 == 4 {
				for _, name := range names {
					if down[name] {
						r.behave(name, speaks)
						break
					}
				}
			}
		}
		d := r.is(c, "done", "one", "n0 n1 n2 n3 n4 n5 n6")
		if len(d.Batches) < 3 || limit == 0 || limit == len(names) {
			t.Errorf("%d out at most, %+v\n%s", limit, d.Batches, decisions(d))
		}
	})
}

// A leader's clock may be years off: the times it stored are no deadlines for the next leader.
func TestTheClockOfTheLeaderBeforeDoesNotMatter(t *testing.T) {
	for _, jump := range []time.Duration{-10 * 365 * 24 * time.Hour, 10 * 365 * 24 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			onStaged(t, func(r *rig) {
				led := &severed{memory: newMemory()}
				r.store = led.memory
				inner := r.change
				r.change = func(o *Options) {
					if inner(o); o.Replica == "a" {
						o.Store = led
					}
				}
				r.start("a")
				r.pass(time.Second)
				b := r.start("b")
				r.fleetOf(b, 3)
				r.behave("n0", silent)
				r.network(b, `{"envParams":{"B":"one"}}`)
				r.pass(time.Second)
				n := r.is(b, "running", "one", "n0").Revision
				led.cut.Store(true)
				e, _, _ := r.store.Get(r.Context(), staged.RolloutKey(n))
				s := storage.ValueOf[staged.RolloutRecord](kv.Event{Kind: kv.EventPut, Entry: e})
				s.Began = s.Began.Add(jump)
				for i := range s.Decisions {
					s.Decisions[i].At = s.Decisions[i].At.Add(jump)
				}
				if _, err := r.store.Commit(r.Context(), kv.Txn{Then: []kv.Op{kv.Put(e.Key, storage.Encode(s))}}); err != nil {
					t.Fatal(err)
				}
				r.pass(100 * time.Second)
				r.is(b, "running", "one", "n0")
				r.behave("n0", speaks)
				r.pass(time.Minute)
				r.is(b, "done", "one", "n0 n1 n2")
			})
		})
	}
}

// The leader that takes over waits for the batch no longer than the time of one batch.
func TestASilentBatchFailsUnderTheNextLeaderToo(t *testing.T) {
	onStaged(t, func(r *rig) {
		c := r.start("a")
		r.fleetOf(c, 3)
		r.behave("n0", silent)
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Minute)
		r.stop("a")
		c = r.start("b")
		for _, name := range []string{"n1", "n2"} { // n0 stays away
			r.nodes[name].connect(c)
		}
		r.pass(170 * time.Second)
		r.is(c, "running", "one", "n0")
		r.pass(15 * time.Second)
		r.is(c, "halted", "one", "n0")
	})
}

// After a crash the actor of a node learns its gate before it learns the node's desired config.
func TestACrashOpensNoGate(t *testing.T) {
	onStaged(t, func(r *rig) {
		c := r.start("a")
		r.fleetOf(c, 3)
		r.behave("n0", silent)
		c.d.Send(c.d.dir.nodeByName("n1").Process(), nodespkg.Message{}) // no stream: it panics
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Minute)
		r.is(c, "running", "one", "n0")
		r.wants(c, "n1", "Pending")
	})
}

// A leader that was replaced without noticing writes nothing: each of its writes compares the election.
func TestALeaderThatWasReplacedWritesNothing(t *testing.T) {
	onStaged(t, func(r *rig) {
		led := &severed{memory: newMemory()}
		r.store = led.memory
		inner := r.change
		r.change = func(o *Options) {
			if inner(o); o.Replica == "a" {
				o.Store = led
			}
		}
		r.start("a")
		r.pass(time.Second)
		b := r.start("b")
		r.fleetOf(b, 4)
		led.stubborn.Store(true)
		r.pass(3 * time.Second)
		if e, _, _ := r.store.Get(r.Context(), "elections/leader"); string(e.Value) != "b" {
			t.Fatalf("%s leads", e.Value)
		}
		for _, text := range []string{"one", "two"} {
			r.network(b, `{"envParams":{"B":"`+text+`"}}`)
			r.pass(10 * time.Second)
			r.is(b, "done", text, "n0 n1 n2 n3")
		}
		if done, refused := led.done.Load(), led.refused.Load(); done != 0 || refused == 0 {
			t.Errorf("the one before wrote %d times, and was kept from it %d times", done, refused)
		}
		for name, n := range r.nodes {
			if pushes, _ := n.got(); pushes != 2 {
				t.Errorf("%s was pushed to %d times", name, pushes)
			}
		}
		led.stubborn.Store(false)
	})
}
