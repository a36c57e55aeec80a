package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nodespkg "edgespan/actors/controller/nodes"
	"edgespan/actors/controller/rollouts"
	"edgespan/actors/controller/storage"
	"edgespan/config/history"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/link"
	"edgespan/config/metadata"
	"edgespan/config/operate"
	"edgespan/config/revision"
)

// onStaged runs a test on a fake clock with staged rollouts on: a canary, half of the rest, and
// all.
func onStaged(t *testing.T, f func(*rig)) {
	t.Helper()
	onRig(t, func(r *rig) {
		r.change = func(o *Options) {
			o.Flags = map[string]string{"config_staged_rollout_enabled": "true", "config_rollout_stages": "50"}
		}
		f(r)
	})
}

// fleetOf are nodes n0, n1 … that are in sync.
func (r *rig) fleetOf(c *Controller, size int) []string {
	r.Helper()
	var names []string
	for i := range size {
		names = append(names, fmt.Sprintf("n%d", i))
		r.node(c, names[i])
	}
	r.pass(10 * time.Second)
	for _, name := range names {
		r.wants(c, name, "in sync")
		r.nodes[name].mu.Lock()
		r.nodes[name].pushes = nil
		r.nodes[name].mu.Unlock()
	}
	return names
}

// behave changes how a node takes what is pushed.
func (r *rig) behave(name string, f func(*fakeNode)) {
	n := r.nodes[name]
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n)
}

