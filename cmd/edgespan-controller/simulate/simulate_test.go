package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/cmd/edgespan-controller/ctltest"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/store"
)

// simulates runs the command, whose own controller is this test binary.
func simulates(ctx context.Context, t *testing.T, args ...string) (code int, out, err string) {
	t.Helper()
	return program.Type(ctx, "", append([]string{"simulate"}, args...)...)
}

func TestSimulatedNodesConvergeWithTheirFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("a quarter of a minute of simulated nodes: make test has it")
	}
	t.Parallel() // it mostly waits
	dir, faults, failing := t.TempDir(), "reject=2%,silent=2%,crash=6%,disconnect=6%,unhealthy=2%", 2
	code, out, said := simulates(t.Context(), t, "--nodes", "50", "--faults", faults,
		"--network-writes", "1", "--node-writes", "3", "--dir", dir, "-o", "json", "--until", "converged", "--duration", "4m")
	if code != term.ExitOK {
		t.Fatalf("%d: %s\n%s", code, out, said)
	}
	var got measured
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got.Nodes != 50 || got.Converged != 50 || len(got.Waiting) != 0 || got.Undone != 0 || got.Disk != diskFolder {
		t.Errorf("%s", out)
	}
	for fault, want := range got.Faults {
		if fault.Fails() && got.FailedAsAsked[fault] != want {
			t.Errorf("%d of %d failed by %s, as asked", got.FailedAsAsked[fault], want, fault)
		}
	}
	if got.First.Pushed.Nodes != 50 || got.First.Confirmed.Nodes < 46 || got.Seconds.Converge <= 0 ||
		got.Memory.Controller < 1<<20 || got.CPU.Controller <= 0 {
		t.Errorf("not everything was measured: %s", out)
	}
	if len(got.Network) != 1 || got.Network[0].Confirmed.Nodes != 50-failing || got.Network[0].Acked.P99 <= 0 {
		t.Errorf("of the network override: %+v", got.Network)
	}
	if n := got.Node; n == nil || n.Writes != 3 || n.Acked.Nodes != 3 || n.Others != 0 {
		t.Errorf("of the node overrides: %+v", n)
	}
	// What they were pushed is on their disks.
	slot, err := store.NewSlots(filepath.Join(dir, "nodes", "sim-00001", "slot")).Read("confirmed")
	if err != nil || !bytes.Contains(slot, []byte("network 1")) {
		t.Errorf("%.300s, %v", slot, err)
	}
}

func TestSimulatedNodesThatWaitAreNamed(t *testing.T) {
	t.Parallel() // it mostly waits
	code, out, said := simulates(t.Context(), t, "--nodes", "3", "--faults", "silent=100%", "--duration", "12s", "--until",
		"converged", "--disk", "memory")
	if code != term.ExitTimeout || out != "converged 0 of 3\n" ||
		!strings.Contains(said, "sim-00001 sim-00002 sim-00003") {
		t.Errorf("%d %q\n%s", code, out, said)
	}
}

