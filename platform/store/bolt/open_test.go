package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"edgespan/config/kv"
)

func put(t *testing.T, s *Store, ops ...kv.Op) kv.Revision {
	t.Helper()
	out, err := s.Commit(t.Context(), kv.Txn{Then: ops})
	if err != nil {
		t.Fatal(err)
	}
	return out.Revision
}

func TestASecondControllerIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := opened(t, path, Options{})
	if _, err := Open(path, Options{}); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opened(t, path, Options{})
}

func TestTwoFirstOpensMakeOneStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	if err := create(path); err != nil {
		t.Fatal(err)
	}
	first, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := first.ID()
	if err := errors.Join(first.Close(), create(path)); err != nil { // the slower process
		t.Fatal(err)
	}
	if got := opened(t, path, Options{}).ID(); got != id {
		t.Errorf("the store has id %s, then %s", id, got)
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWhatIsNoStoreIsRefusedAndLeftAlone(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no store\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign")
	db, err := bbolt.Open(foreign, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	newer := filepath.Join(dir, "newer")
	opened(t, newer, Options{}).Close()
	db, err = bbolt.Open(newer, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(metaFormat, number(2)) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		text: "invalid", foreign: "not the store of a controller", newer: "unknown format 2: must be 1",
		filepath.Join(dir, "missing", "store"): "no such file",
	} {
		before, _ := os.ReadFile(path)
		if _, err := Open(path, Options{}); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
		if after, _ := os.ReadFile(path); string(before) != string(after) {
			t.Errorf("%s was changed", path)
		}
	}
}

func TestAllIsThereAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	clock := newClock()
	s := opened(t, path, Options{Clock: clock})
	id, err := s.Grant(t.Context(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, kv.Put("a", []byte("1")), kv.PutLeased("l", nil, id))
	at := put(t, s, kv.Put("a", []byte("2")))
	was := s.ID()
	clock.Advance(9 * time.Second)
	s.Close()

	s = opened(t, path, Options{Clock: clock})
	if s.ID() != was {
		t.Error("the id is another")
	}
	e, now, err := s.Get(t.Context(), "a")
	if got := fmt.Sprintf("%s %d %d %d %v", e.Value, e.ModRevision, e.Version, now,
		err); got != fmt.Sprintf("2 %d 2 %d <nil>", at, at) {
		t.Error("got", got)
	}
	page, err := s.List(t.Context(), "", kv.ListOptions{At: at - 1})
	if err != nil || string(page.Entries[0].Value) != "1" {
		t.Errorf("the history is lost: %v %v", page, err)
	}
	clock.Advance(9 * time.Second) // 18 s after the grant, 9 s after the restart
	if keys, err := s.Keys(t.Context(), id); len(keys) != 1 || err != nil {
		t.Errorf("the lease ended early: %v %v", keys, err)
	}
	gone := make(chan error, 1)
	go func() {
		gone <- s.Watch(context.Background(), "", at, func(b kv.Batch) error { return fmt.Errorf("revision %d", b.Revision) })
	}()
	clock.Advance(time.Second)
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the lease did not end")
	}
	second, err := s.Grant(t.Context(), 10*time.Second)
	if err != nil || second == id {
		t.Errorf("lease %d again: %v", second, err)
	}
}

// TestACompactionThatWasCutShortGoesOn leaves the file as a crash after the first step of a compaction does.
func TestACompactionThatWasCutShortGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store")
	s := opened(t, path, Options{UnsafeNoSync: true})
	for i := range 3*sweepRevisions + 7 {
		put(t, s, kv.Put("k", fmt.Append(nil, i)), kv.Put(kv.Key(fmt.Sprint("n/", i)), nil))
	}
	last := put(t, s, kv.DeletePrefix("n/"))
	err := s.submit(t.Context(), 0, func(w *write) error {
		w.dirty = true
		if err := w.meta.Put(metaCompacted, number(uint64(last))); err != nil {
			return err
		}
		_, err := w.sweep() // a part of it
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := counted(t, s, bucketHistory); n < sweepRevisions {
		t.Fatalf("nothing is left to do: %d", n)
	}
	s.Close()
	s = opened(t, path, Options{})
	if n := counted(t, s, bucketHistory); n != 1 {
		t.Errorf("%d revisions are left, 1 is wanted", n)
	}
	// A watch from the compacted revision needs the delete at that revision.
	if n, want := counted(t, s, bucketVersions), 1+3*sweepRevisions+7; n != want {
		t.Errorf("%d versions are left, %d are wanted", n, want)
	}
	if err := s.Compact(t.Context(), put(t, s, kv.Put("k", nil))); err != nil {
		t.Fatal(err)
	}
	if n := counted(t, s, bucketVersions); n != 1 {
		t.Errorf("%d versions are left, 1 is wanted", n)
	}
}

func counted(t *testing.T, s *Store, bucket []byte) (n int) {
	t.Helper()
	if err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(_, _ []byte) error { n++; return nil })
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestAfterADiskThatFailedNothingIsWritten: what a failed sync kept is unknown, so the store refuses writes until it is
// reopened.
func TestAfterADiskThatFailedNothingIsWritten(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "store"), Options{})
	put(t, s, kv.Put("a", []byte("1")))
	broken := errors.New("input/output error")
	err := s.submit(t.Context(), 0, func(w *write) error {
		c := change{write: w, revision: w.revision + 1}
		return errors.Join(c.put(kv.Put("a", []byte("2"))), c.record(), broken)
	})
	if !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	if _, err := s.Commit(t.Context(), kv.Txn{Then: []kv.Op{kv.Put("b", nil)}}); !errors.Is(err, broken) {
		t.Errorf("it writes on: %v", err)
	}
	if e, _, err := s.Get(t.Context(), "a"); string(e.Value) != "1" || err != nil {
		t.Errorf("the batch was not undone: %q %v", e.Value, err)
	}
}

// TestWritersShareASync: writers that wait while another's sync runs are synced together.
func TestWritersShareASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := opened(t, filepath.Join(t.TempDir(), "store"), Options{})
		defer s.Close()
		before := s.db.Stats().TxStats
		entered, leave := make(chan struct{}), make(chan struct{})
		go s.submit(context.Background(), 0,
			func(*write) error { close(entered); <-leave; return refusal{errors.New("busy")} })
		<-entered
		const n = 100
		done := make(chan error, n)
		for i := range n {
			go func() {
				_, err := s.Commit(context.Background(), kv.Txn{Then: []kv.Op{kv.Put(kv.Key(fmt.Sprint("k", i)), nil)}})
				done <- err
			}()
		}
		synctest.Wait() // all of them wait for the writer
		close(leave)
		for range n {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		_, now, err := s.Get(context.Background(), "k0")
		if now != n || err != nil {
			t.Errorf("%d writes made %d revisions: %v", n, now, err)
		}
		// One commit writes less than 20 pages, a hundred of them 400 and more.
		if w := s.db.Stats().TxStats; w.GetWrite()-before.GetWrite() > 20 {
			t.Errorf("%d writes took %d page writes", n, w.GetWrite()-before.GetWrite())
		}
	})
}