// had are the nodes that a text was pushed to.
func (r *rig) had(text string) string {
	var out []string
	for name, n := range r.nodes {
		n.mu.Lock()
		for _, p := range n.pushes {
			if contains(p.Document, text) {
				out = append(out, name)
				break
			}
		}
		n.mu.Unlock()
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// newest is the newest staged rollout.
func (r *rig) newest(c *Controller) fleetapi.RolloutDetail {
	r.Helper()
	all, err := c.Rollouts(r.Context())
	all = slices.DeleteFunc(all, func(r fleetapi.Rollout) bool { return !r.Staged })
	if err != nil || len(all) == 0 {
		r.Fatalf("rollouts %v, %v", all, err)
	}
	d, err := c.ExplainRollout(r.Context(), all[0].Revision)
	if err != nil {
		r.Fatal(err)
	}
	return d
}

// is complains unless the newest rollout is in a state, and the text has been pushed to these.
func (r *rig) is(c *Controller, state, text, had string) fleetapi.RolloutDetail {
	r.Helper()
	d := r.newest(c)
	if d.State != state {
		r.Errorf("rollout %d is %s, want %s: %+v", d.Revision, d.State, state, d)
	}
	if got := r.had(text); got != had {
		r.Errorf("%s was pushed to %q, want %q\n%s", text, got, had, decisions(d))
	}
	return d
}

func decisions(d fleetapi.RolloutDetail) string {
	var out []string
	for _, v := range d.Decisions {
		out = append(out, fmt.Sprintf("%s %s: %s (%s)", v.At.Format("15:04:05.000"), v.What, v.Why, v.By))
	}
	return strings.Join(append(out, "next: "+d.Next), "\n")
}

func (r *rig) rollout(c *Controller, number uint64, what fleetapi.RolloutCommand) {
	r.Helper()
	if err := c.CommandRollout(r.Context(), alice, number, what); err != nil {
		r.Errorf("%s: %v", what, err)
	}
	synctest.Wait()
}

func silent(n *fakeNode) { n.silent = true }
func speaks(n *fakeNode) { n.silent = false }

// The seed, "Staged Rollout": each sub-test is a row of docs/seeds.md.
func TestSeed_StagedRolloutOfTheController(t *testing.T) {
	t.Run("TCM-R1", func(t *testing.T) { // "roll out configuration changes that affect multiple nodes in batches"
		onStaged(t, func(r *rig) {
			c := r.start("a")
			r.fleetOf(c, 5)
			for _, name := range []string{"n0", "n1"} {
				r.behave(name, silent)
			}
			r.network(c, `{"envParams":{"B":"one"}}`)
			r.pass(20 * time.Second)
			r.is(c, "running", "one", "n0")
			r.behave("n0", speaks)
			r.pass(40 * time.Second)
			r.is(c, "running", "one", "n0 n1 n2")
			r.behave("n1", speaks)
			r.pass(40 * time.Second)
			d := r.is(c, "done", "one", "n0 n1 n2 n3 n4")
			if len(d.Batches) != 3 || d.Acked != 5 || d.Batches[1] != (fleetapi.RolloutBatch{Number: 2, Nodes: 2, Acked: 2}) {
				t.Errorf("%+v", d)
			}
		})
	})
	t.Run("TCM-R3", func(t *testing.T) { // "by default, all config updates to nodes are sent simultaneously"
		onRig(t, func(r *rig) {
			r.change = func(o *Options) { o.E2E = map[string]*metadata.Metadata{ownFile: rolloutMetadata(t)} }
			c := r.start("a")
			r.fleetOf(c, 5)
			for name := range r.nodes {
				r.behave(name, silent)
			}
			r.network(c, `{"envParams":{"B":"one"}}`)
			r.pass(time.Second)
			if got := r.had("one"); got != "n0 n1 n2 n3 n4" {
				t.Errorf("off: was pushed to %s", got)
			}
			if page, err := r.store.List(r.Context(), history.InRollouts, revision.ListOptions{}); err != nil || len(page.Entries) > 0 {
				t.Errorf("there is a staged rollout: %v, %v", page, err)
			}
			for name := range r.nodes {
				r.behave(name, speaks)
			}
			r.pass(3 * time.Minute)
			r.flag(c, "true")
			r.pass(3 * time.Second)
			r.behave("n0", silent)
			r.network(c, `{"envParams":{"B":"two"}}`)
			r.pass(time.Second)
			r.is(c, "running", "two", "n0")
			r.flag(c, "false")
			r.pass(time.Second)
			if got := r.had("two"); got != "n0 n1 n2 n3 n4" {
				t.Errorf("off again: was pushed to %s", got)
			}
			r.is(c, "released", "two", "n0 n1 n2 n3 n4")
		})
	})
	t.Run("TCM-R4", func(t *testing.T) { // "but will delay the propagation of configuration changes"
		onStaged(t, func(r *rig) {
			r.change = func(o *Options) {
				o.Flags = map[string]string{"config_staged_rollout_enabled": "true", "config_rollout_stages": "50", "config_rollout_rest_s": "60"}
			}
			c := r.start("a")
			for i := range 3 {
				r.node(c, fmt.Sprintf("n%d", i))
			}
			r.pass(5 * time.Minute)
			r.network(c, `{"envParams":{"B":"one"}}`)
			r.pass(50 * time.Second)
			r.is(c, "running", "one", "n0")
			r.pass(30 * time.Second)
			r.is(c, "running", "one", "n0 n1")
			r.pass(time.Minute)
			r.is(c, "done", "one", "n0 n1 n2")
		})
	})
}

// rolloutMetadata describes the flag of staged rollouts.
func rolloutMetadata(t *testing.T) *metadata.Metadata {
	t.Helper()
	doc := `{"flags": {"config_staged_rollout_enabled": {"type": "BOOLEAN", "action": "UPDATE_GFLAG", "sync": true, "desc": "x", "tag": "x"}}}`
	m, faults := metadata.Parse((&rig{T: t}).doc(doc), metadata.Options{E2E: true})
	if faults != nil {
		t.Fatal(faults)
	}
	return m
}

// flag switches staged rollouts.
func (r *rig) flag(c *Controller, to string) {
	r.Helper()
	r.write(c, operate.SetE2E{File: ownFile, Config: r.doc(`{"flags":{"config_staged_rollout_enabled":"` + to + `"}}`), Modify: true})
}

func TestABadConfigStopsAtTheCanary(t *testing.T) {
	for how, set := range map[string]func(*fakeNode){
		"rejected": func(n *fakeNode) { n.reject = "bad" }, "unhealthy": func(n *fakeNode) { n.unhealthy = "bad" }, "silent": silent,
	} {
		t.Run(how, func(t *testing.T) {
			onStaged(t, func(r *rig) {
				c := r.start("a")
				for _, name := range r.fleetOf(c, 5) {
					r.behave(name, set)
				}
				r.network(c, `{"envParams":{"B":"bad"}}`)
				r.pass(time.Hour)
				d := r.is(c, "halted", "bad", "n0")
				if d.Failed["n0"] == "" || len(d.Waiting) != 4 || !strings.Contains(decisions(d), "halted") {
					t.Errorf("%+v", d)
				}
				for name := range r.nodes {
					r.behave(name, func(n *fakeNode) { n.silent, n.pushes = false, nil })
				}
				r.network(c, `{"envParams":{"B":"good"}}`) // another change is another chance
				r.pass(time.Minute)
				r.is(c, "done", "good", "n0 n1 n2 n3 n4")
				if got := r.had("bad"); got != "" {
					t.Errorf("the bad one went on to %s", got)
				}
			})
		})
	}
}

func TestARolloutIsPausedResumedAndAborted(t *testing.T) {
	onStaged(t, func(r *rig) {
		c := r.start("a")
		r.fleetOf(c, 5)
		r.behave("n0", silent)
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Second)
		n := r.is(c, "running", "one", "n0").Revision
		r.rollout(c, n, fleetapi.PauseRollout)
		r.behave("n0", speaks)
		r.pass(time.Hour)
		d := r.is(c, "paused", "one", "n0")
		if d.Acked != 1 || !strings.Contains(d.Next, "paused by alice") {
			t.Errorf("%s", decisions(d))
		}
		r.behave("n2", silent)
		r.rollout(c, n, fleetapi.ResumeRollout)
		r.pass(time.Second)
		r.is(c, "running", "one", "n0 n1 n2")
		r.rollout(c, n, fleetapi.AbortRollout)
		r.behave("n2", speaks)
		r.pass(time.Hour)
		d = r.is(c, "aborted", "one", "n0 n1 n2")
		if d.Waiting["n4"] == "" || !strings.Contains(decisions(d), "(alice)") {
			t.Errorf("%+v", d)
		}
		// What was aborted does not go out with a change of one other node.
		r.write(c, operate.SetNodes{Overrides: r.doc(`{"n1":{"envParams":{"C":"own"}}}`)})
		r.pass(time.Hour)
		d = r.is(c, "done", "own", "n1")
		if got := r.had("one"); got != "n0 n1 n2" || d.Nodes != 1 {
			t.Errorf("what was aborted goes out: %s\n%s", got, decisions(d))
		}
		r.wants(c, "n4", "staged")
		r.network(c, `{"envParams":{"B":"two"}}`)
		r.pass(time.Minute)
		r.is(c, "done", "two", "n0 n1 n2 n3 n4")
	})
}

func TestARevertGoesOutInBatchesToThoseThatHaveTheChange(t *testing.T) {
	onStaged(t, func(r *rig) {
		c := r.start("a")
		r.network(c, `{"envParams":{"B":"old"}}`)
		r.fleetOf(c, 5)
		r.behave("n3", silent)
		r.behave("n4", silent)
		r.network(c, `{"envParams":{"B":"new"}}`)
		r.pass(20 * time.Second)
		n := r.is(c, "running", "new", "n0 n1 n2 n3 n4").Revision
		r.behave("n0", func(n *fakeNode) { n.silent, n.pushes = true, nil })
		r.rollout(c, n, fleetapi.RevertRollout)
		r.pass(time.Second)
		d := r.is(c, "running", "old", "n0")
		if d.Revision != n+1 || d.Nodes > 5 {
			t.Errorf("%+v", d)
		}
		for name := range r.nodes {
			r.behave(name, speaks)
		}
		r.pass(5 * time.Minute)
		r.is(c, "done", "old", "n0 n1 n2 n3 n4")
		for name := range r.nodes {
			r.wants(c, name, "in sync")
		}
		if before, err := c.ExplainRollout(r.Context(), n); err != nil || before.State != "aborted" {
			t.Errorf("%+v, %v", before, err)
		}
	})
}

func TestWhoDidNotGetTheChangeIsNotTouchedByItsRevert(t *testing.T) {
	onStaged(t, func(r *rig) {
		c := r.start("a")
		r.network(c, `{"envParams":{"B":"old"}}`)
		r.fleetOf(c, 4)
		r.behave("n0", func(n *fakeNode) { n.unhealthy = "new" })
		r.network(c, `{"envParams":{"B":"new"}}`)
		r.pass(time.Minute)
		n := r.is(c, "halted", "new", "n0").Revision
		r.rollout(c, n, fleetapi.RevertRollout)
		r.pass(time.Minute)
		if got := r.had("old"); got != "" {
			t.Errorf("pushed to %s", got)
		}
		for name := range r.nodes {
			r.wants(c, name, "in sync")
		}
	})
}

func TestTwoOperatorsAgainstEachOther(t *testing.T) {
	onStaged(t, func(r *rig) {
		a := r.start("a")
		b := r.start("b")
		r.fleetOf(a, 5)
		r.pass(time.Second)
		r.behave("n0", silent)
		r.network(a, `{"envParams":{"B":"one"}}`)
		r.pass(time.Second)
		n := r.is(a, "running", "one", "n0").Revision
		bob := fleetapi.Caller{Name: "bob", Role: fleetapi.Operator}
		r.rollout(a, n, fleetapi.PauseRollout)
		refused := func(c *Controller, by fleetapi.Caller, what fleetapi.RolloutCommand, why string) {
			t.Helper()
			err := c.CommandRollout(r.Context(), by, n, what)
			if !errors.Is(err, fleetapi.ErrRefused) || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v", what, err)
			}
			synctest.Wait()
		}
		refused(b, bob, fleetapi.PauseRollout, "paused already, by alice")
		if err := b.CommandRollout(r.Context(), bob, n, fleetapi.ResumeRollout); err != nil {
			t.Error(err)
		}
		refused(a, alice, fleetapi.ResumeRollout, "it is running")
		// One aborts while the other pauses: one of the two is told that he is late.
		errs := make(chan error, 2)
		go func() { errs <- a.CommandRollout(r.Context(), alice, n, fleetapi.AbortRollout) }()
		go func() { errs <- b.CommandRollout(r.Context(), bob, n, fleetapi.AbortRollout) }()
		one, two := <-errs, <-errs
		if (one == nil) == (two == nil) {
			t.Errorf("both aborted it, or none: %v, %v", one, two)
		}
		r.pass(time.Second)
		refused(b, bob, fleetapi.ResumeRollout, "it has ended: it is aborted")
		if err := b.CommandRollout(r.Context(), bob, 999, fleetapi.PauseRollout); err == nil {
			t.Error("a rollout that there is not was paused")
		}
		r.is(b, "aborted", "one", "n0")
		// Two write at once: the later one supersedes, and no batch of the former follows.
		r.behave("n0", speaks)
		for i, c := range []*Controller{a, b, a} {
			r.network(c, fmt.Sprintf(`{"envParams":{"B":"w%d"}}`, i))
		}
		r.pass(5 * time.Minute)
		r.is(b, "done", "w2", "n0 n1 n2 n3 n4")
	})
}

