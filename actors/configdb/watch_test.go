package configdb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/configdb/model"
	"edgespan/config/fleet/backup"
	"edgespan/config/kv"
)

// TestWatchTellsAllInOrder watches from the begin, from the middle and from now, through two replicas, one of them so
// far behind that it has to read the store; one who does not listen holds nobody up.
func TestWatchTellsAllInOrder(t *testing.T) {
	stores(t, func(t *testing.T, s Store) {
		a, b := start(t, s), start(t, s)
		found(t, a, []string{"nodes"}, "astute")
		const writes = 3 * watchPage
		for i := range writes {
			write(t, a, put("astute", fmt.Sprintf(`{"a":%d}`, i)))
		}
		state, err := b.d.currentState(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last := state.Revision()
		deaf := make(chan struct{})
		defer close(deaf)
		go b.Watch(t.Context(), 0, func(model.Record) error { <-deaf; return nil })
		c := start(t, s) // it has nothing of the past in memory
		done := errors.New("done")
		for i, k := range []*Keeper{a, b, c} {
			for _, after := range []uint64{0, last / 2, last - 1, last} {
				next, end := after, last+uint64(i)+1
				heard := make(chan error, 1)
				ready := make(chan struct{}, 1)
				go func() {
					heard <- k.Watch(t.Context(), after, func(r model.Record) error {
						if next++; r.Revision != next || r.Author != "alice" || len(r.Changes) == 0 {
							return fmt.Errorf("after %d it is told %+v", next-1, r)
						}
						if next == last {
							ready <- struct{}{}
						}
						if next == end {
							return done
						}
						return nil
					})
				}()
				if after < last {
					<-ready
				}
				if after == 0 { // one write for each replica
					write(t, b, put("astute", fmt.Sprintf(`{"b":%d}`, i)))
				}
				if err := <-heard; !errors.Is(err, done) {
					t.Errorf("replica %d from %d: %v", i, after, err)
				}
			}
		}
	})
}

func TestAWatchEnds(t *testing.T) {
	onClock(t, func(t *testing.T) {
		k := start(t, newMemory())
		if err := k.Watch(t.Context(), 7, nil); !isFault(err, model.Invalid) {
			t.Errorf("from a revision that is not there it is %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- k.Watch(ctx, 0, nil) }()
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("its own end is %v", err)
		}
		go func() { ended <- k.Watch(t.Context(), 0, nil) }()
		synctest.Wait()
		stop(t, k)
		if err := <-ended; !isFault(err, model.Busy) {
			t.Errorf("the replica's end is %v", err)
		}
	})
}

func TestRecentForgetsTheOldest(t *testing.T) {
	var r recent
	r.init()
	add := func(n uint64, size int) {
		text := fmt.Sprintf(`{"revision":%d,"time":"2026-01-01T00:00:00Z","author":"a","message":"%s","changes":[]}`, n,
			strings.Repeat("x", size))
		err := r.add(kv.Batch{Events: []kv.Event{{Kind: kv.EventPut,
			Entry: kv.Entry{Key: kv.Key(fmt.Sprintf("%s%016x", inRevisions, n)), Value: []byte(text)}}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range uint64(3000) {
		add(n+1, 1)
	}
	if _, kept, _ := r.since(3000 - maxRecent - 1); kept {
		t.Error("it keeps more than it may")
	}
	if got, kept, _ := r.since(3000 - maxRecent); !kept || len(got) != maxRecent || got[0].Revision != 3001-maxRecent {
		t.Errorf("it keeps %d", len(got))
	}
	for n := range uint64(10) {
		add(3001+n, maxRecentBytes/4)
	}
	if r.size > maxRecentBytes || len(r.records) > 4 {
		t.Errorf("it keeps %d records of %d bytes", len(r.records), r.size)
	}
	r.skip(4000)
	if got, kept, _ := r.since(4000); !kept || got != nil {
		t.Errorf("%v, %v", got, kept)
	}
	if _, kept, _ := r.since(3999); kept {
		t.Error("it has what it was not told")
	}
}

// TestABackupHasTheFacts writes a backup and reads it into another store: answers, versions, ETags and the history
// are the same.
func TestABackupHasTheFacts(t *testing.T) {
	old, restored := newMemory(), newMemory()
	k := start(t, old)
	ids := found(t, k, []string{"role", "nodes"}, "astute", "globals")
	place := []model.LevelValue{{Level: "role", Value: "compute"}, node("n1")}
	for i := range 5 {
		write(t, k, put("astute", fmt.Sprintf(`{"a":%d}`, i), place...))
		write(t, k, override("astute", fmt.Sprintf(`{"b":%d.0}`, i), place[:1]...))
	}
	write(t, k, model.DeclareSecrets{ID: ids["globals"], Keys: []string{"x"}})
	for range 300 { // so that the stores' revisions differ
		write(t, k, put("globals", fmt.Sprintf(`{"x":%q}`, time.Now())))
	}
	restore(t, old, restored)
	r := start(t, restored)
	for _, q := range []model.Query{
		effective("astute", place...),
		{Target: at("astute", place...)},
		{Target: at("astute", place...), Version: 2},
		{Target: at("globals")},
		{Target: at("astute", place[:1]...), Kind: model.Overrides},
		{Target: at("astute", place...), Effective: true, Revision: 9},
	} {
		was, now := get(t, k, q), get(t, r, q)
		if was.ETag != now.ETag || !bytes.Equal(was.Body, now.Body) || was.Version != now.Version ||
			was.Revision != now.Revision {
			t.Errorf("%+v has become %+v", was, now)
		}
	}
	was, err := k.Records(t.Context(), model.RecordsQuery{})
	if err != nil {
		t.Fatal(err)
	}
	now, err := r.Records(t.Context(), model.RecordsQuery{})
	if err != nil || fmt.Sprint(was) != fmt.Sprint(now) {
		t.Errorf("the history of %d revisions has become one of %d, %v", len(was), len(now), err)
	}
	if w := write(t, r, put("astute", `{"a":99}`, place...)); w.Version != 6 {
		t.Errorf("the next version is %d, want 6", w.Version)
	}
}

// reads is a store as config/fleet/backup reads it.
type reads struct{ *memory }

func (r reads) Get(...kv.Key) ([]kv.Entry, error) { return nil, nil }

func (r reads) List(p kv.Prefix, o kv.ListOptions) (kv.Page, error) {
	return r.memory.List(context.Background(), p, o)
}

// restore copies a store as a backup does.
func restore(t *testing.T, from, to *memory) {
	t.Helper()
	s, err := backup.Open(reads{from}, backup.Header{Store: "old"})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := s.Write(reads{from}, &text); err != nil {
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
		o, err := to.Commit(t.Context(), txn)
		if err != nil || !o.Succeeded {
			t.Fatalf("%+v, %v", o, err)
		}
		if txn, more, err = r.Next(o.Revision); err != nil {
			t.Fatal(err)
		}
	}
}
