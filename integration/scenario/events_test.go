package scenario

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// happened is an event of `edgespan events -o json`.
type happened struct {
	Seq                uint64
	Kind, Object, Text string
	Count              int
	Cause              struct {
		Config uint64
		Apply  string
	}
}

func (w *world) events(args ...string) (out []happened) {
	w.Helper()
	if err := json.Unmarshal([]byte(w.cli(append([]string{"events", "-o", "json"}, args...)...)), &out); err != nil {
		w.Fatal(err)
	}
	return out
}

// An operator comes after the daemon was killed, finds what happened before, and why. The power went during a write, an
// app flapped, and the disk had no room: nothing of it is in the way.
func TestTheEventsOfAKilledDaemonSayWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	why := func() string {
		return w.cli("events", "--object", "ni/"+ni(1), "--kind", "state", "--since", "1h", "--why")
	}
	w.says(why, "config: generation 1 from file", "node.json", "since its config changed", "-> Present")
	before := w.events("--since", "1h")

	file := filepath.Join(w.StateDir(), "events.log")
	stored := func(text string) {
		w.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			if got, _ := os.ReadFile(file); strings.Contains(string(got), text) {
				return
			} else if time.Now().After(end) {
				w.Fatalf("%s is not in %s:\n%s", text, file, got)
			}
		}
	}
	stored("Present")
	stored(fmt.Sprintf(`"seq":%d`, before[len(before)-1].Seq))
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	half, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := half.WriteString("12345678 {\"seq\":99,\"kin\x00\x00"); err != nil {
		t.Fatal(err)
	}
	if err := half.Close(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.says(why, "config: generation 1 from file", "since its config changed", "Creating -> Present")
	after := w.events("--since", "1h")
	for _, e := range before {
		same := func(o happened) bool { return o.Seq == e.Seq && o.Text == e.Text && o.Cause == e.Cause }
		if !slices.ContainsFunc(after, same) {
			t.Errorf("after the restart there is no %+v", e)
		}
	}
	last := before[len(before)-1].Seq
	if n := after[len(after)-1].Seq; n <= last {
		t.Errorf("event %d was numbered after %d", n, last)
	}

	// Another program deletes a rule again and again: it is one event each, and those of others stay.
	for range 5 {
		w.in("node", "ip", "rule", "del", "priority", "20001")
		w.says(func() string { return w.in("node", "ip", "rule", "show") }, "20001:")
	}
	if n := len(w.events("--object", "ni/"+ni(1), "--kind", "repaired")); n == 0 || n > 5 {
		t.Errorf("%d events about repairs", n)
	}
	if text, err := os.ReadFile(file); err != nil || len(text) > 1<<20 || strings.Contains(string(text), "\x00") {
		t.Errorf("the file has %d bytes, or is not repaired: %v", len(text), err)
	}

	// A user of the socket is named as the kernel knows it, whatever it calls itself.
	next := filepath.Join(t.TempDir(), "next.yaml")
	if err := os.WriteFile(next, []byte(doc([]string{network(1, "")})), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := w.CLI(w.ctx, "apply", "-f", next); err != nil || r.Code != 0 {
		t.Fatalf("apply: %+v, %v", r, err)
	}
	w.says(func() string { return w.cli("events", "config", "--why") }, "generation 2 from apply",
		fmt.Sprintf("by uid %d", os.Getuid()))
}

// The operator of a fleet asks its controller what happened on a node, and why.
func TestAControllerShowsTheEventsOfItsNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	o := w.member(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)))
	ask := func(args ...string) func() string {
		return func() string { return o.run(append([]string{"nodes", "events"}, args...)...).Out }
	}
	w.says(ask("edge-1", "--object", "ni/"+ni(1), "--why"), "from controller", "by the layers as of revision ",
		"-> Present")
	w.says(ask("--kind", "state", "-o", "json"), `"node": "edge-1"`, `"object": "ni/`+ni(1)+`"`, `"apply": "`)
	w.in("node", "ip", "rule", "del", "priority", "20001")
	w.says(ask("--kind", "repaired", "--since", "1h"), "edge-1", "add rule 20001")

	o.set("edge-1", doc([]string{network(1, "")}))
	w.says(ask("edge-1", "--kind", "config"), "generation 3 from controller")
	w.says(func() string { return w.cli("events", "config", "--why") }, "by revision ")

	// The node's daemon and the controller are killed: the controller has the events again.
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	o.kill()
	o.begin()
	w.restart()
	o.is("edge-1", "InSync", ready)
	w.says(ask("edge-1", "--kind", "repaired", "--why"), "add rule 20001")
}
