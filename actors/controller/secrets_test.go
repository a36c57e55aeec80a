package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/controllerconf"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
)

// text returns a value as a client receives it.
func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestNoAnswerAndNoLogHasASecret writes secrets to each layer that can contain one, including ones that the controller
// or a node refuses, and looks for them in all answers and logs.
func TestNoAnswerAndNoLogHasASecret(t *testing.T) {
	onRig(t, func(r *rig) {
		vendor := r.doc(`{"wifi":{"desc":"x","type":"OBJECT","action":"NO_ACTION","objVal":{"properties":{
			"key":{"desc":"x","type":"STRING","secret":true,"strVal":{"regexMatches":"hid.*"}}}}}}`)
		m, _, faults := testMetadata.Merge(vendor)
		if faults != nil {
			t.Fatal(faults)
		}
		own, _ := config.ParseObject([]byte(`{"flags":{"pass":{"type":"STRING","action":"UPDATE_GFLAG","desc":"x","tag":"x","secret":true}}}`))
		file, faults := metadata.Parse(own, metadata.Options{E2E: true})
		if faults != nil {
			t.Fatal(faults)
		}
		core, logs := observer.New(zap.DebugLevel)
		r.change = func(o *Options) {
			o.Metadata, o.Log, o.Shared = m, zap.New(core), true
			o.E2E, o.Do = map[string]*metadata.Metadata{"controller": file}, func(controllerconf.Change) {}
		}
		c := r.start("a")
		r.synced(c, "n1")
		reported := map[string]string{}
		written := map[string]ops.Write{
			"network": ops.SetNetwork{Overrides: r.doc(`{"wifi":{"key":"hidden-1"}}`)},
			"node":    ops.SetNodes{Overrides: r.doc(`{"n1":{"wifi":{"key":"hidden-2"}}}`)},
			"auto":    ops.SetAuto{Values: r.doc(`{"n1":{"wifi":{"key":"hidden-3"}}}`)},
			"file":    ops.SetE2E{File: "controller", Config: r.doc(`{"flags":{"pass":"hidden-4"}}`), Replica: "a"},
			"refused": ops.SetNetwork{Overrides: r.doc(`{"wifi":{"key":"not-hidden-5"}}`)},
		}
		for name, w := range written {
			for _, dry := range []bool{true, false} {
				out, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice, Write: w, Message: name, DryRun: dry})
				reported[fmt.Sprint("write ", name, dry)] = text(t, out) + fmt.Sprint(err)
				if (err != nil) != (name == "refused") {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		r.pass(time.Second)
		n := r.nodes["n1"]
		n.mu.Lock()
		n.reject = "hidden-6"
		n.mu.Unlock()
		r.write(c, ops.SetNodes{Overrides: r.doc(`{"n1":{"wifi":{"key":"hidden-6"}}}`)})
		r.pass(5 * time.Second)
		r.wants(c, "n1", string(fleet.RolledBack))
		for name, o := range map[string]ops.Write{
			"network": ops.SetNetwork{Overrides: r.doc(`{"wifi":{"key":"hidden-7"}}`)},
			"node":    ops.SetNodes{Overrides: r.doc(`{"n1":{"wifi":{"key":"hidden-8"}}}`)},
		} {
			p, err := c.Preview(r.Context(), fleetapi.WriteRequest{Caller: alice, Write: o})
			r.pass(time.Second)
			later, late := c.PreviewResult(r.Context(), p.ID)
			if err := errors.Join(err, late); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text(t, p), "$masked") || !strings.Contains(text(t, later), "$masked") {
				t.Errorf("preview %s: %+v %+v", name, p, later)
			}
			reported["preview "+name] = text(t, p) + text(t, later)
		}
		keep := func(name string, v any, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			reported[name] = text(t, v)
		}
		d, err := c.Config(r.Context(), ops.ConfigQuery{Node: "n1"})
		keep("config", d, err)
		d, err = c.Paths(r.Context(), ops.PathsQuery{Paths: [][]string{{"wifi", "key"}}})
		keep("paths", d, err)
		for _, l := range []layers.Layer{layers.Network, layers.Node, layers.Auto} {
			d, err = c.Layer(r.Context(), ops.LayerQuery{Layer: l})
			keep(fmt.Sprint("layer ", l), d, err)
		}
		d, err = c.E2E(r.Context(), "controller", false)
		keep("file", d, err)
		x, err := c.Explain(r.Context(), "n1", []string{"wifi"})
		keep("explain", x, err)
		log, err := c.History(r.Context(), fleetapi.HistoryQuery{})
		keep("history", log, err)
		diff, err := c.Diff(r.Context(), 0, log[0].Number)
		keep("diff", diff, err)
		f, _, err := c.Export(r.Context(), false)
		keep("export", f, err)
		nodes, err := c.Nodes(r.Context())
		keep("nodes", nodes, err)
		one, err := c.Node(r.Context(), "n1")
		keep("node", one, err)
		back, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice,
			DryRun: true, Write: ops.Restore{Revision: 1, Layers: []history.Layer{{Kind: history.Network}}}})
		keep("rollback", back, err)
		for _, e := range logs.All() {
			reported["log "+e.Message] += text(t, e.ContextMap())
		}
		if len(reported) < 25 {
			t.Errorf("%d answers were looked at", len(reported))
		}
		for name, out := range reported {
			if strings.Contains(out, "hidden-") {
				t.Errorf("%s: %s", name, out)
			}
		}
		open, _, err := c.Export(r.Context(), true)
		if err != nil || strings.Count(text(t, open), "hidden-") != 4 {
			t.Errorf("revealed: %s, %v", text(t, open), err)
		}
	})
}
