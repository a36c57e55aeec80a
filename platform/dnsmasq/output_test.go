package dnsmasq

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/platform/proc"
)

// A helper that says as much as it can, for as long as it likes, takes no more of the run
// folder than what it says in one round.
func TestWhatAHelperSaysIsBounded(t *testing.T) {
	run := proc.New("")
	h := New(run, "", t.TempDir())
	defer h.Close()
	const name = "ni/1/loud"
	folder := h.folder(name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(folder, outFile)
	id, err := run.Start([]string{"sh", "-c", "while :; do echo " + strings.Repeat("x", 70) + "; done"}, out,
		proc.Confinement{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := id.Stop(context.Background(), time.Second); err != nil {
			t.Error(err)
		}
	}()
	h.guard.watch(name, 1, id)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); h.Watch(ctx, func([]int) {}) }()
	size := func() int64 {
		st, err := os.Stat(out)
		if err != nil {
			t.Fatal(err)
		}
		return st.Size()
	}
	emptied, last := 0, int64(0)
	for end := time.Now().Add(20 * time.Second); emptied < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("emptied %d times, it has %d octets", emptied, last)
		}
		now := size()
		if now < last {
			emptied++
		}
		if last = now; last > 8<<20 {
			t.Fatalf("%d octets", last)
		}
	}
	cancel()
	<-done
	if !id.Alive() {
		t.Error("the helper has ended")
	}
}
