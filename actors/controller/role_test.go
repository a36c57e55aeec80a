package controller

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers/metadata"
)

// TestAnOperatorDoesNotBringBackWhatIsAnAdmins tries each way in which an operator could set a file path of the
// controller: the write itself, a restore, a revert, and the revert of a rollout.
func TestAnOperatorDoesNotBringBackWhatIsAnAdmins(t *testing.T) {
	onRig(t, func(r *rig) {
		r.change = func(o *Options) {
			o.E2E = map[string]*metadata.Metadata{"controller": fileMetadata(t), "aggregator": fileMetadata(t)}
			o.Flags = map[string]string{"config_staged_rollout_enabled": "true", "config_rollout_stages": "50"}
		}
		c := r.start("a")
		r.fleetOf(c, 3)
		network := func(v string) config.Object { return r.doc(`{"envParams":{"A":"` + v + `"}}`) }
		first := r.write(c, ops.SetE2E{File: "controller", Config: r.doc(`{"flags":{"a":"1"}}`)})
		second := r.write(c, ops.SetE2E{File: "controller", Config: r.doc(`{"flags":{"a":"2"}}`)})
		plain := r.write(c, ops.SetNetwork{Overrides: network("9")})
		r.pass(time.Second)
		mixed := r.write(c, ops.Import{Files: history.Files{Network: network("10"),
			E2E: map[string]config.Object{"controller": r.doc(`{"flags":{"a":"3"}}`)}}})
		r.pass(time.Second)
		bob := fleetapi.Caller{Name: "bob", Role: fleetapi.Operator}
		for name, w := range map[string]ops.Write{
			"write":      ops.SetE2E{File: "controller", Config: r.doc(`{"flags":{"a":"7"}}`), Modify: true},
			"aggregator": ops.SetE2E{File: "aggregator", Config: r.doc(`{"flags":{"a":"7"}}`)},
			"own part":   ops.SetE2E{File: "controller", Config: r.doc(`{"flags":{"b":"7"}}`), Modify: true, Replica: "a"},
			"restore":    ops.Restore{Revision: first.Revision}, "restore of the layer": ops.Restore{Revision: first.Revision,
				Layers: []history.Layer{{Kind: history.E2E, Name: "controller"}}},
			"revert": ops.Revert{Revision: second.Revision}, "revert of both": ops.Revert{Revision: mixed.Revision},
			"import": ops.Import{Files: history.Files{E2E: map[string]config.Object{"controller": r.doc(`{"flags":{"a":"8"}}`)}}},
		} {
			for _, dry := range []bool{true, false} {
				_, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: bob, Write: w, DryRun: dry})
				if name == "revert" && err != nil && !errors.Is(err, fleetapi.ErrRole) {
					continue // what was changed again can't be reverted by any role
				}
				if !errors.Is(err, fleetapi.ErrRole) {
					t.Errorf("%s by an operator, dry run %t: %v", name, dry, err)
				}
			}
		}
		if err := c.CommandRollout(r.Context(), bob, mixed.Revision, fleetapi.RevertRollout); !errors.Is(err,
			fleetapi.ErrRole) {
			t.Errorf("revert of the rollout: %v", err)
		}
		synctest.Wait()
		if d := r.newest(c); d.Revision != mixed.Revision || d.State == staged.EndAborted {
			t.Errorf("the rollout was aborted for a revert that may not be: %+v", d.Rollout)
		}
		doc, err := c.E2E(r.Context(), "controller", true)
		if v, _ := config.Lookup(doc.Object, []string{"flags", "a"}); err != nil || v != "3" {
			t.Errorf("flag %v, %v", v, err)
		}
		// What is not reserved to admins can be reverted, also across revisions that wrote an admin's layer.
		if _, err := c.Write(r.Context(),
			fleetapi.WriteRequest{Caller: bob, Write: ops.Restore{Revision: plain.Revision,
				Layers: []history.Layer{{Kind: history.Network}}}}); err != nil {
			t.Errorf("restore of the network: %v", err)
		}
		if _, err := c.Write(r.Context(),
			fleetapi.WriteRequest{Caller: alice, Write: ops.Restore{Revision: first.Revision}}); err != nil {
			t.Errorf("restore by an admin: %v", err)
		}
	})
}

// TestReplicasRestartOneAfterTheOther has three replicas request a restart at once.
func TestReplicasRestartOneAfterTheOther(t *testing.T) {
	onRig(t, func(r *rig) {
		r.change = func(o *Options) { o.Shared = true }
		var request []string
		turns := make(chan string, 3)
		for _, name := range []string{"a", "b", "c"} {
			c := r.start(name)
			go func() {
				if err := c.WaitRestartTurn(r.Context()); err != nil {
					t.Error(err)
				}
				turns <- name
			}()
		}
		for range 3 {
			r.pass(2 * time.Second)
			if len(turns) != 1 {
				t.Fatalf("%d replicas restart at once after %s", len(turns), strings.Join(request, " "))
			}
			name := <-turns
			request = append(request, name)
			r.pass(30 * time.Second) // the replica is away
			if len(turns) != 0 {
				t.Errorf("another one restarts while %s is away", name)
			}
			if len(request) == 2 { // this replica never returns
				r.pass(turnTTL)
				continue
			}
			r.replicas[name].ReleaseRestartTurn(r.Context())
		}
		alone := r.start("d")
		alone.d.Shared = false
		if err := alone.WaitRestartTurn(r.Context()); err != nil {
			t.Error(err)
		}
	})
}