// The leader is killed: its lease ends after 2 s, and the other goes on within 3 s.
func TestTheLeaderDiesInTheMiddleOfARollout(t *testing.T) {
	for _, at := range []time.Duration{0, 50 * time.Millisecond, 110 * time.Millisecond, 150 * time.Millisecond, time.Second} {
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
				led.cut.Store(true) // nothing of a reaches the store any more, and nobody is told
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

// ringOf is a topology of nodes in a ring, of which the first and the fourth are points of
// presence; the last one hangs on the second.
func ringOf(names []string) (doc string, links [][2]string) {
	ring := names[:len(names)-1]
	for i, name := range ring {
		links = append(links, [2]string{name, ring[(i+1)%len(ring)]})
	}
	links = append(links, [2]string{names[1], names[len(names)-1]})
	var nodes, sites, texts []string
	for i, name := range names {
		nodes = append(nodes, fmt.Sprintf(`{"name":%q,"site_name":"s-%s","node_type":2,"pop_node":%t,"mac_addr":"00:00:00:00:00:%02x"}`, name, name, i%3 == 0 && i < 6, i+1))
		sites = append(sites, fmt.Sprintf(`{"name":"s-%s","latitude":1,"longitude":1,"altitude":1}`, name))
	}
	for _, l := range links {
		a, z := min(l[0], l[1]), max(l[0], l[1])
		texts = append(texts, fmt.Sprintf(`{"name":"link-%s-%s","a_node_name":%q,"z_node_name":%q,"link_type":2,"is_alive":true}`, a, z, a, z))
	}
	return fmt.Sprintf(`{"name":"t","nodes":[%s],"sites":[%s],"links":[%s]}`, strings.Join(nodes, ","), strings.Join(sites, ","), strings.Join(texts, ",")), links
}

// wayOut are the nodes with a path to one of the points of presence while others are down.
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

// The seed: batches protect "against network-wide service disruption and network isolation".
// Nodes are slow, so that each batch is seen: at any time each node that is not out has a way to a
// point of presence, but n6 where n1 is out, on which alone it hangs.
func TestNoNodeOutsideOfTheBatchIsIsolated(t *testing.T) {
	onStaged(t, func(r *rig) {
		c := r.start("a")
		names := r.fleetOf(c, 7)
		doc, links := ringOf(names)
		r.write(c, operate.SetTopology{Document: r.doc(doc)})
		r.pass(time.Minute)
		for _, name := range names {
			r.wants(c, name, "in sync")
			r.behave(name, func(n *fakeNode) { n.silent, n.pushes = true, nil })
		}
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Second)
		most, rounds := 0, 0
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
			most = max(most, len(down))
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
		if len(d.Batches) < 3 || most == 0 || most == len(names) {
			t.Errorf("%d out at most, %+v\n%s", most, d.Batches, decisions(d))
		}
	})
}

// A leader's clock may be years off: what it stored is no deadline for the next one.
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
				e, _, _ := r.store.Get(r.Context(), rollouts.Key(n))
				s := storage.ValueOf[rollouts.Record](revision.Event{Kind: revision.EventPut, Entry: e})
				s.Began = s.Began.Add(jump)
				for i := range s.Decisions {
					s.Decisions[i].At = s.Decisions[i].At.Add(jump)
				}
				if _, err := r.store.Commit(r.Context(), revision.Txn{Then: []revision.Op{revision.Put(e.Key, storage.Encode(s))}}); err != nil {
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

// Nodes that are stuck or offline hold nobody up; they have it when they can.
func TestWhoCannotTakeItHoldsNobodyUp(t *testing.T) {
	onStaged(t, func(r *rig) {
		c := r.start("a")
		r.fleetOf(c, 4)
		r.write(c, operate.SetNodes{Overrides: r.doc(`{"n0":{"sysParams":{"managedConfig":false}}}`)})
		r.nodes["n1"].cut()
		r.pass(time.Minute)
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Minute)
		d := r.is(c, "done", "one", "n2 n3")
		if d.Waiting["n1"] != "it is offline" {
			t.Errorf("%+v", d)
		}
		r.nodes["n1"].connect(c)
		r.pass(time.Minute)
		r.is(c, "done", "one", "n1 n2 n3")
	})
}

// A controller that has just started pushes nothing before it knows which gates are open.
func TestAStartOpensNoGate(t *testing.T) {
	onStaged(t, func(r *rig) {
		c := r.start("a")
		r.fleetOf(c, 3)
		r.behave("n0", silent)
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Second)
		n := r.is(c, "running", "one", "n0").Revision
		r.rollout(c, n, fleetapi.PauseRollout)
		r.stop("a")
		r.pass(time.Minute)
		c = r.start("a")
		for _, node := range r.nodes {
			node.connect(c)
		}
		r.behave("n0", speaks)
		r.pass(10 * time.Minute)
		r.is(c, "paused", "one", "n0")
		r.rollout(c, n, fleetapi.ResumeRollout)
		r.pass(time.Minute)
		r.is(c, "done", "one", "n0 n1 n2")
	})
}

