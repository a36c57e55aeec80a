package history

import (
	"errors"
	"testing"
	"time"

	"edgespan/config/kv"
)

// objectCount returns the number of objects in the store.
func (s *store) objectCount(t tester) int {
	t.Helper()
	return len(ok(s.List(folderObjects, kv.ListOptions{}))(t).Entries)
}

// sweep sweeps until nothing is left.
func (s *store) sweep(t tester, before time.Time) int {
	t.Helper()
	sweep := ok(NewSweep(s, before))(t)
	var at kv.Revision
	for i := range sweep.Parts {
		txn := sweep.Txn(i, at)
		outcome := ok(s.Commit(txn))(t)
		if !outcome.Succeeded {
			t.Fatalf("part %d is not swept", i)
		}
		at = outcome.Revision
	}
	return len(sweep.Parts)
}

func TestASweepTakesWhatAWriteThatDiedLeft(t *testing.T) {
	for _, first := range []Change{{}, {Layers: layersFrom(t, `network={"a":1}; node/node-00003={"name":"x 3"}`)}} {
		s := newStore()
		if first.Layers != nil {
			s.write(t, first)
		}
		clean := s.objectCount(t)
		p := ok(s.head(t).Plan(signed(Change{Author: "bob", Layers: many(500, "x")})))(t)
		if err := s.runPlan(p, len(p.Txns)-1); err != nil {
			t.Fatal(err)
		}
		before := tell(t, s.head(t))
		equal(t, "too young to be swept", s.sweep(t, start), 0)
		left := ok(NewSweep(s, start.Add(time.Second)))(t)
		equal(t, "author", left.Parts[0].Author, "bob")
		equal(t, "parts", s.sweep(t, start.Add(time.Second)), len(p.Txns)-1)
		equal(t, "objects", s.objectCount(t), clean)
		equal(t, "change-sets", len(ok(s.List(folderSets, kv.ListOptions{}))(t).Entries), 0)
		equal(t, "state", tell(t, s.head(t)), before)
		equal(t, "nothing more", s.sweep(t, start.Add(time.Second)), 0)

		// The write that seemed dead continues: too late.
		equal(t, "its last transaction", errors.Is(s.runPlan(CommitPlan{Txns: p.Txns[len(p.Txns)-1:]}, 1), errMoved), true)
		s.write(t, Change{Layers: many(500, "x")})
		equal(t, "all are read", len(ok(s.head(t).AllLayers())(t)) >= 500, true)
	}
}

func TestASweepLeavesWhatAnotherWriteHas(t *testing.T) {
	s := newStore()
	dead := ok(s.head(t).Plan(signed(Change{Layers: many(400, "x")})))(t)
	if err := s.runPlan(dead, len(dead.Txns)-1); err != nil {
		t.Fatal(err)
	}
	// The same documents again, by a write that is alive, and by one that is done.
	later := start.Add(time.Minute)
	c := signed(Change{Layers: many(200, "x"), Time: later})
	live := ok(s.head(t).Plan(c))(t)
	if err := s.runPlan(live, len(live.Txns)-1); err != nil {
		t.Fatal(err)
	}
	sweep := ok(NewSweep(s, later))(t)
	for i, part := range sweep.Parts {
		for _, hash := range part.Objects {
			for _, txn := range live.Txns {
				for _, op := range txn.Then {
					if op.Key == objectKey(hash) {
						t.Fatalf("part %d takes %s, which a write under way has", i, hash)
					}
				}
			}
		}
	}
	if err := s.runPlan(CommitPlan{Txns: live.Txns[len(live.Txns)-1:]}, 1); err != nil {
		t.Fatal(err)
	}
	equal(t, "a sweep that was found before", ok(s.Commit(sweep.Txn(0, 0)))(t).Succeeded, false)
	s.sweep(t, later)
	equal(t, "layers", len(ok(s.head(t).AllLayers())(t)), 200)
}
