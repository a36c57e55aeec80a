package controller

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"edgespan/platform/store/bolt"
)

// TestFaultyHistories runs a thousand histories on the embedded store itself, on a fake clock. EDGESPAN_HISTORY=n
// repeats history n, or starts with it: its steps are the same, but what happens at one moment may come in another
// order.
func TestFaultyHistories(t *testing.T) {
	first, n := 0, histories(t, 1000)
	if text := os.Getenv("EDGESPAN_HISTORY"); text != "" {
		var err error
		if first, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		if os.Getenv("EDGESPAN_HISTORIES") == "" {
			n = 1
		}
	}
	var pushes, batches, gates, ops atomic.Int64
	for i := first; i < first+n; i++ {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			w := embedded(t, uint64(i))
			pushes.Add(int64(w.pushes))
			gates.Add(int64(w.audit.gates))
			batches.Add(int64(w.audit.batches))
			ops.Add(int64(len(w.ops)))
		})
	}
	t.Cleanup(func() {
		t.Logf("%d histories: %d asked for by operators, %d pushes, %d gates, %d batches", n, ops.Load(), pushes.Load(),
			gates.Load(), batches.Load())
		if n >= 100 && (gates.Load() < int64(n) || pushes.Load() < gates.Load()) {
			t.Errorf("too little happens: %d gates, %d pushes", gates.Load(), pushes.Load())
		}
	})
}

// embedded runs one history on a bbolt file.
func embedded(t *testing.T, seed uint64) (w *faulty) {
	t.Helper()
	dir := t.TempDir()
	onRig(t, func(r *rig) {
		s, err := bolt.Open(filepath.Join(dir, "store.db"), bolt.Options{UnsafeNoSync: true})
		if err != nil {
			r.Fatal(err)
		}
		defer func() {
			for name := range r.replicas {
				r.stop(name)
			}
			r.pass(time.Minute) // until the last lost stream has ended
			if err := s.Close(); err != nil {
				r.Error(err)
			}
		}()
		w = newFaulty(r, &common{Store: s, exact: true, compact: s.Compact}, seed)
		w.run(8 + w.rand.IntN(20))
	})
	if t.Failed() {
		t.Logf("EDGESPAN_HISTORY=%d runs it again", seed)
	}
	return w
}