func TestASimulationIsEndedBySIGINT(t *testing.T) {
	t.Parallel() // it mostly waits
	ctx, interrupt := context.WithCancel(t.Context())
	dir := t.TempDir()
	go func() { // as soon as a node has its folder
		for ctx.Err() == nil {
			if _, err := os.Stat(filepath.Join(dir, "nodes", "sim-00001", addressFile)); err == nil {
				interrupt()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	begun := time.Now()
	code, out, said := simulates(ctx, t, "--nodes", "20", "--dir", dir, "--duration", "10m")
	if code != term.ExitTimeout || !strings.HasPrefix(out, "converged ") || time.Since(begun) > ctltest.Timeout {
		t.Errorf("%d after %v: %q\n%s", code, time.Since(begun), out, said)
	}
}

func TestASimulationThatCannotBeIsRefused(t *testing.T) {
	code, out, said := simulates(t.Context(), t, "--nodes", "0", "--report-interval", "1ms", "--joins", "0", "--until",
		"dawn", "--disk", "tape", "-o", "xml",
		"--faults", "sulk=1%", "--network-writes", "-1", "--duration", "-1s")
	if code != term.ExitUsage || out != "" {
		t.Errorf("%d %q", code, out)
	}
	for _, want := range []string{"--nodes: invalid value 0", "--report-interval: invalid value 1ms",
		"--joins: invalid value 0", `--until: invalid value "dawn"`,
		`--disk: invalid value "tape"`, `--output: invalid value "xml"`, `--faults: unknown fault "sulk"`, "--network-writes",
		"--duration"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
	if code, _, said := simulates(t.Context(), t, "--nodes", "1", "--controller",
		"http://127.0.0.1:1"); code != term.ExitUnreachable {
		t.Errorf("nobody there: %d %s", code, said)
	}
}

// A controller that is killed in the middle of a push to 50 nodes, and comes back, brings
// all of them to what it wants; none of them undoes anything.
func TestAControllerIsKilledInTheMiddleOfAPush(t *testing.T) {
	dir, nodes := t.TempDir(), t.TempDir()
	at := []string{"--node-host", "127.0.0.1", "--joins-per-second", "1000"}
	v := ctltest.StartProcess(t, dir, at...)
	_, err := v.Client.Write(t.Context(),
		ops.SetNetwork{Overrides: config.Object{"sysParams": config.Object{"managedConfig": true}}}, fleetapi.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	type end struct {
		code      int
		out, said string
	}
	ended := make(chan end, 1)
	go func() {
		code, out, said := simulates(t.Context(), t, "--nodes", "50", "--controller", "http://"+v.API, "--dir", nodes, "-o",
			"json", "--until", "converged", "--duration", "4m")
		ended <- end{code, out, said}
	}()
	untilPushing(t, v.Client)
	v.Kill(t)
	ctltest.StartProcess(t, dir, append(at, "--listen", v.API, "--node-listen", v.Nodes)...)
	e := <-ended
	var got measured
	if err := json.Unmarshal([]byte(e.out), &got); err != nil || e.code != term.ExitOK || got.Converged != 50 ||
		got.Undone != 0 {
		t.Errorf("%d, %v: %s\n%s", e.code, err, e.out, e.said)
	}
	slots, err := fs.Glob(os.DirFS(nodes), "nodes/*/slot-confirmed.0")
	if err != nil || len(slots) != 50 {
		t.Errorf("%d nodes have a confirmed config, %v", len(slots), err)
	}
}

// untilPushing waits until some nodes have what they want, and some do not.
func untilPushing(t *testing.T, client *fleetapi.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ctltest.Timeout)
	defer cancel()
	last := ""
	for ctx.Err() == nil {
		list, err := client.Nodes(ctx)
		if err != nil {
			continue
		}
		count := map[string]int{}
		for _, n := range list {
			count[n.State]++
		}
		last = fmt.Sprint(count)
		if count[string(fleet.Pushing)] > 0 && count[string(fleet.InSync)] < 50 {
			return
		}
	}
	t.Fatalf("no push was seen under way: %s", last)
}

// The time of --duration has joining in it: one address joins one node a second here.
func TestTheDurationOfASimulationIsThatOfAll(t *testing.T) {
	t.Parallel() // it mostly waits
	c := program.Start(t, t.TempDir(), "--auth", "none")
	begun := time.Now()
	code, _, said := simulates(t.Context(), t, "--nodes", "60", "--controller", "http://"+c.API, "--until", "converged",
		"--duration", "3s", "--disk", "memory")
	if took := time.Since(begun); code == term.ExitOK || took > 20*time.Second ||
		!strings.Contains(said, "are over while nodes join") {
		t.Errorf("%d after %s: %s", code, took, said)
	}
}

// With --commands another program measures nodes of several simulators: each line is answered, and the end of stdin
// ends the nodes.
func TestASimulationAnswersCommands(t *testing.T) {
	t.Parallel() // it mostly waits
	simulate := func(stdin string, more ...string) (code int, out, said string) {
		return program.Type(t.Context(), stdin, append([]string{"simulate", "--commands", "--nodes", "2", "--disk", "memory"},
			more...)...)
	}
	code, out, said := simulate("state\nround\nstate\n")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != term.ExitOK || len(lines) != 4 {
		t.Fatalf("%d %q\n%s", code, out, said)
	}
	var before, after fleetState
	for i, to := range []*fleetState{0: &before, 3: &after} {
		if to == nil {
			continue
		}
		if err := json.Unmarshal([]byte(lines[i]), to); err != nil {
			t.Fatalf("%s: %v", lines[i], err)
		}
	}
	if !after.Begun.After(before.Begun) || after.Online > 2 || after.Acked == nil {
		t.Errorf("%s", out)
	}
	if code, _, said := simulate("stop\n"); code != term.ExitUsage ||
		!strings.Contains(said, `invalid command "stop": must be round or state`) {
		t.Errorf("%d %s", code, said)
	}
	if code, _, said := simulate("", "--until", "converged"); code != term.ExitUsage || !strings.Contains(said, "without --until") {
		t.Errorf("%d %s", code, said)
	}
}
