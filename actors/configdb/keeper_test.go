package configdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/kv"
)

// onClock runs a test on a fake clock.
func onClock(t *testing.T, f func(*testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(10 * time.Second) }) // the library's count of letters that came too late
		f(t)
	})
}

func put(resource, value string, levels ...model.LevelValue) model.Put {
	return model.Put{Target: at(resource, levels...), Kind: model.Values, Value: configdb.JSON(value), Register: true}
}

func override(resource, value string, levels ...model.LevelValue) model.Put {
	p := put(resource, value, levels...)
	p.Kind = model.Overrides
	return p
}

func effective(resource string, levels ...model.LevelValue) model.Query {
	return model.Query{Target: at(resource, levels...), Kind: model.Values, Effective: true}
}

// TestWhatIsWrittenIsRead writes through one replica and reads through another, at once; a restart
// changes no answer and no ETag.
func TestWhatIsWrittenIsRead(t *testing.T) {
	stores(t, func(t *testing.T, s Store) {
		a, b := start(t, s), start(t, s)
		found(t, a, []string{"nodes"}, "astute")
		write(t, a, put("astute", `{"a":1,"b":1,"c":1}`))
		write(t, b, put("astute", `{"b":2.0,"c":2}`, node("n1")))
		write(t, a, override("astute", `{"c":3}`, node("n1")))
		q := effective("astute", node("n1"))
		for _, k := range []*Keeper{a, b} {
			if got := string(get(t, k, q).Body); got != `{"a":1,"b":2.0,"c":3}` {
				t.Errorf("effective is %s", got)
			}
		}
		w := write(t, b, put("astute", `{"b":5}`, node("n1")))
		if w.Version != 2 || !w.Changed {
			t.Errorf("the second upload is %+v", w)
		}
		if again := write(t, a, put("astute", `{"b":5}`, node("n1"))); again.Changed || again.Version != 2 ||
			again.Revision != w.Revision || again.ETag != w.ETag {
			t.Errorf("an equal upload is %+v after %+v", again, w)
		}
		old := q
		old.Version = 1
		before := []model.Answer{get(t, a, q), get(t, a, old), get(t, a, model.Query{Target: at("astute", node("n1"))})}
		if string(before[0].Body) != `{"a":1,"b":5,"c":3}` || string(before[1].Body) != `{"a":1,"b":2.0,"c":2}` {
			t.Errorf("now it is %s, at version 1 it was %s", before[0].Body, before[1].Body)
		}
		if before[2].ETag != w.ETag {
			t.Errorf("the write has the ETag %s, the values have %s", w.ETag, before[2].ETag)
		}
		c := start(t, s)
		for i, q := range []model.Query{q, old, {Target: at("astute", node("n1"))}} {
			if after := get(t, c, q); after.ETag != before[i].ETag || !bytes.Equal(after.Body, before[i].Body) ||
				after.Version != before[i].Version || after.Revision != before[i].Revision {
				t.Errorf("after a restart %+v has become %+v", before[i], after)
			}
		}
	})
}

func TestADryRunStoresNothing(t *testing.T) {
	k := start(t, newMemory())
	found(t, k, []string{"nodes"}, "astute")
	w, err := k.Write(t.Context(),
		configdbapi.WriteRequest{Author: "alice", Write: put("astute", `{"a":1}`), DryRun: true})
	if err != nil || !w.Changed || w.Version != 1 {
		t.Errorf("%+v, %v", w, err)
	}
	if got := get(t, k, effective("astute")); string(got.Body) != `{}` {
		t.Errorf("it has stored %s", got.Body)
	}
	write(t, k, put("astute", `{"a":1}`))
	write(t, k, model.DeclareSecrets{ID: 1, Keys: []string{"a"}})
	for _, sees := range []bool{false, true} { // who may not see it is not told that it is the stored one
		w, err := k.Write(t.Context(),
			configdbapi.WriteRequest{Author: "alice", Write: put("astute", `{"a":1}`), DryRun: true, Reveal: sees})
		if err != nil || w.Changed == sees {
			t.Errorf("sees secrets: %v: %+v, %v", sees, w, err)
		}
	}
}

// TestARefusalHurtsNobodyElse joins writes of which some are refused: the others take place.
func TestARefusalHurtsNobodyElse(t *testing.T) {
	w := &way{Store: newMemory()}
	k := start(t, w)
	found(t, k, []string{"nodes"}, "astute")
	hold := make(chan struct{})
	w.set(func(w *way) { w.lose = func(kv.Txn) (bool, bool) { <-hold; return false, false } })
	errs := make(chan error, 20)
	for i := range 20 {
		go func() {
			p := put("astute", fmt.Sprintf(`{"a":%d}`, i), node(fmt.Sprint(i)))
			if i%2 == 1 {
				p.Resource.Name = "absent"
			}
			_, err := k.Write(context.Background(), configdbapi.WriteRequest{Author: "alice", Write: p})
			if i%2 == 1 != isFault(err, model.NotFound) {
				err = fmt.Errorf("write %d: %w", i, err)
			} else {
				err = nil
			}
			errs <- err
		}()
	}
	close(hold)
	for range 20 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for i := range 20 {
		a, err := k.Answer(t.Context(), effective("astute", node(fmt.Sprint(i))), nil)
		if i%2 == 0 && string(a.Body) != fmt.Sprintf(`{"a":%d}`, i) || i%2 == 1 && (err != nil || string(a.Body) != "{}") {
			t.Errorf("node %d has %s, %v", i, a.Body, err)
		}
	}
}

