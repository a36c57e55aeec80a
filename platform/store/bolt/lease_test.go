package bolt

import (
	"path/filepath"
	"testing"
	"time"

	"edgespan/config/kv"
)

// TestALeaseKeptAliveInTheLastMomentStays: the owner may renew its lease between the moment the store sees it expired
// and the moment it ends it.
func TestALeaseKeptAliveInTheLastMomentStays(t *testing.T) {
	clock := newClock()
	s := opened(t, filepath.Join(t.TempDir(), "store"), Options{Clock: clock, UnsafeNoSync: true})
	id, err := s.Grant(t.Context(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, kv.PutLeased("l", nil, id))
	s.end(id)
	if keys, err := s.Keys(t.Context(), id); len(keys) != 1 || err != nil {
		t.Errorf("it is gone: %v %v", keys, err)
	}
}
