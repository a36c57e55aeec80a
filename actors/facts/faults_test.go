package facts

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/facts/ledger"
	"edgespan/config/httpapi/factsapi"
	"edgespan/config/revision"
)

// TestAReadWaitsForWhatOthersWrote holds back what a replica is told by the store: a read there waits for what
// another has acknowledged, and is told to come again where that takes too long.
func TestAReadWaitsForWhatOthersWrote(t *testing.T) {
	onClock(t, func(t *testing.T) {
		m := newMemory()
		slow := &way{Store: m}
		a, b := start(t, m), start(t, slow)
		found(t, a, []string{"nodes"}, "astute")
		write(t, a, put("astute", `{"a":1}`))
		get(t, b, effective("astute"))
		hold := make(chan struct{})
		slow.set(func(w *way) { w.hold = hold })
		write(t, a, put("astute", `{"a":2}`))
		began := time.Now()
		if _, err := b.Answer(t.Context(), effective("astute"), nil); !isFault(err, ledger.Busy) || time.Since(began) != readTimeout {
			t.Errorf("after %v the answer is %v, want busy after %v", time.Since(began), err, readTimeout)
		}
		time.AfterFunc(time.Second, func() { close(hold) })
		if got := get(t, b, effective("astute")); string(got.Body) != `{"a":2}` {
			t.Errorf("it was not waited for: %s", got.Body)
		}
	})
}

// TestAStoreThatIsAway cuts a replica off: it does not answer with what may be old, and goes on once it can.
func TestAStoreThatIsAway(t *testing.T) {
	onClock(t, func(t *testing.T) {
		m := newMemory()
		w := &way{Store: m}
		a, b := start(t, m), start(t, w)
		found(t, a, []string{"nodes"}, "astute")
		get(t, b, effective("astute"))
		w.set(func(w *way) { w.cut = true })
		w.breakWatch(errSevered)
		write(t, a, put("astute", `{"a":1}`))
		if _, err := b.Answer(t.Context(), effective("astute"), nil); !isFault(err, ledger.Busy) {
			t.Errorf("cut off, it answers %v", err)
		}
		if _, err := b.Write(t.Context(), factsapi.WriteRequest{Author: "alice", Write: put("astute", `{"a":2}`)}); !isFault(err, ledger.Busy) {
			t.Errorf("cut off, a write is %v", err)
		}
		w.set(func(w *way) { w.cut = false })
		if got := get(t, b, effective("astute")); string(got.Body) != `{"a":1}` {
			t.Errorf("it has %s", got.Body)
		}
	})
}

// TestAForgottenHistory compacts the store while a replica does not watch it, so that it has to read all again.
func TestAForgottenHistory(t *testing.T) {
	onClock(t, func(t *testing.T) {
		m := newMemory()
		w := &way{Store: m}
		a, b := start(t, m), start(t, w)
		found(t, a, []string{"nodes"}, "astute")
		write(t, a, put("astute", `{"a":1}`))
		get(t, b, effective("astute"))
		var heard []uint64
		go b.Watch(t.Context(), 0, func(r ledger.Record) error { heard = append(heard, r.Revision); return nil })
		synctest.Wait()
		w.breakWatch(errSevered)
		synctest.Wait()
		for i := range 5 {
			write(t, a, put("astute", fmt.Sprintf(`{"a":%d}`, i+2)))
		}
		_, now, _ := m.Get(t.Context(), ledger.HeadKey())
		if err := m.Compact(now); err != nil {
			t.Fatal(err)
		}
		if got := get(t, b, effective("astute")); string(got.Body) != `{"a":6}` {
			t.Errorf("it has %s", got.Body)
		}
		write(t, b, put("astute", `{"a":7}`))
		synctest.Wait()
		for i, r := range heard {
			if r != uint64(i+1) {
				t.Fatalf("who watches heard of %v", heard)
			}
		}
		if n := a.d.shown.now.Load().Revision(); uint64(len(heard)) != n {
			t.Errorf("who watches heard of %d revisions of %d", len(heard), n)
		}
	})
}