// TestAWarmAnswerReadsNothing counts what is asked of the store: the head, and nothing else, also after a write that
// does not touch the answer.
func TestAWarmAnswerReadsNothing(t *testing.T) {
	w := &way{Store: newMemory()}
	k := start(t, w)
	found(t, k, []string{"nodes"}, "astute", "globals")
	write(t, k, put("astute", `{"a":1}`, node("n1")))
	q := effective("astute", node("n1"))
	first := get(t, k, q)
	k.d.blobs.clear()
	for i := range 3 {
		before := w.asked()
		again := get(t, k, q)
		if string(again.Body) != string(first.Body) || again.ETag != first.ETag {
			t.Errorf("%+v has become %+v", first, again)
		}
		a, err := k.Answer(t.Context(), q, []string{`"x"`, "W/" + first.ETag})
		if err != nil || a.Body != nil || a.ETag != first.ETag {
			t.Errorf("one who knows it is told %+v, %v", a, err)
		}
		if n := w.asked() - before; n != 2 {
			t.Errorf("two answers asked the store %d times", n)
		}
		write(t, k, put("globals", fmt.Sprintf(`{"a":%d}`, i), node("n1")))
		if i == 1 {
			write(t, k, put("globals", `{}`, node("n2")))
		}
	}
	if answers, documents := k.Caches(); answers != (CacheUse{Hits: 6, Misses: 1}) || documents.Misses == 0 {
		t.Errorf("the answers were used %+v, the documents %+v", answers, documents)
	}
	write(t, k, put("astute", `{"a":2}`))
	write(t, k, put("astute", `{"b":2}`, node("n1")))
	if got := get(t, k, q); string(got.Body) != `{"a":2,"b":2}` || got.ETag == first.ETag {
		t.Errorf("it is still %+v", got)
	}
}

// TestWhatIsMaskedIsNotMixedUp asks with and without the right to see secrets, in turns.
func TestWhatIsMaskedIsNotMixedUp(t *testing.T) {
	k := start(t, newMemory())
	ids := found(t, k, []string{"nodes"}, "astute")
	write(t, k, put("astute", `{"a":1,"password":"x"}`))
	write(t, k, model.DeclareSecrets{ID: ids["astute"], Keys: []string{"password"}})
	for range 2 {
		for _, reveal := range []bool{true, false} {
			q := effective("astute")
			q.Reveal = reveal
			if a := get(t, k, q); bytes.Contains(a.Body, []byte(`"x"`)) != reveal {
				t.Errorf("reveal %v: %s", reveal, a.Body)
			}
		}
	}
}

func TestNamesOfQueriesDiffer(t *testing.T) {
	base := effective("astute", node("n1"))
	seen := map[string]int{queryKey(base): -1}
	for i, change := range []func(*model.Query){
		func(q *model.Query) { q.Environment = 2 },
		func(q *model.Query) { q.Levels = nil },
		func(q *model.Query) { q.Levels = []model.LevelValue{{Level: "node", Value: "sn1"}} },
		func(q *model.Query) { q.Levels = []model.LevelValue{node("n1"), node("n1")} },
		func(q *model.Query) { q.Resource = model.Ref{ID: 5} },
		func(q *model.Query) { q.Resource = model.Ref{Name: "5"} },
		func(q *model.Query) { q.Kind = model.Overrides },
		func(q *model.Query) { q.Effective = false },
		func(q *model.Query) { q.Lookup = true },
		func(q *model.Query) { q.Key = []string{} },
		func(q *model.Query) { q.Key = []string{"a"} },
		func(q *model.Query) { q.Key = []string{"a", "b"} },
		func(q *model.Query) { q.Key = []string{"a1:b"} },
		func(q *model.Query) { q.Version = 1 },
		func(q *model.Query) { q.Revision = 1 },
		func(q *model.Query) { q.Deep = true },
		func(q *model.Query) { q.Reveal = true },
	} {
		q := base
		change(&q)
		if j, ok := seen[queryKey(q)]; ok {
			t.Errorf("queries %d and %d have one name: %s", i, j, queryKey(q))
		}
		seen[queryKey(q)] = i
	}
}

// TestRestartOnBolt closes the file and opens it again.
func TestRestartOnBolt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	var was model.Answer
	for i := range 3 {
		s := onBolt(t, path, true)
		k := start(t, s)
		if i == 0 {
			found(t, k, []string{"nodes"}, "astute")
			write(t, k, put("astute", `{"a":1}`, node("n1")))
		}
		a := get(t, k, effective("astute", node("n1")))
		if i > 0 && (a.ETag != was.ETag || string(a.Body) != string(was.Body) || a.Version != was.Version) {
			t.Errorf("%+v has become %+v", was, a)
		}
		was = a
		stop(t, k)
		if err := s.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
			t.Fatal(err)
		}
	}
}
