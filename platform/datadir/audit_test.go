package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Those who write while the disk syncs share the next sync, and each has the answer of the sync
// of its own line.
func TestWritersOfTheAuditShareASync(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	a, err := OpenAudit(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	broken := errors.New("no disk")
	entered, leave := make(chan struct{}), make(chan struct{})
	syncs := 0
	a.sync = func(*os.File) error {
		if syncs++; syncs > 1 {
			return broken
		}
		close(entered)
		<-leave
		return nil
	}
	const others = 100
	answers := make(chan error, others)
	first := make(chan error)
	go func() { first <- a.Write(entry{Text: "first"}) }()
	<-entered
	for n := range others {
		go func() { answers <- a.Write(entry{N: n}) }()
	}
	for waiting := 0; waiting < others; runtime.Gosched() {
		a.mu.Lock()
		waiting = strings.Count(a.next.text.String(), "\n")
		a.mu.Unlock()
	}
	close(leave)
	if err := <-first; err != nil {
		t.Error(err)
	}
	for range others {
		if err := <-answers; !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
	if got := len(lines(t, path)); syncs != 2 || got != others+1 {
		t.Errorf("%d syncs, %d lines", syncs, got)
	}
}

// BenchmarkAudit has 32 callers write lines to a disk whose sync takes 5 ms, and says how many
// a second they write, beside a log that syncs each line by itself.
func BenchmarkAudit(b *testing.B) {
	const callers, delay = 32, 5 * time.Millisecond
	run := func(a *Audit, write func(any) error, n int) float64 {
		var left atomic.Int64
		left.Store(int64(n))
		begun := time.Now()
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for left.Add(-1) >= 0 {
					if err := write(entry{N: 1, Text: "PUT /api/v1/config/environments/1/nodes/n/resources/1/values"}); err != nil {
						b.Error(err)
					}
				}
			})
		}
		all.Wait()
		return float64(n) / time.Since(begun).Seconds()
	}
	a, err := OpenAudit(filepath.Join(b.TempDir(), "audit.log"))
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	a.sync = func(f *os.File) error { time.Sleep(delay); return f.Sync() }
	var one sync.Mutex
	alone := func(e any) error {
		one.Lock()
		defer one.Unlock()
		return a.Write(e)
	}
	for b.Loop() {
		own, floor := run(a, a.Write, 4000), run(a, alone, 200)
		b.ReportMetric(own, "lines/s")
		b.ReportMetric(floor, "alone/s")
		b.ReportMetric(own/floor, "ratio")
	}
}
