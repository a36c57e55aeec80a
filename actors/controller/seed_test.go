package controller

import (
	"strings"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/controllerconf"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/layers/metadata"
)

// pushes returns how many pushes a node got.
func (r *rig) pushes(name string) int {
	pushes, _ := r.nodes[name].got()
	return pushes
}

// byHand changes what a node runs, as a person at the node would.
func byHand(n *fakeNode) {
	doc := config.Object{"envParams": config.Object{"A": "by hand"}}
	n.doc, n.md5, n.generation = config.AppendCanonical(nil, doc), config.MD5(doc), nodeproto.Generation{}
	n.confirmed = fakeConfig{n.doc, n.peer, n.md5, n.generation}
}

// onSynced is a test of a controller whose nodes n1, n2 and n3 are in sync, with no push interval running.
func onSynced(f func(*rig, *Controller)) func(*testing.T) {
	return func(t *testing.T) {
		onRig(t, func(r *rig) {
			c := r.start("a")
			r.synced(c, "n1", "n2", "n3")
			r.pass(10 * time.Minute)
			f(r, c)
		})
	}
}

// The seed, "Syncing Configuration": each sub-test is a row of docs/seeds.md.
func TestSeed_SyncingConfiguration(t *testing.T) {
	// "nodes send an MD5 hash of their local configuration … For each mismatch, the controller will push"
	t.Run("TCM-S1", onSynced(func(r *rig, c *Controller) {
		r.behave("n1", byHand)
		r.pass(6 * time.Second) // one report
		r.wants(c, "n1", string(fleet.InSync))
		if r.pushes("n1") != 2 || r.pushes("n2") != 1 || r.pushes("n3") != 1 {
			r.Errorf("%d, %d and %d pushes", r.pushes("n1"), r.pushes("n2"), r.pushes("n3"))
		}
	}))
	// "periodically iterates over all received status reports and looks for mismatches"
	t.Run("TCM-S6", onSynced(func(r *rig, c *Controller) {
		r.behave("n2", byHand)
		r.behave("n3", byHand)
		r.pass(6 * time.Second)
		if r.pushes("n2") != 2 || r.pushes("n3") != 2 {
			r.Errorf("%d and %d pushes", r.pushes("n2"), r.pushes("n3"))
		}
		r.pass(10 * time.Minute)
		r.network(c, `{"envParams":{"B":"1"}}`) // a mismatch with reports that have arrived
		if r.pushes("n1") != 2 || r.pushes("n2") != 3 || r.pushes("n3") != 3 {
			r.Errorf("before the next reports: %d, %d and %d pushes", r.pushes("n1"), r.pushes("n2"), r.pushes("n3"))
		}
	}))
	// "There is a fixed interval between consecutive pushes to the same node"
	t.Run("TCM-S2", onSynced(func(r *rig, c *Controller) {
		begun := time.Now()
		var when []time.Duration
		for time.Since(begun) < 10*time.Minute {
			before := r.pushes("n1")
			r.behave("n1", func(n *fakeNode) {
				if n.pending == nil && n.md5 != config.MD5(config.Object{}) {
					byHand(n) // a person changes it
				}
			})
			r.pass(time.Second)
			if r.pushes("n1") > before {
				when = append(when, time.Since(begun))
			}
		}
		for i, d := range when[1:] {
			if d-when[i] < 120*time.Second || d-when[i] > 126*time.Second {
				r.Errorf("pushes at %v", when)
				break
			}
		}
		if len(when) != 5 {
			r.Errorf("%d pushes: %v", len(when), when)
		}
	}))
	// "this delay is reset when the controller receives a configuration change"
	t.Run("TCM-S3", onSynced(func(r *rig, c *Controller) {
		for i, value := range []string{"1", "2", "3"} {
			r.network(c, `{"envParams":{"B":"`+value+`"}}`)
			r.pass(time.Second)
			if r.pushes("n1") != 2+i {
				r.Errorf("%d pushes after change %d", r.pushes("n1"), i+1)
			}
		}
		r.wants(c, "n1", string(fleet.InSync))
	}))
	// "as a protective measure in case the new configuration causes a fatal error on the node"
	t.Run("TCM-S5", onSynced(func(r *rig, c *Controller) {
		r.behave("n1", func(n *fakeNode) { n.unhealthy = "bad" })
		r.network(c, `{"envParams":{"B":"bad"}}`)
		r.pass(2 * time.Hour) // sixty times the interval
		r.wants(c, "n1", string(fleet.RolledBack))
		if r.pushes("n1") != 2 {
			r.Errorf("%d pushes", r.pushes("n1"))
		}
	}))
	// "disabled by "un-managing" the network or specific nodes via … sysParams.managedConfig"
	t.Run("TCM-S4", onSynced(func(r *rig, c *Controller) {
		r.write(c, ops.SetNodes{Overrides: r.doc(`{"n2":{"sysParams":{"managedConfig":false}}}`)})
		r.network(c, `{"envParams":{"B":"1"}}`)
		r.pass(time.Minute)
		r.wants(c, "n2", string(fleet.Unmanaged))
		if r.pushes("n1") != 2 || r.pushes("n2") != 1 {
			r.Errorf("of a node: %d and %d pushes", r.pushes("n1"), r.pushes("n2"))
		}
		r.network(c, `{"envParams":{"B":"2"},"sysParams":{"managedConfig":false}}`)
		r.pass(time.Hour)
		for _, name := range []string{"n1", "n2", "n3"} {
			r.wants(c, name, string(fleet.Unmanaged))
		}
		if r.pushes("n1") != 2 || r.pushes("n3") != 2 {
			r.Errorf("of the network: %d and %d pushes", r.pushes("n1"), r.pushes("n3"))
		}
	}))
	t.Run("TCM-S7", onSynced(func(r *rig, c *Controller) { // "This may be needed temporarily for testing purposes"
		r.network(c, `{"sysParams":{"managedConfig":false}}`)
		r.pass(time.Second)
		r.behave("n1", byHand)
		r.network(c, `{"sysParams":{"managedConfig":false},"envParams":{"B":"meanwhile"}}`)
		r.pass(time.Hour)
		if _, md5 := r.nodes["n1"].got(); r.pushes("n1") != 1 || md5 != config.MD5(r.doc(`{"envParams":{"A":"by hand"}}`)) {
			r.Errorf("it is tested with another config after %d pushes", r.pushes("n1"))
		}
		r.network(c, `{"envParams":{"B":"meanwhile"}}`)
		r.pass(time.Second)
		for _, name := range []string{"n1", "n2", "n3"} {
			r.wants(c, name, string(fleet.InSync))
			if r.pushes(name) != 2 || !contains(r.nodes[name].doc, "meanwhile") {
				r.Errorf("%s runs %s after %d pushes", name, r.nodes[name].doc, r.pushes(name))
			}
		}
	}))
}

