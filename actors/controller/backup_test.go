package controller

import (
	"bytes"
	"encoding/json"
	"testing"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/fleet/backup"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/kv"
)

// modelReader adapts a model to the reader that config/fleet/history expects.
type modelReader struct{ *kv.Model }

func (modelReader) Get(...kv.Key) ([]kv.Entry, error) { return nil, nil }

// TestARestoreHoldsBackWhatWasAborted writes the record of an aborted rollout as this package stores it. What its
// barrier held back in the old store, it holds back in the restored one, whose revisions differ, and nothing else.
func TestARestoreHoldsBackWhatWasAborted(t *testing.T) {
	old, restored := modelReader{kv.NewModel()}, kv.NewModel()
	put := func(k kv.Key, v any) kv.Revision {
		t.Helper()
		o, err := old.Commit(kv.Txn{Then: []kv.Op{kv.Put(k, storage.Encode(v))}})
		if err != nil {
			t.Fatal(err)
		}
		return o.Revision
	}
	for range 300 {
		put(history.HeadKey(), 1)
	}
	counted := fleet.Counted{Generation: fleet.Generation{Authority: "old", Counter: 3}}
	barrier := put(history.GenerationKey("held"), counted)
	record := staged.RolloutRecord{Revision: 9, End: staged.EndAborted, Barrier: barrier, Message: "kept"}
	put(history.GenerationKey("free"), counted)
	put(staged.RolloutKey(9), record)

	s, err := backup.Open(old, backup.Header{Store: "old"})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := s.Write(old, &text); err != nil {
		t.Fatal(err)
	}
	c, err := backup.Read(bytes.NewReader(text.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Restore(backup.Mark{ID: "a"})
	if err != nil {
		t.Fatal(err)
	}
	r.SetTarget("new")
	for txn, more := r.Begin(kv.Entry{}), true; more; {
		o, err := restored.Commit(txn)
		if err != nil || !o.Succeeded {
			t.Fatalf("%+v, %v", o, err)
		}
		if txn, more, err = r.Next(o.Revision); err != nil {
			t.Fatal(err)
		}
	}
	at := func(k kv.Key) kv.Entry {
		e, _, err := restored.Get(k)
		if err != nil || !e.Exists() {
			t.Fatalf("%s: %+v, %v", k, e, err)
		}
		return e
	}
	var got staged.RolloutRecord
	if err := json.Unmarshal(at(staged.RolloutKey(9)).Value, &got); err != nil || got.Message != "kept" ||
		got.End != staged.EndAborted || got.Revision != 9 {
		t.Errorf("%+v, %v", got, err)
	}
	held, free := at(history.GenerationKey("held")).ModRevision, at(history.GenerationKey("free")).ModRevision
	if got.Barrier == barrier || held > got.Barrier || free <= got.Barrier {
		t.Errorf("the barrier is %d, held at %d, free at %d", got.Barrier, held, free)
	}
}
