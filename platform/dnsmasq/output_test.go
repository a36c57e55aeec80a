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
		if last = now; last > 32<<20 {
			t.Fatalf("%d octets", last)
		}
	}
	cancel()
	<-done
	if !id.Alive() {
		t.Error("the helper has ended")
	}
}

// Where the kernel reports no growth, because an inotify or a file is missing, outputs are polled.
func TestOutputsArePolledWhereTheKernelReportsNothing(t *testing.T) {
	large := filepath.Join(t.TempDir(), outFile)
	if err := os.WriteFile(large, make([]byte, outMax+1), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), outFile)
	for name, c := range map[string]struct {
		out   *outputs
		paths []string
		poll  bool
	}{
		"all is watched": {newOutputs(t.Context()), []string{large}, false},
		"no inotify":     {&outputs{}, []string{large}, true},
		"no file":        {newOutputs(t.Context()), []string{large, missing}, true},
		"no helper":      {&outputs{}, nil, false},
	} {
		if poll := c.out.trim(c.paths); poll != c.poll {
			t.Errorf("%s: polled: %v", name, poll)
		}
	}
	if st, err := os.Stat(large); err != nil || st.Size() != 0 {
		t.Errorf("it has %d bytes, %v", st.Size(), err)
	}
}