// What was good while the node waited is bad now, though the node has confirmed: it does not
// count as done, and the batch fails at its end. What was bad before does not count.
func TestANodeThatIsWorseDoesNotCountAsDone(t *testing.T) {
	onStaged(t, func(r *rig) {
		c := r.start("a")
		for _, name := range r.fleetOf(c, 4) {
			r.behave(name, func(n *fakeNode) { n.sick = "bad" })
		}
		r.pass(10 * time.Second)
		r.network(c, `{"envParams":{"B":"good"}}`)
		r.pass(time.Minute)
		r.is(c, "done", "good", "n0 n1 n2 n3")
		r.network(c, `{"envParams":{"B":"bad"}}`)
		r.pass(2 * time.Minute)
		r.wants(c, "n0", "in sync")
		r.is(c, "running", "bad", "n0")
		r.pass(2 * time.Minute)
		r.is(c, "halted", "bad", "n0")
	})
}

// The leader that takes over waits for the batch no longer than the time of one.
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

// A node that is held locally between the plan and its batch is not waited for.
func TestAHeldNodeInABatchIsNotWaitedFor(t *testing.T) {
	onStaged(t, func(r *rig) {
		c := r.start("a")
		r.fleetOf(c, 4)
		r.behave("n0", silent)
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Second)
		r.behave("n1", func(n *fakeNode) { n.held = &link.Held{By: "bob", Since: time.Now()} })
		r.pass(10 * time.Second)
		r.behave("n0", speaks)
		r.pass(time.Minute)
		d := r.is(c, "done", "one", "n0 n2 n3")
		if !strings.Contains(d.Waiting["n1"], "bob") {
			t.Errorf("%+v", d)
		}
	})
}

