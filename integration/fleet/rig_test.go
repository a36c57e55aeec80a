package fleet

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/platform/proc"
)

// ofSimulator is how many nodes one simulator has at most: a node needs a descriptor or two, and memory.
const ofSimulator = 2500

// waitTimeout is how long anything may take that must happen.
const waitTimeout = 10 * time.Minute

// fleet is a controller and its nodes, each simulator and the controller in a process of its own.
type fleet struct {
	testing.TB
	program string
	args    []string // of the controller
	nodes   int
	client  *fleetapi.Client
	cmd     *exec.Cmd // the controller
	ended   chan struct{}
	sims    []*child
}

// fleetState is what a simulator answers (edgespan-controller simulate --commands).
type fleetState struct {
	Online, Pushed, Confirmed, Undone int
	Begun                             time.Time
	Acked                             []float64 `json:"ackedMs"`
}

// newFleet builds the controller, starts it and joins all nodes.
func newFleet(b testing.TB, nodes int) *fleet {
	b.Helper()
	dir := b.TempDir()
	f := &fleet{TB: b, program: filepath.Join(dir, "edgespan-controller"), nodes: nodes}
	if out, err := exec.CommandContext(b.Context(), "go", "build", "-o", f.program,
		"edgespan/cmd/edgespan-controller").CombinedOutput(); err != nil {
		b.Fatalf("build: %v\n%s", err, out)
	}
	layers := []string{"--base-dir", filepath.Join(data, "base_versions"), "--metadata",
		filepath.Join(data, "config_metadata.json")}
	api, link := freeAddress(b), freeAddress(b)
	f.args = append([]string{"--data-dir", filepath.Join(dir, "controller"), "--listen", api, "--node-listen", link,
		"--node-host", "127.0.0.1", "--auth", "none", "--joins-per-second", "1000"}, layers...)
	client, err := fleetapi.NewClient(fleetapi.Options{URL: "http://" + api})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Close)
	f.client = client
	f.startController()
	b.Cleanup(f.stopController)
	f.write(ops.SetNetwork{Overrides: override(0)})
	for i := 0; i*ofSimulator < nodes; i++ {
		share := min(ofSimulator, nodes-i*ofSimulator)
		args := append([]string{"simulate", "--commands", "--controller", "http://" + api, "--nodes", fmt.Sprint(share),
			"--name", fmt.Sprint("sim", i), "--dir", filepath.Join(dir, fmt.Sprint("nodes", i)), "--software", "RELEASE_M81",
			"--board", "NXP_LS1048A_PUMA"}, layers...)
		f.sims = append(f.sims, start(b, fmt.Sprint("simulator ", i), exec.CommandContext(b.Context(), f.program, args...)))
	}
	var s fleetState
	for _, c := range f.sims {
		c.hear(&s)
	}
	f.inSync()
	return f
}

func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (f *fleet) startController() {
	f.Helper()
	f.cmd, f.ended = exec.Command(f.program, f.args...), make(chan struct{})
	f.cmd.Stdout, f.cmd.Stderr = io.Discard, io.Discard
	f.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := f.cmd.Start(); err != nil {
		f.Fatal(err)
	}
	cmd, ended := f.cmd, f.ended
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	f.until("the controller is ready", 20*time.Millisecond, func() bool { return f.client.Ready(f.Context()) == nil })
}

// stopController ends the controller in order.
func (f *fleet) stopController() {
	f.Helper()
	_ = f.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-f.ended:
	case <-time.After(time.Minute):
		_ = f.cmd.Process.Kill()
		<-f.ended
	}
}

// until waits for a condition.
func (f *fleet) until(what string, every time.Duration, is func() bool) {
	f.Helper()
	for begun := time.Now(); !is(); time.Sleep(every) {
		if time.Since(begun) > waitTimeout {
			f.Fatalf("%s: not after %v", what, waitTimeout)
		}
	}
}

func (f *fleet) write(w ops.Write) fleetapi.Written {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	out, err := f.client.Write(ctx, w, fleetapi.WriteOptions{Message: "benchmark"})
	if err != nil {
		f.Fatal(err)
	}
	return out
}

// inSync waits until the controller shows every node online and in sync.
func (f *fleet) inSync() {
	f.Helper()
	in := 0
	f.until("all nodes are in sync", 2*time.Second, func() bool {
		all, err := f.client.Nodes(f.Context())
		in = 0
		for _, n := range all {
			if n.Online && n.State == "InSync" {
				in++
			}
		}
		return err == nil && in == f.nodes
	})
}

