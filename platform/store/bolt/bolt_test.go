package bolt

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"edgespan/config/kv"
	"edgespan/platform/store/conformance"
)

// fakeClock advances when the test advances it.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	alarms map[chan time.Time]time.Time
}

func newClock() *fakeClock {
	return &fakeClock{now: time.Unix(1_000_000, 0), alarms: map[chan time.Time]time.Time{}}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	alarm := make(chan time.Time, 1)
	c.alarms[alarm] = c.now.Add(d)
	c.ring()
	return alarm
}

func (c *fakeClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.ring()
}

func (c *fakeClock) ring() {
	for alarm, at := range c.alarms {
		if !at.After(c.now) {
			alarm <- c.now
			delete(c.alarms, alarm)
		}
	}
}

func opened(t *testing.T, path string, o Options) *Store {
	t.Helper()
	s, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Fixture {
		clock := newClock()
		s := opened(t, filepath.Join(t.TempDir(), "store"), Options{Clock: clock, UnsafeNoSync: true})
		return conformance.Fixture{Store: s, Clock: clock, Advance: clock.Advance}
	}, 1000)
}

// TestReadingWaitsForNoWriter stops the writer in the middle of a batch: a read-only transaction succeeds, on what was
// acknowledged.
func TestReadingWaitsForNoWriter(t *testing.T) {
	s := opened(t, filepath.Join(t.TempDir(), "store"), Options{UnsafeNoSync: true})
	before, err := s.Commit(t.Context(), kv.Txn{Then: []kv.Op{kv.Put("a", []byte("1"))}})
	if err != nil {
		t.Fatal(err)
	}
	began, hold, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.submit(t.Context(), 0, func(w *write) error {
			_, err := w.txn(kv.Txn{Then: []kv.Op{kv.Put("a", []byte("2"))}})
			close(began)
			<-hold
			return err
		})
	}()
	<-began
	for _, holds := range []bool{true, false} {
		o, err := s.Commit(t.Context(), kv.Txn{
			Compares: []kv.Compare{{Kind: kv.CompareExists, Key: "a", Exists: holds}},
			Then:     []kv.Op{kv.Get("a"), kv.Get("b")}, Else: []kv.Op{kv.Get("a")},
		})
		if err != nil || o.Succeeded != holds || o.Revision != before.Revision || string(o.Results[0].Entry.Value) != "1" {
			t.Errorf("%+v, %v", o, err)
		}
	}
	close(hold)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
