package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"edgespan/actors/simulate"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/httpapi/fleetapi"
)

// rollsOut simulates a rollout and answers with its document.
func rollsOut(t *testing.T, args ...string) (code int, got measured, said string) {
	t.Helper()
	code, out, said := simulates(t.Context(), t,
		append([]string{"--rollout", "sysParams.logLevel=debug", "--disk", "memory", "--until", "converged", "--duration",
			"2m", "-o", "json"}, args...)...)
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil || got.Rollout == nil {
		t.Fatalf("%d, %v: %s\n%s", code, err, out, said)
	}
	return code, got, said
}

// Nodes that crash, or lose their stream or their links, hold their batch up and no more.
func TestASimulatedRolloutGoesOutInBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("a quarter of a minute of simulated nodes: make test has it")
	}
	t.Parallel() // it mostly waits
	n, pops := 30, 3
	code, got, said := rollsOut(t, "--nodes", fmt.Sprint(n), "--topology", "grid:10", "--faults",
		"crash=4%,disconnect=4%,linkloss=4%", "--apply-time", "300ms")
	r := got.Rollout
	if code != term.ExitOK || r.State != rolloutDone || r.Acked != n || r.Failed != 0 || got.Converged != n ||
		got.Undone != 0 {
		t.Fatalf("%d: %+v\n%s", code, r, said)
	}
	nodes := 0
	for _, b := range r.Batches {
		nodes += b.Nodes
	}
	if len(r.Batches) < 3 || r.Batches[0].Nodes != 1 || nodes != n || r.Planned < 3 || r.Seconds <= 0 {
		t.Errorf("in batches %+v of %d planned", r.Batches, r.Planned)
	}
	if r.Paths == nil || r.Paths.Broken != 0 || r.Paths.Looks < n/2 {
		t.Errorf("paths: %+v", r.Paths)
	}
	for _, want := range []string{fmt.Sprintf(`topology "grid of %d nodes"`, n),
		fmt.Sprintf("%d points of presence", pops), "batch 1 of", "goes out to 1 node",
		fmt.Sprintf("%d of %d have the change", n, n), "rollout watch"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
}

func TestASimulatedBadConfigStopsInItsFirstBatch(t *testing.T) {
	t.Parallel() // it mostly waits
	code, got, said := rollsOut(t, "--nodes", "20", "--topology", "figure-eight", "--faults", "reject=100%")
	r := got.Rollout
	if code != term.ExitOK || r.State != rolloutHalted || len(r.Batches) != 1 || r.Batches[0].Nodes != 1 ||
		r.Failed != 1 || r.Acked != 0 || r.Why == "" {
		t.Errorf("%d: %+v\n%s", code, r, said)
	}
}

// The judgement itself can fail: what all take at once cuts nodes off.
func TestASimulatedChangeAtOnceBreaksPaths(t *testing.T) {
	t.Parallel() // it mostly waits
	code, got, said := rollsOut(t, "--nodes", "100", "--topology", "ring", "--at-once")
	r := got.Rollout
	if code != term.ExitError || r.State != rolloutDone || r.Paths.Broken == 0 || len(r.Paths.Named) == 0 {
		t.Fatalf("%d: %+v\n%s", code, r, said)
	}
	if want := r.Paths.Named[0].Node + " lost it while these took the config: "; !strings.Contains(said, want) {
		t.Errorf("%q is not in\n%s", want, said)
	}
}

// watcher starts the real command as soon as the simulator names it.
type watcher struct {
	t       *testing.T
	program string
	mu      sync.Mutex
	said    bytes.Buffer
	watch   *exec.Cmd
	out     bytes.Buffer
}

var watchLine = regexp.MustCompile(`edgespan (--controller \S+ rollout watch \d+)\n`)

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said.Write(p)
	if found := watchLine.FindSubmatch(w.said.Bytes()); found != nil && w.watch == nil {
		w.watch = exec.CommandContext(w.t.Context(), w.program, strings.Fields(string(found[1]))...)
		w.watch.Stdout, w.watch.Stderr = &w.out, &w.out
		if err := w.watch.Start(); err != nil {
			w.t.Error(err)
		}
	}
	return len(p), nil
}

// edgespan rollout watch goes along with a simulated rollout.
func TestASimulatedRolloutIsWatchedByTheRealCommand(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	w := &watcher{t: t, program: filepath.Join(t.TempDir(), "edgespan")}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s", "-o", w.program,
		"edgespan/cmd/edgespan").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// It idles at the end, so that the command has asked for the end before the controller is gone.
	code := program(t.Context(), term.Streams{In: strings.NewReader(""),
		Out: io.Discard, Err: w, Env: func(string) string { return "" }}, nil, []string{
		"simulate", "--nodes", "12", "--topology", "line:4", "--rollout", "sysParams.logLevel=debug", "--disk", "memory",
		"--idle", "3s", "--report-interval", "1s",
	})
	if code != term.ExitOK || w.watch == nil {
		t.Fatalf("%d\n%s", code, w.said.String())
	}
	if err := w.watch.Wait(); err != nil || !strings.Contains(w.out.String(), "batch 1 goes out to ") ||
		!strings.Contains(w.out.String(), "done: 12 of 12 nodes acked") {
		t.Errorf("%v\n%s\n%s", err, w.out.String(), w.said.String())
	}
}

