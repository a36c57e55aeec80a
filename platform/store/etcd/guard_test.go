package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/config/kv"
)

// Members are disconnected and come back, while no call is in flight and while writers write: nothing deadlocks, and
// the store works throughout.
func TestMembersAreLeftAndComeBack(t *testing.T) {
	other := strings.Replace(endpoint(), "127.0.0.1", "localhost", 1)
	s, err := Open(t.Context(), Options{Endpoints: []string{endpoint(), other}, Fleet: fmt.Sprint("fleet-", fleets.Add(1))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		defer close(done)
		for i := range 50 {
			m := s.guard.members[i%2]
			s.guard.answered(m, false, 0)
			if _, _, err := s.Get(ctx, "any"); err != nil {
				done <- err
				return
			}
			s.guard.answered(m, true, 0)
			if _, _, err := s.Get(ctx, "any"); err != nil {
				done <- err
				return
			}
		}
		done <- s.Close()
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Fatal("it hangs")
	}
}

// A write in flight when the cluster elects another leader ends with an unknown outcome; one that begins after it does
// not.
func TestAWriteEndsWithItsLeader(t *testing.T) {
	s := opened(t)
	term := func() uint64 {
		s.guard.mu.Lock()
		defer s.guard.mu.Unlock()
		return s.guard.term
	}
	for term() == 0 { // the first answer arrives in a moment
		time.Sleep(time.Millisecond)
	}
	old, done := s.guard.watch(t.Context())
	defer done()
	s.guard.answered(s.guard.members[0], true, term()+1)
	young, done := s.guard.watch(t.Context())
	defer done()
	select {
	case <-old.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("a write of before waits")
	}
	if err := s.classifyError(old, old.Err()); !errors.Is(err, errLeader) {
		t.Errorf("it is told %v", err)
	}
	if young.Err() != nil {
		t.Error("a write of after has ended, too")
	}
	if _, err := s.Commit(t.Context(), kv.Txn{Then: []kv.Op{kv.Put("a", nil)}}); err != nil {
		t.Error(err)
	}
}
