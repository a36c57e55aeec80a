package serve

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/cmd/edgespan-controller/ctltest"
	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
)

// Bounds of the test below.
const (
	kills       = 200
	killsShort  = 10
	killBudget  = 90 * time.Second // after it no further kill
	killWriters = 4
)

// victim is a controller that is written to until it is killed.
type victim struct{ *ctltest.Process }

// TestKilledAtAnyInstantTheControllerKeepsWhatItAcknowledged writes from several clients,
// kills the process with SIGKILL at a random instant, and looks after the restart: of each
// writer there is what was acknowledged last, or the one write whose answer got lost.
func TestKilledAtAnyInstantTheControllerKeepsWhatItAcknowledged(t *testing.T) {
	rounds := kills
	if testing.Short() {
		rounds = killsShort
	}
	dir := t.TempDir()
	acked, sent := make([]int, killWriters), make([]int, killWriters)
	reported := map[uint64]string{} // what was acknowledged, by revision
	var lastRevision uint64
	end := time.Now().Add(killBudget)
	done, writes := 0, 0
	for ; done < rounds && time.Now().Before(end); done++ {
		v := victim{ctltest.StartProcess(t, dir)}
		revision := v.check(t, acked, sent)
		v.checkHistory(t, reported)
		if revision < lastRevision {
			t.Fatalf("kill %d: the history went back from revision %d to %d", done, lastRevision, revision)
		}
		before := sum(acked)
		lastRevision = max(revision,
			v.writeUntilKilled(t, acked, sent, reported, time.Duration(rand.IntN(40_000))*time.Microsecond))
		writes += sum(acked) - before
		if t.Failed() {
			return
		}
	}
	v := victim{ctltest.StartProcess(t, dir)}
	v.check(t, acked, sent)
	v.checkHistory(t, reported)
	v.Kill(t)
	t.Logf("%d kills, %d acknowledged writes", done, writes)
	if done < killsShort || writes < done {
		t.Errorf("%d kills and %d writes say little", done, writes)
	}
}

func sum(ns []int) int {
	total := 0
	for _, n := range ns {
		total += n
	}
	return total
}

// check reads what there is, and takes it as known from now on.
func (v victim) check(t *testing.T, acked, sent []int) uint64 {
	t.Helper()
	doc, err := v.Client.Layer(t.Context(), ops.LayerQuery{Layer: layers.Network})
	if err != nil {
		t.Fatalf("%v\n%s", err, v.Err)
	}
	for w := range acked {
		text, _ := config.Lookup(doc.Object, []string{"killParams", writer(w)})
		n := 0
		if s, ok := text.(string); ok {
			if n, err = strconv.Atoi(s); err != nil {
				t.Fatal(err)
			}
		}
		if n != acked[w] && n != sent[w] {
			t.Errorf("writer %d: has %d, acknowledged were %d, sent %d", w, n, acked[w], sent[w])
		}
		acked[w], sent[w] = n, n
	}
	return doc.Revision
}

// checkHistory looks for each write that was acknowledged since the last look: a later write
// of the same writer hides a lost one from the layer, and not from the history.
func (v victim) checkHistory(t *testing.T, reported map[uint64]string) {
	t.Helper()
	if len(reported) == 0 {
		return
	}
	newest := slices.Max(slices.Collect(maps.Keys(reported)))
	oldest := slices.Min(slices.Collect(maps.Keys(reported)))
	editions, err := v.Client.History(t.Context(),
		fleetapi.HistoryQuery{Before: newest + 1, Limit: int(newest-oldest) + 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range editions {
		if reported[e.Number] == e.Message {
			delete(reported, e.Number)
		}
	}
	for number, message := range reported {
		t.Errorf("revision %d, %s, was acknowledged and is not there", number, message)
	}
}

func writer(w int) string { return fmt.Sprintf("w%d", w) }

// writeUntilKilled lets all writers write, one write after the other, until the process is
// killed; it returns the newest revision that was acknowledged.
func (v victim) writeUntilKilled(t *testing.T, acked, sent []int, reported map[uint64]string,
	after time.Duration) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ctltest.Timeout)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex // of told
	newest := make([]uint64, len(acked))
	first := make(chan struct{}, len(acked))
	for w := range acked {
		wg.Go(func() {
			for {
				sent[w]++
				value := strconv.Itoa(sent[w])
				out, err := v.Client.Write(ctx, ops.SetNetwork{
					Modify: true, Overrides: config.Object{"killParams": config.Object{writer(w): value}},
				}, fleetapi.WriteOptions{Message: writer(w) + "=" + value})
				if err != nil {
					if !strings.Contains(err.Error(), "not reachable") {
						t.Errorf("writer %d: %v", w, err)
					}
					return
				}
				acked[w], newest[w] = sent[w], out.Revision
				mu.Lock()
				if other, twice := reported[out.Revision]; twice {
					t.Errorf("revision %d is %s, and %s=%s", out.Revision, other, writer(w), value)
				}
				reported[out.Revision] = writer(w) + "=" + value
				mu.Unlock()
				select {
				case first <- struct{}{}:
				default:
				}
			}
		})
	}
	select {
	case <-first:
	case <-ctx.Done():
	}
	time.Sleep(after) // the random instant
	v.Kill(t)
	wg.Wait()
	var out uint64
	for _, n := range newest {
		out = max(out, n)
	}
	return out
}
