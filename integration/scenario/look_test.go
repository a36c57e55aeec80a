package scenario

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// says repeats a query until the answer has all parts; it fails with the missing ones.
func (w *world) says(ask func() string, parts ...string) {
	w.Helper()
	var got string
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		got = ask()
		missing := false
		for _, p := range parts {
			missing = missing || !strings.Contains(got, p)
		}
		if !missing {
			return
		}
	}
	w.Fatalf("%q are not all in\n%s", parts, got)
}

// An operator whose app does not come up asks why, watches it come up, and sees what was repaired in the background.
func TestAnOperatorAsksWhyAndSeesWhatHappens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll), onNet(2, 1, w.NS("late"), allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	explain := func() string { return w.cli("explain", "app/"+app(2)+"/0") }
	w.says(explain, "because op waits: add link es1a2", "does not exist", "again in ")
	if r, err := w.CLI(w.ctx, "diff"); err != nil || r.Code != 1 || !strings.Contains(r.Out, "es1a2") {
		t.Errorf("diff of an app that waits: exit %d, %v\n%s%s", r.Code, err, r.Out, r.Err)
	}
	w.says(func() string { return w.cli("get", "adapter", app(2)+"/0") }, "waiting")

	// Streams that are read while things happen.
	watch := w.stream("watch", "-o", "json")
	follow := w.stream("events", "-w", "-o", "json")
	w.says(watch.text, `"change":"synchronized"`)

	// The namespace appears: its wait is reported as over.
	w.late()
	w.wait("ready", "app/"+app(2))
	w.says(explain, "ready: 10.1.0.")
	if got := w.cli("diff"); got != "" {
		t.Errorf("all is well: %s", got)
	}

	// Another program deletes one of edgespan's rules.
	w.in("node", "ip", "rule", "del", "priority", "20001")
	w.says(func() string { return w.cli("events", "ni/"+ni(1)) }, "repaired", "add rule 20001")
	w.says(follow.text, `"kind":"repaired"`, `"kind":"recovered"`)
	w.says(watch.text, `"change":"modified"`, app(2))
	for _, line := range strings.Split(strings.TrimSpace(watch.text()), "\n") {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}

	// Another config was applied since: the doctor reports it, with the command to run.
	w.apply(doc([]string{network(1, "")}))
	r, err := w.CLI(w.ctx, "doctor")
	if err != nil || r.Code != 1 || !strings.Contains(r.Out, "edgespan apply -f "+w.ConfigFile()) ||
		!strings.Contains(r.Out, "commands      ok") || !strings.Contains(r.Out, "has what rules need") {
		t.Errorf("doctor: exit %d, %v\n%s%s", r.Code, err, r.Out, r.Err)
	}
	if log := w.LastWords(200); strings.Count(log, "repaired changes of other programs") != 1 {
		t.Errorf("the repair is not logged once:\n%s", log)
	}
}

// late creates a namespace outside of the lab, and removes it at the end.
func (w *world) late() {
	w.Helper()
	name := w.NS("late")
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	w.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
}

// reader is a command that keeps running, with its output so far.
type reader struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.Write(p)
}

func (r *reader) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out.String()
}

// command returns a command of this node's daemon, not started.
func (w *world) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "EDGESPAN_SOCKET="+w.Socket())
	return cmd
}

// stream starts a command that keeps running until an interrupt at the end of the test ends it.
func (w *world) stream(args ...string) *reader {
	w.Helper()
	r := &reader{}
	cmd := w.command(w.Binary, args...)
	cmd.Stdout, cmd.Stderr = r, r
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			w.Errorf("%v interrupted: %v", args, err)
		}
	})
	return r
}