// TestAStoreThatWentBack gives a replica a store in which all that was kept is older, as after a restored backup.
func TestAStoreThatWentBack(t *testing.T) {
	onClock(t, func(t *testing.T) {
		m := newMemory()
		w := &way{Store: m}
		k := start(t, w)
		found(t, k, []string{"nodes"}, "astute")
		write(t, k, put("astute", `{"a":1}`))
		get(t, k, effective("astute"))
		empty := newMemory()
		w.set(func(w *way) { w.Store = empty })
		w.breakWatch(errSevered)
		time.Sleep(3 * storeBackoff)
		if _, err := k.Answer(t.Context(), effective("astute"), nil); !isFault(err, ledger.NotFound) {
			t.Errorf("it answers from the store before: %v", err)
		}
		found(t, k, []string{"nodes"}, "astute")
		write(t, k, put("astute", `{"a":2}`))
		if got := get(t, k, effective("astute")); string(got.Body) != `{"a":2}` {
			t.Errorf("it has %s", got.Body)
		}
	})
}

// TestACrashIsMended lets the store panic in the leaf of each actor: what waits is told, nothing else ends, and
// the next one works.
func TestACrashIsMended(t *testing.T) {
	onClock(t, func(t *testing.T) {
		w := &way{Store: newMemory()}
		k := start(t, w)
		found(t, k, []string{"nodes"}, "astute")
		for i := range 3 {
			w.set(func(w *way) { w.lose = func(revision.Txn) (bool, bool) { panic("disk") } })
			_, err := k.Write(t.Context(), factsapi.WriteRequest{Author: "alice", Write: put("astute", fmt.Sprintf(`{"a":%d}`, i))})
			if !isFault(err, ledger.Busy) || !strings.Contains(err.Error(), "crashed") {
				t.Fatalf("the writer crashed, and the write is %v", err)
			}
			w.set(func(w *way) { w.lose = nil })
			write(t, k, put("astute", fmt.Sprintf(`{"a":%d}`, i)))
			w.set(func(w *way) { w.panics = true })
			w.breakWatch(errSevered)
			if got := get(t, k, effective("astute")); string(got.Body) != fmt.Sprintf(`{"a":%d}`, i) {
				t.Errorf("it has %s", got.Body)
			}
		}
	})
}

// TestTooManyWrites holds a write on its way to the store until as many wait as may.
func TestTooManyWrites(t *testing.T) {
	onClock(t, func(t *testing.T) {
		w := &way{Store: newMemory()}
		k := start(t, w)
		found(t, k, []string{"nodes"}, "astute")
		hold := make(chan struct{})
		w.set(func(w *way) { w.lose = func(revision.Txn) (bool, bool) { <-hold; return false, false } })
		errs := make(chan error, mostWrites+11)
		for i := range mostWrites + 11 {
			go func() {
				_, err := k.Write(context.Background(), factsapi.WriteRequest{Author: "alice", Write: put("astute", fmt.Sprintf(`{"a":%d}`, i), node(fmt.Sprint(i)))})
				errs <- err
			}()
			synctest.Wait()
		}
		for range 10 {
			if err := <-errs; !isFault(err, ledger.Busy) {
				t.Errorf("too many wait, and one is told %v", err)
			}
		}
		close(hold)
		for range mostWrites + 1 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	})
}

// TestAWriteIsNotWaitedForForEver has a store that never answers.
func TestAWriteIsNotWaitedForForEver(t *testing.T) {
	onClock(t, func(t *testing.T) {
		w := &way{Store: newMemory()}
		k := start(t, w)
		found(t, k, []string{"nodes"}, "astute")
		w.set(func(w *way) { w.lose = func(revision.Txn) (bool, bool) { return true, false } })
		began := time.Now()
		_, err := k.Write(t.Context(), factsapi.WriteRequest{Author: "alice", Write: put("astute", `{"a":1}`)})
		if !isFault(err, ledger.Busy) || time.Since(began) > writeTimeout {
			t.Errorf("after %v it is %v", time.Since(began), err)
		}
		w.set(func(w *way) { w.lose = nil })
		write(t, k, put("astute", `{"a":2}`))
	})
}
