package controller

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/kv"
)

// onNextLeader runs a test in which a rollout to six nodes is under way, its leader is gone, and the next leader starts
// with a record that was changed meanwhile.
func onNextLeader(t *testing.T, change func(record []byte) []byte,
	f func(r *rig, b *Controller, logs *observer.ObservedLogs)) {
	t.Helper()
	onStaged(t, func(r *rig) {
		a := r.start("a")
		r.fleetOf(a, 6)
		r.behave("n1", silent)
		r.network(a, `{"sysParams":{"managedConfig":true},"envParams":{"B":"one"}}`)
		r.pass(30 * time.Second)
		r.is(a, "running", "one", "n0 n1 n2")
		r.stop("a")
		r.pass(time.Second)
		e, _, err := r.store.Get(r.Context(), staged.RolloutKey(1))
		if err == nil {
			_, err = r.store.Commit(r.Context(), kv.Txn{Then: []kv.Op{kv.Put(staged.RolloutKey(1), change(e.Value))}})
		}
		if err != nil {
			t.Fatal(err)
		}
		core, logs := observer.New(zap.InfoLevel)
		before := r.change
		r.change = func(o *Options) { before(o); o.Log = zap.New(core) }
		b := r.start("b")
		for _, n := range r.nodes {
			n.connect(b)
		}
		r.behave("n1", speaks)
		r.pass(5 * time.Minute)
		f(r, b, logs)
	})
}

// A rollout whose record can't be read, because it is damaged or a newer release changed a field's type, starts over,
// and this is logged once.
func TestARolloutWhoseRecordCantBeReadBeginsAnew(t *testing.T) {
	for _, text := range []string{"{", `{"revision":1,"left":["x"]}`, "null"} {
		t.Run(fmt.Sprintf("%q", text), func(t *testing.T) {
			t.Parallel()
			onNextLeader(t, func([]byte) []byte { return []byte(text) },
				func(r *rig, b *Controller, logs *observer.ObservedLogs) {
					r.is(b, "done", "one", "n0 n1 n2 n3 n4 n5")
					if n := logs.Len(); n > 10 || logs.FilterMessage("read a rollout: starting it again").Len() != 1 {
						t.Errorf("%d lines of log: %v", n, logs.All())
					}
				})
		})
	}
}

// Fields that a newer release keeps in the record of a rollout survive an older leader.
func TestARolloutKeepsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	onNextLeader(t, func(record []byte) []byte {
		text := strings.Replace(string(record), `{`, `{"news":{"a":[1]},`, 1)
		return []byte(strings.Replace(text, `"machine":{`, `"machine":{"more":7,`, 1))
	}, func(r *rig, b *Controller, _ *observer.ObservedLogs) {
		r.is(b, "done", "one", "n0 n1 n2 n3 n4 n5")
		e, _, err := r.store.Get(r.Context(), staged.RolloutKey(1))
		var got struct {
			News    json.RawMessage
			Machine struct{ More int }
		}
		if err == nil {
			err = json.Unmarshal(e.Value, &got)
		}
		if err != nil || string(got.News) != `{"a":[1]}` || got.Machine.More != 7 {
			t.Errorf("%v: %s", err, e.Value)
		}
	})
}