func TestASimulatedTopologyIsOfAFile(t *testing.T) {
	s := &simulation{topology: "../../../config/testdata/terragraph/topology_conf/topology_figure0.conf"}
	if err := s.readTopology(false); err != nil || s.nodes != 8 {
		t.Fatalf("%v, %d nodes", err, s.nodes)
	}
	m := &simulator{simulation: s}
	m.nameNodes()
	if m.names[0] != "node-9" || len(m.names) != 8 {
		t.Errorf("%v", m.names)
	}
	s.nodes = 9
	if err := s.readTopology(true); err == nil || !strings.Contains(err.Error(), "nodes: invalid value 9: must be 8") {
		t.Errorf("%v", err)
	}
	broken := filepath.Join(t.TempDir(), "broken.conf")
	if err := os.WriteFile(broken, []byte(`{"nodes": [{"name": "a"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{broken: "site_name",
		"star:5": "figure-eight, line, ring, grid, tree, each with or without :SIZE", "grid:0": `invalid size "0"`} {
		s := &simulation{topology: file}
		if err := s.readTopology(false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

func TestARolloutThatCannotBeIsRefused(t *testing.T) {
	code, _, said := simulates(t.Context(), t, "--nodes", "3", "--topology", "star", "--faults-at", "0", "--apply-time",
		"2m", "--at-once", "--controller-flags", "a=b")
	if code != term.ExitUsage {
		t.Errorf("%d", code)
	}
	for _, want := range []string{"--topology: ", "--faults-at: invalid value 0", "--apply-time: invalid value 2m0s",
		"--at-once: requires", "--controller-flags: requires"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	if code, _, said := simulates(t.Context(), t, "--nodes", "3", "--rollout", "logLevel"); code != term.ExitUsage ||
		!strings.Contains(said, `--rollout: invalid value "logLevel": must be KEY=VALUE`) {
		t.Errorf("%d %s", code, said)
	}
}

func TestWordsMakeAConfig(t *testing.T) {
	got, err := assigned([]string{"a.b=1", "a.c=debug", `d=[true]`, "e=x=y", "f="})
	want := config.Object{"a": config.Object{"b": int64(1), "c": "debug"}, "d": []any{true}, "e": "x=y", "f": ""}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, w := range []string{"", "a", "=1", "a..b=1"} {
		if _, err := assigned([]string{w}); err == nil {
			t.Errorf("%q is taken", w)
		}
	}
}

func TestARolloutMustEndAsTheFaultsSay(t *testing.T) {
	batch := func(number, failed int) fleetapi.RolloutBatch {
		return fleetapi.RolloutBatch{Number: number, Nodes: 5, Failed: failed}
	}
	for _, c := range []struct {
		what    string
		plan    []simulate.InjectedFault
		budget  int
		atOnce  bool
		state   string
		batches []fleetapi.RolloutBatch
		code    int
	}{
		{"nothing fails", []simulate.InjectedFault{"", simulate.Crash, simulate.LinkLoss}, 0, false, rolloutDone,
			[]fleetapi.RolloutBatch{batch(1, 0), batch(2, 0)}, term.ExitOK},
		{"it halts for nothing", []simulate.InjectedFault{""}, 0, false, rolloutHalted, []fleetapi.RolloutBatch{batch(1, 1)},
			term.ExitTimeout},
		{"it halts", []simulate.InjectedFault{simulate.Hang}, 0, false, rolloutHalted,
			[]fleetapi.RolloutBatch{batch(1, 0), batch(2, 1)}, term.ExitOK},
		{"it goes on after a failure", []simulate.InjectedFault{simulate.Reject}, 0, false, rolloutHalted,
			[]fleetapi.RolloutBatch{batch(1, 1), batch(2, 0)}, term.ExitTimeout},
		{"it is done though a node fails", []simulate.InjectedFault{simulate.Rollback}, 0, false, rolloutDone, nil,
			term.ExitTimeout},
		{"as many fail as may", []simulate.InjectedFault{simulate.Reject}, 1, false, rolloutFailed,
			[]fleetapi.RolloutBatch{batch(1, 1), batch(2, 0)}, term.ExitOK},
		{"at once there is no halt", []simulate.InjectedFault{simulate.Reject}, 0, true, rolloutFailed, nil, term.ExitOK},
		{"it has not ended", []simulate.InjectedFault{""}, 0, false, "running", nil, term.ExitTimeout},
	} {
		r := &measuredRollout{State: c.state, Batches: c.batches, Paths: &simulate.Paths{}}
		r.expect(c.plan, c.budget, c.atOnce)
		if err := r.check(); term.ExitCode(err) != c.code {
			t.Errorf("%s: %v, want exit code %d", c.what, err, c.code)
		}
		r.Paths.Broken = 1
		if err := r.check(); c.code == term.ExitOK && term.ExitCode(err) != term.ExitError {
			t.Errorf("%s, and a path was broken: %v", c.what, err)
		}
	}
}