// After an abort nothing goes out until the layers change, not to who comes new either.
func TestNothingGoesOutAfterAnAbort(t *testing.T) {
	onStaged(t, func(r *rig) {
		c := r.start("a")
		r.fleetOf(c, 3)
		r.behave("n0", silent)
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Second)
		r.rollout(c, r.newest(c).Revision, fleetapi.AbortRollout)
		r.node(c, "n3")
		r.pass(time.Hour)
		r.is(c, "aborted", "one", "n0")
		r.write(c, operate.SetNodes{Overrides: r.doc(`{"n3":{"envParams":{"C":"own"}}}`)})
		r.pass(time.Minute)
		r.is(c, "done", "one", "n0 n3") // its own change has brought it
	})
}

// The actor of a node that crashed knows its gate before it hears what the node wants.
func TestACrashOpensNoGate(t *testing.T) {
	onStaged(t, func(r *rig) {
		c := r.start("a")
		r.fleetOf(c, 3)
		r.behave("n0", silent)
		c.d.Send(c.d.dir.named("n1").Process(), nodespkg.Said{}) // of no stream: it panics
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Minute)
		r.is(c, "running", "one", "n0")
		r.wants(c, "n1", "staged")
	})
}

// A leader that was replaced and does not know it writes nothing: each of its writes compares
// the election.
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
