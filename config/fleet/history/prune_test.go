package history

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/kv"
)

// prune runs the first limit transactions of a prune.
func (s *store) prune(t tester, p Prune, limit int) {
	t.Helper()
	at := p.Head()
	for n := range min(p.Txns(), limit) {
		outcome := ok(s.Commit(ok(p.Txn(n, at))(t)))(t)
		if !outcome.Succeeded {
			t.Fatalf("transaction %d has not succeeded", n)
		}
		at = outcome.Revision
	}
}

// aged writes a layer once an hour, and another one in the first hours only.
func aged(t tester, hours int) *store {
	s := newStore()
	for n := range hours {
		c := Change{Author: "alice", Time: start.Add(time.Duration(n) * time.Hour),
			Layers: layersFrom(t, fmt.Sprintf(`network={"n":%d}`, n))}
		if n < 3 {
			c.Layers[Layer{Node, "early"}] = config.Object{"n": int64(n)}
		}
		p := ok(s.head(t).Plan(c))(t)
		if err := s.runPlan(p, len(p.Txns)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestAPruneTakesWhatIsOld(t *testing.T) {
	early := Layer{Node, "early"}
	for _, c := range []struct {
		name   string
		before time.Duration
		limit  uint64
		from   uint64
	}{
		{"nothing is old", 0, 0, 1},
		{"by age", 40 * time.Hour, 0, 41},
		{"of another one's time zone and between two", 40*time.Hour - time.Minute, 0, 41},
		{"the newest stay", 1000 * time.Hour, 0, 81},
		{"what somebody needs stays", 1000 * time.Hour, 30, 30},
	} {
		for _, cut := range []bool{false, true} {
			s := aged(t, 100)
			now := tell(t, s.head(t))
			before := s.objectCount(t)
			p := ok(NewPrune(s, start.Add(c.before), c.limit, "ann", start))(t)
			if cut { // the first prune dies midway, and another one completes it
				s.prune(t, p, 1)
				equal(t, c.name, p.Edge.From, c.from)
				p = ok(NewPrune(s, start, 0, "bob", start))(t)
			}
			s.prune(t, p, 1000)
			head := s.head(t)
			equal(t, c.name+": the state", tell(t, head), now)
			equal(t, c.name+": the history begins at", p.Edge.From, c.from)
			equal(t, c.name+": its length", len(ok(head.Log(0))(t)), int(101-c.from))
			if last := len(ok(s.List(folderRevisions, kv.ListOptions{}))(t).Entries); c.from > 3 && last != int(101-c.from)+1 {
				t.Errorf("%s: %d records are left", c.name, last) // and the last one of the author who wrote early
			}
			if c.from > 1 && s.objectCount(t) >= before-int(c.from) {
				t.Errorf("%s: %d objects of %d are left", c.name, s.objectCount(t), before)
			}
			for n := uint64(1); n <= 100; n++ {
				state, err := At(s, n)
				if n < c.from {
					if none := (*NoRevisionError)(nil); !errors.As(err, &none) || none.Number != n {
						t.Errorf("%s: revision %d: %v", c.name, n, err)
					}
					continue
				}
				if _, all := state.AllLayers(); err != nil || all != nil {
					t.Errorf("%s: revision %d: %v %v", c.name, n, err, all)
				}
			}
			editions := ok(head.History(early, 0))(t)
			if c.from > 3 && (len(editions) != 1 || editions[0].By.Number != 3) {
				t.Errorf("%s: the history of a layer that is older than it: %+v", c.name, editions)
			}
			if _, err := head.Plan(signed(Change{Layers: layersFrom(t, `network={}`),
				IfMatch: map[Layer]uint64{early: 1}})); !errors.As(err, new(Conflicts)) {
				t.Errorf("%s: a write that is bound to what is gone: %v", c.name, err)
			}
			if _, err := head.Revert(c.from); c.from > 1 && !errors.As(err, new(*NoRevisionError)) {
				t.Errorf("%s: the first revision is reverted: %v", c.name, err)
			}
			if _, err := head.Restore(c.from); err != nil {
				t.Errorf("%s: the first revision is not restored: %v", c.name, err)
			}
			equal(t, c.name+": once more", ok(NewPrune(s, start, 0, "bob", start))(t).Txns(), 0)
		}
	}
}

// A write that was planned on an object that is pruned meanwhile is planned again.
func TestAPruneBesideWrites(t *testing.T) {
	s := aged(t, 60)
	// as of the eighth hour
	planned := ok(s.head(t).Plan(signed(Change{Layers: layersFrom(t, `network={"n":7}`)})))(t)
	p := ok(NewPrune(s, start.Add(30*time.Hour), 0, "ann", start))(t)
	s.prune(t, p, 1000)
	if err := s.runPlan(planned, len(planned.Txns)); !errors.Is(err, errMoved) {
		t.Errorf("it is done: %v", err)
	}
	s.write(t, Change{Layers: layersFrom(t, `network={"n":7}`)})
	if all, err := s.head(t).AllLayers(); err != nil || len(all) != 2 {
		t.Errorf("%d layers, %v", len(all), err)
	}
	late := ok(NewPrune(s, start.Add(40*time.Hour), 0, "ann", start))(t)
	s.write(t, Change{Layers: layersFrom(t, `network={"n":8}`)})
	if o := ok(s.Commit(ok(late.Txn(0, late.Head()))(t)))(t); o.Succeeded {
		t.Error("a prune of before a write goes on")
	}
}
