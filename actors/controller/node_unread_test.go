package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// A replica of another version has written a record that this one can't read. The node gets nothing from this replica,
// and its record is kept in the store until it can be read again.
func TestANodeWithAMemoryOfAnotherVersionIsNotJudged(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.synced(c, "n1")
		n := r.nodes["n1"]
		key := history.PushKey(n.id)
		put := func(text string) {
			if _, err := r.store.Commit(r.Context(), kv.Txn{Then: []kv.Op{kv.Put(key, []byte(text))}}); err != nil {
				t.Fatal(err)
			}
			r.pass(5 * time.Second)
		}
		const foreign = `{"push":"of another form"}`
		put(foreign)
		for _, restarted := range []bool{false, true} {
			if restarted {
				r.stop("a")
				c = r.start("a")
				n.connect(c)
				r.pass(5 * time.Second)
			}
			r.behave("n1", func(n *fakeNode) { n.pushes = nil })
			r.network(c, map[bool]string{false: `{"envParams":{"B":"x"}}`, true: `{"envParams":{"B":"y"}}`}[restarted])
			r.pass(time.Minute)
			r.wants(c, "n1", string(fleet.ConfigError))
			if d, err := c.Node(r.Context(), "n1"); err != nil ||
				!strings.Contains(strings.Join(d.Explain, " "), "can't be read here") {
				t.Errorf("%+v, %v", d.Explain, err)
			}
			if e, _, _ := r.store.Get(r.Context(), key); string(e.Value) != foreign {
				t.Errorf("restarted %v: it is written over by %s", restarted, e.Value)
			}
			if len(n.pushes) > 0 {
				t.Errorf("restarted %v: %d pushes", restarted, len(n.pushes))
			}
		}
		put(`{"push":{"number":50,"generation":"","digest":{},"for":{},"at":"2000-01-01T00:00:00Z"},"adopted":true,"newField":1}`)
		r.pass(time.Minute)
		r.wants(c, "n1", "InSync")
		if e, _, _ := r.store.Get(r.Context(), key); !strings.Contains(string(e.Value), `"newField":1`) ||
			len(n.pushes) == 0 || n.pushes[0].Attempt != 51 {
			t.Errorf("%s, %d pushes", e.Value, len(n.pushes))
		}
	})
}

// An operator's decision on a node whose record can't be read would be lost: the controller refuses it and says what
// helps. A node that joins again continues its count, and the unreadable record is kept.
func TestAnUnreadNodeTakesNoActsAndJoinsAnew(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		r.synced(c, "n1")
		n := r.nodes["n1"]
		key := history.PushKey(n.id)
		const damaged = `{"push":{"number":50,"digest":7},"has":[]}`
		if _, err := r.store.Commit(r.Context(), kv.Txn{Then: []kv.Op{kv.Put(key, []byte(damaged))}}); err != nil {
			t.Fatal(err)
		}
		r.pass(5 * time.Second)
		for _, what := range []fleetapi.Command{fleetapi.Retry, fleetapi.Release, fleetapi.AdoptReplace} {
			if err := c.Command(r.Context(), alice, "n1", what); !errors.Is(err, fleetapi.ErrRefused) ||
				!strings.Contains(err.Error(), "edgespan nodes replace") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if e, _, _ := r.store.Get(r.Context(), key); string(e.Value) != damaged {
			t.Errorf("it is written over by %s", e.Value)
		}
		if err := c.Command(r.Context(), alice, "n1", fleetapi.Forget); err != nil {
			t.Fatal(err)
		}
		r.pass(5 * time.Second)
		n.cut()
		inv, err := c.Invite(r.Context(), alice, "n1", time.Hour, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := refusal(c.Join(r.Context(),
			nodeproto.Join{Token: inv.Token, Name: "n1", Node: n.id, Key: "key-n1"})); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Second)
		r.behave("n1", func(n *fakeNode) { n.pushes = nil })
		n.connect(c)
		r.network(c, `{"envParams":{"B":"z"}}`)
		r.pass(5 * time.Minute)
		if e, _, _ := r.store.Get(r.Context(), history.DamagedKey(n.id)); string(e.Value) != damaged {
			t.Errorf("kept is %q", e.Value)
		}
		if err := c.Command(r.Context(), alice, "n1", fleetapi.AdoptReplace); err != nil {
			t.Error(err)
		}
		r.pass(5 * time.Minute)
		r.wants(c, "n1", "InSync")
		if len(n.pushes) == 0 || n.pushes[0].Attempt <= 50 {
			t.Errorf("pushes: %+v", n.pushes)
		}
	})
}
