package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// The pace of a drill's writer.
const (
	patientFor = 3 * time.Second       // it waits for one answer
	writeEvery = 25 * time.Millisecond // after an answer
)

// writer writes to its own node through one controller, one write after the other. A write without an answer is not
// repeated: it is there once, or not.
type writer struct {
	name   string
	client *fleetapi.Client

	mu    sync.Mutex
	sent  int
	acked map[uint64]string // message by revision
	when  []time.Time       // when a write was acknowledged
	fails []string
}

// writers are several for each controller.
type writers struct {
	*fleet
	all  []*writer
	quit context.CancelFunc
	busy sync.WaitGroup
}

// writers starts writing through all controllers, with each writers per controller.
func (f *fleet) writers(each int) *writers {
	f.Helper()
	ctx, quit := context.WithCancel(f.Context())
	w := &writers{fleet: f, quit: quit}
	for i, r := range f.replicas {
		for k := range each {
			one := &writer{name: fmt.Sprintf("writer-%d%d", i, k), client: f.client(r.apiAt), acked: map[uint64]string{}}
			w.all = append(w.all, one)
			f.until(one.name+" has a node", func(ctx context.Context) bool {
				_, err := one.client.Invite(ctx, one.name, time.Hour, true)
				return err == nil
			})
			w.busy.Go(func() { one.run(ctx) })
		}
	}
	f.Cleanup(func() {
		quit()
		w.busy.Wait()
	})
	return w
}

func (w *writer) run(ctx context.Context) {
	for ctx.Err() == nil {
		w.mu.Lock()
		w.sent++
		n := w.sent
		w.mu.Unlock()
		message := fmt.Sprintf("%s=%d", w.name, n)
		within, cancel := context.WithTimeout(ctx, patientFor)
		out, err := w.client.Write(within, ops.SetNodes{Modify: true,
			Overrides: config.Object{w.name: config.Object{"drill": config.Object{"n": int64(n)}}}},
			fleetapi.WriteOptions{Message: message})
		cancel()
		w.mu.Lock()
		if err == nil {
			w.acked[out.Revision] = message
			w.when = append(w.when, time.Now())
		} else if text := fmt.Sprintf("%s: %v", time.Now().Format("15:04:05.000"), err); ctx.Err() == nil {
			w.fails = append(w.fails, message+": "+text)
		}
		w.mu.Unlock()
		pause(ctx, writeEvery)
	}
}

// gap returns the longest time without an acknowledged write since a moment, counting up to the last one or now,
// whichever is longer.
func (w *writer) gap(since, until time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest, last := time.Duration(0), since
	for _, t := range w.when {
		if t.After(since) && t.Before(until) {
			longest, last = max(longest, t.Sub(last)), t
		}
	}
	return max(longest, until.Sub(last))
}

// gap returns the longest wait of any writer at these controllers.
func (w *writers) gap(since time.Time, replicas ...int) time.Duration {
	until, longest := time.Now(), time.Duration(0)
	for _, one := range w.all {
		for _, i := range replicas {
			if strings.HasPrefix(one.name, fmt.Sprintf("writer-%d", i)) {
				longest = max(longest, one.gap(since, until))
			}
		}
	}
	return longest
}

// waited returns the longest time between two acknowledged writes of one writer, of which the second came after a
// moment.
func (w *writers) waited(after time.Time) (longest time.Duration) {
	for _, one := range w.all {
		one.mu.Lock()
		for i := range one.when[1:] {
			if one.when[i+1].After(after) {
				longest = max(longest, one.when[i+1].Sub(one.when[i]))
			}
		}
		one.mu.Unlock()
	}
	return longest
}

// anyGap returns the longest time since a moment in which no write at all was acknowledged.
func (w *writers) anyGap(since time.Time) (longest time.Duration) {
	all := []time.Time{since, time.Now()}
	for _, one := range w.all {
		one.mu.Lock()
		for _, t := range one.when {
			if t.After(since) {
				all = append(all, t)
			}
		}
		one.mu.Unlock()
	}
	slices.SortFunc(all, time.Time.Compare)
	for i := range all[1:] {
		longest = max(longest, all[i+1].Sub(all[i]))
	}
	return longest
}

// goOn waits until each writer has more further writes acknowledged.
func (w *writers) goOn(more int) {
	w.Helper()
	since := time.Now()
	w.until(fmt.Sprintf("each writer writes %d more", more), func(context.Context) bool {
		for _, one := range w.all {
			one.mu.Lock()
			n := 0
			for _, t := range one.when {
				if t.After(since) {
					n++
				}
			}
			one.mu.Unlock()
			if n < more {
				return false
			}
		}
		return true
	}, func() string {
		var reported []string
		for _, one := range w.all {
			one.mu.Lock()
			reported = append(reported, one.fails[max(0, len(one.fails)-2):]...)
			one.mu.Unlock()
		}
		return strings.Join(reported, "\n")
	})
}

// finish ends the writers, and checks the history against the answers: each acknowledged write is there as its
// revision, each other write once or not at all, and nothing that no writer sent.
func (w *writers) finish() {
	w.Helper()
	w.quit()
	w.busy.Wait()
	sent, acked, seen := map[string]bool{}, map[uint64]string{}, map[string]uint64{}
	failed := 0
	for _, one := range w.all {
		for n := range one.sent {
			sent[fmt.Sprintf("%s=%d", one.name, n+1)] = true
		}
		for number, message := range one.acked {
			if other, twice := acked[number]; twice {
				w.Errorf("revision %d was told to be %s and %s", number, other, message)
			}
			acked[number] = message
		}
		failed += len(one.fails)
	}
	unheard := 0
	for _, e := range w.history() {
		reported, ok := acked[e.Number]
		if ok && reported != e.Message {
			w.Errorf("revision %d is %s, and was acknowledged as %s", e.Number, e.Message, reported)
		}
		if !strings.HasPrefix(e.Message, "writer-") {
			continue
		}
		if !sent[e.Message] {
			w.Errorf("revision %d: nobody has sent %s", e.Number, e.Message)
		}
		if at, twice := seen[e.Message]; twice {
			w.Errorf("%s is there twice: revisions %d and %d", e.Message, at, e.Number)
		}
		if seen[e.Message] = e.Number; !ok {
			unheard++
		}
		delete(acked, e.Number)
	}
	for number, message := range acked {
		w.Errorf("revision %d, %s, was acknowledged and is not there", number, message)
	}
	w.tellFailures()
	w.Logf("%d writes sent, %d in the history, %d answered with an error or not in time, of which %d are there", len(sent),
		len(seen), failed, unheard)
}

// tellFailures logs what controllers could not answer for an internal reason.
func (w *writers) tellFailures() {
	w.Helper()
	for _, r := range w.replicas {
		text, err := os.ReadFile(r.log)
		if err != nil {
			w.Fatal(err)
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			if strings.Contains(line, "request failed") {
				w.Logf("%s: %s", r.name, line)
			}
		}
	}
}

// history returns all revisions of the store.
func (f *fleet) history() (all []history.RevisionRecord) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), timeout)
	defer cancel()
	name := history.RevisionKey(1)
	folder := kv.Prefix(name[:strings.LastIndexByte(string(name), '/')+1])
	page, err := f.open("default").List(ctx, folder, kv.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range page.Entries {
		var r history.RevisionRecord
		if err := json.Unmarshal(e.Value, &r); err != nil {
			f.Fatalf("%s: %v", e.Key, err)
		}
		all = append(all, r)
	}
	return all
}