// The seed, "Staged Rollout": which nodes the batches are for, where TestSeed_StagedRolloutOfTheController does not
// cover it.
func TestSeed_WhomAStagedRolloutIsFor(t *testing.T) {
	t.Run("TCM-R5", func(t *testing.T) { // "configuration changes that affect multiple nodes": one node is one batch
		onStaged(t, func(r *rig) {
			c := r.start("a")
			r.fleetOf(c, 5)
			r.write(c, ops.SetNodes{Overrides: r.doc(`{"n3":{"envParams":{"B":"alone"}}}`)})
			r.pass(time.Second)
			d := r.is(c, "done", "alone", "n3")
			if len(d.Batches) != 1 {
				r.Errorf("%+v", d.Batches)
			}
		})
	})
	// "(e.g. when changing network overrides)": or the layers of many nodes, or the base
	t.Run("TCM-R6", func(t *testing.T) {
		for name, change := range map[string]func(*rig, *Controller){
			"nodes": func(r *rig, c *Controller) {
				r.write(c, ops.SetNodes{Overrides: r.doc(`{"n0":{"envParams":{"B":"one"}},"n1":{"envParams":{"B":"one"}},"n2":{"envParams":{"B":"one"}},"n3":{"envParams":{"B":"one"}},"n4":{"envParams":{"B":"one"}}}`)})
			},
			"base": func(r *rig, c *Controller) {
				r.base.mu.Lock()
				r.base.docs["RELEASE_M20"] = `{"sysParams":{"managedConfig":true},"envParams":{"A":"1","B":"one"}}`
				r.base.mu.Unlock()
				c.Reload()
			},
		} {
			t.Run(name, func(t *testing.T) {
				onStaged(t, func(r *rig) {
					c := r.start("a")
					r.network(c, `{"envParams":{"C":"before"}}`)
					r.fleetOf(c, 5)
					for name := range r.nodes {
						r.behave(name, silent)
					}
					change(r, c)
					r.pass(20 * time.Second)
					r.is(c, "running", "one", "n0")
					for name := range r.nodes {
						r.behave(name, speaks)
					}
					r.pass(3 * time.Minute)
					r.is(c, "done", "one", "n0 n1 n2 n3 n4")
				})
			})
		}
	})
}

// The seed, "Sync" of the E2E configuration: two replicas on one store are peers.
func TestSeed_SyncOfTheControllersConfig(t *testing.T) {
	t.Run("TCM-E10", func(t *testing.T) { // "Controller configuration is partially synced between peers"
		onRig(t, func(r *rig) {
			r.change = func(o *Options) {
				o.E2E = map[string]*metadata.Metadata{ownFile: fileMetadata(t)}
				o.Do = func(controllerconf.Change) {}
			}
			a, b := r.start("a"), r.start("b")
			has := func(c *Controller) string {
				doc, err := c.E2E(r.Context(), ownFile, true)
				if err != nil {
					t.Fatal(err)
				}
				flags, _ := doc.Object["flags"].(config.Object)
				var out []string
				for _, name := range config.Keys(flags) {
					out = append(out, name+"="+flags[name].(string))
				}
				return strings.Join(out, " ")
			}
			say := func(when, wantA, wantB string) {
				t.Helper()
				r.pass(time.Second)
				if gotA, gotB := has(r.replicas["a"]), has(r.replicas["b"]); gotA != wantA || gotB != wantB {
					t.Errorf("%s: a has %q and b %q, want %q and %q", when, gotA, gotB, wantA, wantB)
				}
			}
			r.write(a, ops.SetE2E{File: ownFile, Config: r.doc(`{"flags":{"a":"1","b":"of a"}}`), Replica: "a"})
			say("a was set at a", "a=1 b=of a", "a=1")
			r.write(b, ops.SetE2E{File: ownFile, Config: r.doc(`{"flags":{"a":"2","b":"of b"}}`), Replica: "b"})
			say("b was set at b", "a=2 b=of a", "a=2 b=of b")
			r.write(b, ops.SetE2E{File: ownFile, Config: r.doc(`{"flags":{"b":"of b"}}`), Replica: "b"})
			say("the shared one was taken away at b", "b=of a", "b=of b")
			r.write(a, ops.SetE2E{File: ownFile, Config: r.doc(`{"flags":{"a":"3"}}`), Modify: true, Replica: "a"})
			r.stop("b")
			r.start("b")
			say("b was away", "a=3 b=of a", "a=3 b=of b")
		})
	})
}
