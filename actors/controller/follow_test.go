package controller

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/controllerconf"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
)

// fileMetadata describes a controller's file: a is shared, b belongs to one replica.
func fileMetadata(t *testing.T) *metadata.Metadata {
	t.Helper()
	doc, _ := config.ParseObject([]byte(`{"flags": {
		"a": {"type": "STRING", "action": "UPDATE_GFLAG", "sync": true, "desc": "x", "tag": "x"},
		"b": {"type": "STRING", "action": "UPDATE_GFLAG", "desc": "x", "tag": "x"}}}`))
	m, faults := metadata.Parse(doc, metadata.Options{E2E: true})
	if faults != nil {
		t.Fatal(faults)
	}
	return m
}

// TestAChangeOfTheControllersConfigReachesTheReplicasThatItIsOf has two replicas: a shared value changes in both,
// whichever wrote it, and a replica's own value in that one.
func TestAChangeOfTheControllersConfigReachesTheReplicasThatItIsOf(t *testing.T) {
	onRig(t, func(r *rig) {
		var mu sync.Mutex // for two replicas
		did := map[string][]string{}
		r.change = func(o *Options) {
			name := o.Replica
			o.E2E = map[string]*metadata.Metadata{"controller": fileMetadata(t), "aggregator": fileMetadata(t)}
			o.Do = func(c controllerconf.Change) {
				mu.Lock()
				defer mu.Unlock()
				for _, f := range c.Flags {
					did[name] = append(did[name], f.Name+"="+f.Value)
				}
			}
		}
		a := r.start("a")
		r.start("b")
		for _, step := range []struct{ doc, replica, a, b string }{
			{`{"flags":{"a":"1"}}`, "a", "a=1", "a=1"},
			{`{"flags":{"b":"2"}}`, "a", "b=2", ""},
			{`{"flags":{"b":"3"}}`, "b", "", "b=3"},
			{`{"flags":{"a":"4","b":"5"}}`, "b", "a=4", "a=4 b=5"},
			{`{"flags":{"a":"4"}}`, "a", "", ""},
		} {
			clear(did)
			r.write(a, ops.SetE2E{File: "controller", Config: r.doc(step.doc), Modify: true, Replica: step.replica})
			r.pass(time.Second)
			if got := strings.Join(did["a"], " "); got != step.a {
				t.Errorf("%s of %s: a did %q, want %q", step.doc, step.replica, got, step.a)
			}
			if got := strings.Join(did["b"], " "); got != step.b {
				t.Errorf("%s of %s: b did %q, want %q", step.doc, step.replica, got, step.b)
			}
		}
		clear(did)
		r.write(a, ops.SetE2E{File: "aggregator", Config: r.doc(`{"flags":{"a":"1"}}`), Replica: "a"})
		r.stop("b")
		r.start("b")
		if len(did) > 0 {
			t.Errorf("after a write to the aggregator's file and a start: %v", did)
		}
	})
}

const twoNodes = `{"nodes":[{"name":"n1","node_type":2,"pop_node":true,"mac_addr":"02:00:00:00:00:01","site_name":"S"},
	{"name":"n2","node_type":1,"mac_addr":"02:00:00:00:00:02","site_name":"S"}],
	"sites":[{"name":"S","location":{"latitude":1.0,"longitude":2.0,"altitude":3.0,"accuracy":4.0}}],"links":[],"name":"T"}`

// facts returns the names that the auto layer gives the nodes.
func (r *rig) facts(c *Controller) string {
	r.Helper()
	doc, err := c.Layer(r.Context(), ops.LayerQuery{Layer: layers.Auto})
	if err != nil {
		r.Fatal(err)
	}
	var out []string
	for _, node := range config.Keys(doc.Object) {
		if name, has := config.Lookup(doc.Object, []string{node, "topologyInfo", "nodeName"}); has {
			out = append(out, node+"="+name.(string))
		}
	}
	return strings.Join(out, " ")
}

func TestFactsOfTheTopologyFollowAnImportAndAStart(t *testing.T) {
	onRig(t, func(r *rig) {
		r.change = func(o *Options) { o.Offline = true }
		c := r.start("a")
		imported := ops.Import{Files: history.Files{Topology: r.doc(twoNodes),
			Auto: r.doc(`{"n1":{"topologyInfo":{"nodeName":"old"}}}`)}}
		r.write(c, imported)
		r.pass(time.Second)
		if got := r.facts(c); got != "n1=old" {
			t.Errorf("offline: %s: the layers were to stay as they were imported", got)
		}
		r.stop("a")

		r.change = nil
		c = r.start("a")
		r.pass(time.Second)
		if got := r.facts(c); got != "n1=n1 n2=n2" {
			t.Errorf("after a start: %s", got)
		}
		r.write(c, imported)
		r.pass(time.Second)
		if got := r.facts(c); got != "n1=n1 n2=n2" {
			t.Errorf("after an import: %s", got)
		}
		before, err := c.History(r.Context(), fleetapi.HistoryQuery{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		r.pass(time.Hour)
		if after, _ := c.History(r.Context(), fleetapi.HistoryQuery{Limit: 1}); after[0].Number != before[0].Number {
			t.Errorf("facts that don't differ were written again: revision %d after %d", after[0].Number, before[0].Number)
		}
	})
}

// TestSettingsChangeAtRunTime shortens the interval while a node waits for it.
func TestSettingsChangeAtRunTime(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		n := r.node(c, "n1")
		r.pass(time.Second)
		r.wants(c, "n1", "InSync")
		n.mu.Lock()
		n.silent = true // nothing confirms: it undoes the push after two minutes
		n.mu.Unlock()
		r.network(c, `{"envParams":{"B":"1"}}`)
		r.pass(2*time.Minute + time.Second)
		undone, _ := n.got()
		r.pass(10 * time.Second)
		if waits, _ := n.got(); waits != undone {
			t.Fatalf("it was pushed to again inside of the interval: %d and %d times", undone, waits)
		}
		s := c.d.settings()
		s.Interval = 5 * time.Second
		c.Set(s)
		synctest.Wait()
		r.pass(time.Second)
		if after, _ := n.got(); after != undone+1 {
			t.Errorf("it was pushed to %d times before and %d after", undone, after)
		}
		if got := c.d.settings().Replica; got != "a" {
			t.Errorf("the replica became %q", got)
		}
	})
}
