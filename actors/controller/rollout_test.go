package controller

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
	"edgespan/config/layers/metadata"
)

// onStaged runs a test on a fake clock with staged rollouts on: a canary, half of the rest, and all.
func onStaged(t *testing.T, f func(*rig)) {
	t.Helper()
	onRig(t, func(r *rig) {
		r.change = func(o *Options) {
			o.Flags = map[string]string{"config_staged_rollout_enabled": "true", "config_rollout_stages": "50"}
		}
		f(r)
	})
}

// fleetOf starts nodes n0, n1 … and waits until they are in sync.
func (r *rig) fleetOf(c *Controller, size int) []string {
	r.Helper()
	var names []string
	for i := range size {
		names = append(names, fmt.Sprintf("n%d", i))
		r.node(c, names[i])
	}
	r.pass(10 * time.Second)
	for _, name := range names {
		r.wants(c, name, "InSync")
		r.nodes[name].mu.Lock()
		r.nodes[name].pushes = nil
		r.nodes[name].mu.Unlock()
	}
	return names
}

// behave changes how a node reacts to pushes.
func (r *rig) behave(name string, f func(*fakeNode)) {
	n := r.nodes[name]
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n)
}

// had returns the nodes that a text was pushed to.
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

// newest returns the newest staged rollout.
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

// is checks that the newest rollout is in a state, and that the text has been pushed to these nodes.
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
			if page, err := r.store.List(r.Context(), history.InRollouts, kv.ListOptions{}); err != nil ||
				len(page.Entries) > 0 {
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
				o.Flags = map[string]string{"config_staged_rollout_enabled": "true", "config_rollout_stages": "50",
					"config_rollout_rest_s": "60"}
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
	doc := `{"flags": {"config_staged_rollout_enabled": {"type": "BOOLEAN", "action": "UPDATE_GFLAG", "sync": true, ` +
		`"desc": "x", "tag": "x"}}}`
	m, faults := metadata.Parse((&rig{T: t}).doc(doc), metadata.Options{E2E: true})
	if faults != nil {
		t.Fatal(faults)
	}
	return m
}

// flag switches staged rollouts.
func (r *rig) flag(c *Controller, to string) {
	r.Helper()
	r.write(c, ops.SetE2E{File: ownFile, Config: r.doc(`{"flags":{"config_staged_rollout_enabled":"` + to + `"}}`),
		Modify: true})
}

func TestABadConfigStopsAtTheCanary(t *testing.T) {
	for how, set := range map[string]func(*fakeNode){
		"rejected": func(n *fakeNode) { n.reject = "bad" }, "unhealthy": func(n *fakeNode) { n.unhealthy = "bad" },
		"silent": silent,
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
				if got := fmt.Sprint(c.CountNodes().Rollout.Summary()); !strings.Contains(got, "halted map[confirmed:0 failed:1 "+
					"pushed:0 stuck:0 waiting:4] map[done:0 failed:1 out:0]") {
					t.Errorf("metrics count %s", got)
				}
				for name := range r.nodes {
					r.behave(name, func(n *fakeNode) { n.silent, n.pushes = false, nil })
				}
				r.network(c, `{"envParams":{"B":"good"}}`) // another change gets another chance
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
		// An aborted change does not go out with a change of another node.
		r.write(c, ops.SetNodes{Overrides: r.doc(`{"n1":{"envParams":{"C":"own"}}}`)})
		r.pass(time.Hour)
		d = r.is(c, "done", "own", "n1")
		if got := r.had("one"); got != "n0 n1 n2" || d.Nodes != 1 {
			t.Errorf("what was aborted goes out: %s\n%s", got, decisions(d))
		}
		r.wants(c, "n4", "Pending")
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
			r.wants(c, name, "InSync")
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
			r.wants(c, name, "InSync")
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
		// One operator aborts while the other pauses: one of the two is answered that he is late.
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
		// Two operators write at once: the later write supersedes, and no batch of the former follows.
		r.behave("n0", speaks)
		for i, c := range []*Controller{a, b, a} {
			r.network(c, fmt.Sprintf(`{"envParams":{"B":"w%d"}}`, i))
		}
		r.pass(5 * time.Minute)
		r.is(b, "done", "w2", "n0 n1 n2 n3 n4")
	})
}

// Nodes that are stuck or offline hold up no rollout; they get the change when they can.
func TestWhoCannotTakeItHoldsNobodyUp(t *testing.T) {
	onStaged(t, func(r *rig) {
		c := r.start("a")
		r.fleetOf(c, 4)
		r.write(c, ops.SetNodes{Overrides: r.doc(`{"n0":{"sysParams":{"managedConfig":false}}}`)})
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

// A node that was healthy while it waited is unhealthy after the change, though it has confirmed: it does not count as
// done, and the batch fails at its end. What was unhealthy before does not count.
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
		r.wants(c, "n0", "InSync")
		r.is(c, "running", "bad", "n0")
		r.pass(2 * time.Minute)
		r.is(c, "halted", "bad", "n0")
	})
}

// A rollout does not wait for a node that gets a local hold between the plan and its batch.
func TestAHeldNodeInABatchIsNotWaitedFor(t *testing.T) {
	onStaged(t, func(r *rig) {
		c := r.start("a")
		r.fleetOf(c, 4)
		r.behave("n0", silent)
		r.network(c, `{"envParams":{"B":"one"}}`)
		r.pass(time.Second)
		r.behave("n1", func(n *fakeNode) { n.held = &nodeproto.Held{By: "bob", Since: time.Now()} })
		r.pass(10 * time.Second)
		r.behave("n0", speaks)
		r.pass(time.Minute)
		d := r.is(c, "done", "one", "n0 n2 n3")
		if !strings.Contains(d.Waiting["n1"], "bob") {
			t.Errorf("%+v", d)
		}
	})
}

// After an abort nothing goes out until the layers change, not to a new node either.
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
		r.write(c, ops.SetNodes{Overrides: r.doc(`{"n3":{"envParams":{"C":"own"}}}`)})
		r.pass(time.Minute)
		r.is(c, "done", "one", "n0 n3") // the change of its own layer has brought it
	})
}
