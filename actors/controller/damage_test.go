package controller

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// damage changes one byte of each stored object that contains the text.
func (r *rig) damage(text string) {
	r.Helper()
	page, err := r.store.List(r.Context(), "", kv.ListOptions{})
	if err != nil {
		r.Fatal(err)
	}
	hit := false
	for _, e := range page.Entries {
		if strings.HasPrefix(string(e.Key), "objects/") && bytes.Contains(e.Value, []byte(text)) {
			hit = true
			v := bytes.Replace(e.Value, []byte(text), []byte(text[:len(text)-1]+"\x00"), 1)
			if _, err := r.store.Commit(r.Context(), kv.Txn{Then: []kv.Op{kv.Put(e.Key, v)}}); err != nil {
				r.Fatal(err)
			}
		}
	}
	if !hit {
		r.Fatalf("no object has %s", text)
	}
}

// damaged is a fleet of three with a damaged layer of n0, at a controller that had read the layer before, or at one
// that starts with it (anew).
func damaged(r *rig, anew bool) *Controller {
	c := r.start("a")
	r.network(c, `{"sysParams":{"managedConfig":true},"envParams":{"B":"one"}}`)
	for _, n := range []string{"n0", "n1", "n2"} {
		r.node(c, n)
	}
	r.write(c, ops.SetNodes{Modify: true, Overrides: r.doc(`{"n0":{"envParams":{"C":"only-n0"}}}`)})
	r.pass(time.Minute)
	r.wants(c, "n0", "InSync")
	r.damage("only-n0")
	if anew {
		r.stop("a")
		c = r.start("a")
		for _, n := range r.nodes {
			n.connect(c)
		}
		r.pass(time.Minute)
	}
	return c
}

// A damaged layer of one node blocks that node only. The error names the layer, the damage does not count as a
// deletion, and ordinary commands repair it.
func TestADamagedLayerHoldsUpItsNodeOnly(t *testing.T) {
	t.Parallel()
	for _, way := range []struct {
		name string
		mend ops.Write
		has  string // what n0 then has of it
	}{
		{"another", ops.SetNodes{}, "mended"},
		{"the same", ops.SetNodes{}, "only-n0"},
		{"restore", ops.Restore{Revision: 1, Layers: []history.Layer{{Kind: history.Node, Name: "n0"}}}, ""},
		{"revert", ops.Revert{Revision: 2}, ""},
	} {
		onRig(t, func(r *rig) {
			c := damaged(r, true)
			if err := c.Ready(r.Context()); err != nil {
				t.Errorf("not ready: %v", err)
			}
			r.network(c, `{"sysParams":{"managedConfig":true},"envParams":{"B":"two"}}`)
			r.pass(time.Minute)
			if got := r.had("two"); got != "n1 n2" {
				t.Errorf("%s: two was pushed to %q", way.name, got)
			}
			if state, why := r.state(c, "n0"); state == "InSync" || !strings.Contains(why,
				"node/n0: is damaged in the store since revision 2") || !strings.Contains(why, "object ") {
				t.Errorf("%s: n0 is %s: %s", way.name, state, why)
			}
			_, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice,
				Write: ops.SetNodes{Modify: true, Overrides: r.doc(`{"n0":{"envParams":{"A":"9"}}}`)}})
			if !errors.As(err, new(*ops.Refused)) || !strings.Contains(err.Error(), "node/n0: is damaged in the store") {
				t.Errorf("a modification of what can't be read: %v", err)
			}
			r.write(c, ops.SetNodes{Modify: true, Overrides: r.doc(`{"n1":{"envParams":{"C":"three"}}}`)})
			r.pass(time.Minute)
			if got := r.had("three"); got != "n1" {
				t.Errorf("%s: three was pushed to %q", way.name, got)
			}
			if set, ok := way.mend.(ops.SetNodes); ok {
				set.Overrides = r.doc(`{"n0":{"envParams":{"C":"` + way.has + `"}}}`)
				way.mend = set
			}
			r.write(c, way.mend)
			r.pass(time.Minute)
			r.wants(c, "n0", "InSync")
			r.node(c, "n3")
			d, err := c.Config(r.Context(), ops.ConfigQuery{Node: "n0"})
			text := ""
			if err == nil {
				text = string(storage.Encode(d.Object))
			}
			if err != nil || !strings.Contains(text, `"two"`) || strings.Contains(text, "only-n0") != (way.has == "only-n0") ||
				!strings.Contains(text, way.has) {
				t.Errorf("%s: n0 wants %s, %v", way.name, text, err)
			}
		})
	}
}

// At a controller that had read the layer before the damage, the writes that need the layer find it.
func TestADamagedLayerOfAControllerAtWork(t *testing.T) {
	t.Parallel()
	onRig(t, func(r *rig) {
		c := damaged(r, false)
		r.network(c, `{"sysParams":{"managedConfig":true},"envParams":{"B":"two"}}`)
		r.pass(time.Minute)
		if got := r.had("two"); !strings.HasSuffix(got, "n1 n2") {
			t.Errorf("two was pushed to %q", got)
		}
	})
}

// Without the network layer no node's config can be computed: all nodes keep what they have until the layer is
// replaced.
func TestADamagedNetworkLayerIsNoDeletion(t *testing.T) {
	t.Parallel()
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.network(c, `{"sysParams":{"managedConfig":true},"envParams":{"B":"everybody"}}`)
		r.node(c, "n0")
		r.pass(time.Minute)
		r.damage("everybody")
		r.stop("a")
		c = r.start("a")
		r.nodes["n0"].connect(c)
		r.behave("n0", func(n *fakeNode) { n.pushes = nil })
		r.pass(time.Minute)
		if _, why := r.state(c, "n0"); len(r.nodes["n0"].pushes) > 0 ||
			!strings.Contains(why, "network: is damaged in the store") {
			t.Errorf("pushed %v: %s", r.nodes["n0"].pushes, why)
		}
		_, err := c.Write(r.Context(), fleetapi.WriteRequest{Caller: alice,
			Write: ops.SetNetwork{Modify: true, Overrides: r.doc(`{"envParams":{"A":"9"}}`)}})
		if !errors.As(err, new(*ops.Refused)) {
			t.Errorf("a modification of what can't be read: %v", err)
		}
		r.network(c, `{"sysParams":{"managedConfig":true},"envParams":{"B":"anew"}}`)
		r.pass(time.Minute)
		r.wants(c, "n0", "InSync")
		if got := r.had("anew"); got != "n0" {
			t.Errorf("anew was pushed to %q", got)
		}
	})
}