// round starts a measurement in all simulators.
func (f *fleet) round() {
	f.Helper()
	for _, c := range f.sims {
		c.say("round")
	}
	var s fleetState
	for _, c := range f.sims {
		c.hear(&s)
	}
}

// states returns the states of all simulators.
func (f *fleet) states() (all []fleetState) {
	f.Helper()
	for _, c := range f.sims {
		c.say("state")
	}
	for _, c := range f.sims {
		var s fleetState
		c.hear(&s)
		all = append(all, s)
	}
	return all
}

func sum(all []fleetState, of func(fleetState) int) (n int) {
	for _, s := range all {
		n += of(s)
	}
	return n
}

func (f *fleet) online() int { return sum(f.states(), func(s fleetState) int { return s.Online }) }

// pushed writes an override of so many nodes and returns how long it took from the write until 99 % of them had stored
// it and said so, and how many nodes it reached.
func (f *fleet) pushed(w ops.Write, nodes int) (p99 time.Duration, reached int) {
	f.Helper()
	f.round()
	begun := time.Now()
	f.write(w)
	var all []fleetState
	f.until("the nodes confirm", min(100*time.Millisecond, time.Duration(nodes)*2*time.Millisecond), func() bool {
		all = f.states()
		return sum(all, func(s fleetState) int { return s.Confirmed }) >= nodes
	})
	var took []time.Duration
	for _, s := range all {
		for _, ms := range s.Acked {
			took = append(took, s.Begun.Add(time.Duration(ms*float64(time.Millisecond))).Sub(begun))
		}
	}
	slices.Sort(took)
	return quantile(took, 99), sum(all, func(s fleetState) int { return s.Pushed })
}

// rollOut changes the network in batches and returns how long that took.
func (f *fleet) rollOut(number int) time.Duration {
	f.Helper()
	staged := func(is bool) {
		f.write(ops.SetE2E{File: "controller", Modify: true, Config: config.Object{"flags": config.Object{
			"config_staged_rollout_enabled": fmt.Sprint(is), "config_rollout_failures_percent": "0"}}})
	}
	staged(true)
	begun := time.Now()
	revision := f.write(ops.SetNetwork{Modify: true, Overrides: override(number)}).Revision
	f.until("the rollout is done", 250*time.Millisecond, func() bool {
		r, err := f.client.Rollout(f.Context(), revision)
		if err == nil && r.Ended != nil && r.State != "done" {
			f.Fatalf("the rollout is %s: %v", r.State, r.Failed)
		}
		return err == nil && r.Ended != nil
	})
	took := time.Since(begun)
	staged(false)
	return took
}

// restarted is what a restart took, from the signal on.
type restarted struct {
	ended, ready, back, unwritable time.Duration
}

// restart ends the controller, starts it again, and waits until all nodes are back, while a writer writes all the time.
func (f *fleet) restart() (r restarted) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	longest := make(chan time.Duration, 1)
	begun := time.Now()
	go func() { longest <- f.writeAll(ctx) }()
	f.stopController()
	r.ended = time.Since(begun)
	f.startController()
	r.ready = time.Since(begun)
	f.until("all nodes are back", 200*time.Millisecond, func() bool { return f.online() == f.nodes })
	r.back = time.Since(begun)
	cancel()
	r.unwritable = <-longest
	return r
}

// writeAll writes to one node, one write after the other, and returns the longest time without an acknowledged one.
func (f *fleet) writeAll(ctx context.Context) (longest time.Duration) {
	last := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		within, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := f.client.Write(within, ops.SetNodes{Modify: true,
			Overrides: config.Object{"sim0-00001": config.Object{"simulated": config.Object{"restart": fmt.Sprint(n)}}}},
			fleetapi.WriteOptions{})
		cancel()
		if longest = max(longest, time.Since(last)); err == nil {
			last = time.Now()
		}
		time.Sleep(20 * time.Millisecond)
	}
	return longest
}

// end ends nodes and controller.
func (f *fleet) end() {
	f.Helper()
	undone := sum(f.states(), func(s fleetState) int { return s.Undone })
	for _, c := range f.sims {
		c.end()
	}
	f.stopController()
	if undone > 0 {
		f.Errorf("%d pushes were undone", undone)
	}
}

// usage returns what the controller has used since its start.
func (f *fleet) usage() proc.Usage {
	f.Helper()
	u, err := proc.UsageOf(f.cmd.Process.Pid)
	if err != nil {
		f.Fatal(err)
	}
	return u
}
