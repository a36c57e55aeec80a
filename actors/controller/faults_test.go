package controller

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"edgespan/platform/store/bolt"
)

// TestFaultyHistories: a thousand histories on the embedded store itself, on a fake clock.
// EDGESPAN_HISTORY=n runs the one that failed again: its steps are the same, what happens within
// one moment may come in another order.
func TestFaultyHistories(t *testing.T) {
	first, n := 0, histories(t, 1000)
	if text := os.Getenv("EDGESPAN_HISTORY"); text != "" {
		var err error
		if first, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
		n = 1
	}
	pushes, batches, gates, ops := 0, 0, 0, 0
	for i := first; i < first+n; i++ {
		ok := t.Run(fmt.Sprint(i), func(t *testing.T) {
			dir := t.TempDir()
			onRig(t, func(r *rig) {
				s, err := bolt.Open(filepath.Join(dir, "store.db"), bolt.Options{UnsafeNoSync: true})
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					for name := range r.replicas {
						r.stop(name)
					}
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}()
				w := newFaulty(r, &common{Store: s, exact: true, compact: s.Compact}, uint64(i))
				w.run(8 + w.rand.IntN(20))
				pushes, gates, ops = pushes+w.pushes, gates+w.audit.gates, ops+len(w.ops)
				batches += w.audit.batches
			})
		})
		if !ok {
			t.Fatalf("history %d: EDGESPAN_HISTORY=%d runs it again", i, i)
		}
	}
	t.Logf("%d histories: %d asked for by operators, %d pushes, %d gates, %d batches", n, ops, pushes, gates, batches)
	if n >= 100 && (gates < n || pushes < gates) {
		t.Errorf("too little happens: %d gates, %d pushes", gates, pushes)
	}
}
