package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"edgespan/platform/daemon"
)

// shell runs commands in a debug shell that must succeed.
func (w *world) shell(commands string, args ...string) string {
	w.Helper()
	return w.cli(append([]string{"shell", "-c", commands}, args...)...)
}

// shellFails runs commands that must fail with a code.
func (w *world) shellFails(code int, commands string, args ...string) string {
	w.Helper()
	r, err := w.CLI(w.ctx, append([]string{"shell", "-c", commands}, args...)...)
	if err != nil || r.Code != code {
		w.Errorf("shell -c %q: exit %d, want %d, %v: %s%s", commands, r.Code, code, err, r.Err, r.Out)
	}
	return r.Err
}

// withFaults starts a daemon whose shells may inject faults.
func (w *world) withFaults(doc string) {
	w.Helper()
	if err := w.WriteConfig([]byte(doc)); err != nil {
		w.Fatal(err)
	}
	n, err := w.StartNode(w.NodeCmd("--allow-faults"))
	if err != nil {
		w.Fatal(err)
	}
	w.node = n
	if _, err := w.WaitControl(w.ctx, n); err != nil {
		w.Fatal(err)
	}
}

// As an operator with a shell on the box I see each actor, follow one change down to the kernel, and make one network
// look at the host again.
func TestADebugShellShowsAndMends(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(doc([]string{network(1, "")}))
	w.wait("ready", "ni/"+ni(1))
	if tree := w.shell("tree"); !strings.Contains(tree, "\n  ni/"+ni(1)) || !strings.Contains(tree, "\n    applier") {
		t.Errorf("tree:\n%s", tree)
	}
	state := w.shell("inspect ni/"+ni(1), "-o", "json")
	if !json.Valid([]byte(state)) || !strings.Contains(state, `"mgr"`) {
		t.Errorf("inspect: %.500s", state)
	}
	trace, tail := w.stream("shell", "-c", "trace"), w.stream("shell", "-c", "tail monitor")
	watch := w.stream("shell", "-c", "watch network-instance-status")
	w.says(watch.text, ni(1), `"State":"Present"`)
	// The taps stand once a message has passed them.
	w.eventually("both taps", func() bool {
		w.shell("reconcile "+ni(1), "--write")
		return strings.Contains(trace.text(), "compares with the host") && strings.Contains(tail.text(), "node.observeFull")
	})
	w.apply(doc([]string{network(1, ""), network(2, "")}))
	w.wait("ready", "ni/"+ni(2))
	w.says(trace.text, "config  accepted", "ni/"+ni(2)+"  add link es2", "ni/"+ni(2)+"  add process ni/2/dnsmasq")
	w.says(watch.text, ni(2))
	// What somebody else breaks is mended at once, on request.
	w.in("node", "ip", "link", "set", "es2", "down")
	w.shell("reconcile "+ni(2), "--write")
	w.eventually("the bridge is up again", func() bool { return w.linkIs("es2", "UP") })
	if all := w.cli("events", "-o", "json"); !strings.Contains(all, "reconcile "+ni(2)) ||
		!strings.Contains(all, `"by": "uid 0, pid `) {
		t.Errorf("the audit is missing: %s", all)
	}
}

func (w *world) linkIs(name, state string) bool {
	return strings.Contains(w.in("node", "ip", "-br", "link", "show", name), state)
}

// A fault hits one network alone and ends by itself, though the shell that began it is killed; a daemon that was started
// without --allow-faults injects none.
func TestAFaultEndsThoughItsShellIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withFaults(doc([]string{network(1, "")}))
	w.wait("ready", "ni/"+ni(1))
	said := w.shellFails(7, "fault hang "+ni(1)+" 5s")
	if !strings.Contains(said, "must be in a shell that was started with --write") {
		t.Errorf("without --write: %s", said)
	}
	// The shell goes on with a stream and dies with it.
	cmd := w.command(w.Binary, "shell", "--write", "-c", "fault hang "+ni(1)+" 6s; events")
	out := &reader{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.says(out.text, "hang: injected, ends by itself after 6s", "shell  ni/"+ni(1))
	began := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	w.apply(doc([]string{network(1, "    mtu: 1400\n"), network(2, "")}))
	w.wait("ready", "ni/"+ni(2))
	if d := time.Since(began); d > scaled(5*time.Second) {
		t.Errorf("the other network waited for the fault: %v", d)
	}
	if all := w.shell("fault list", "--write"); !strings.Contains(all, "hang ni/"+ni(1)+" for another ") {
		t.Errorf("fault list: %s", all)
	}
	if tree := w.shell("tree ni/" + ni(1)); !strings.Contains(tree, "node.applyRequest for ") {
		t.Errorf("the tree does not show who hangs:\n%s", tree)
	}
	w.eventually("the fault has ended and the network has its MTU", func() bool {
		return strings.Contains(w.in("node", "ip", "link", "show", "es1"), "mtu 1400")
	})
	if all := w.shell("fault list", "--write"); !strings.Contains(all, "no fault lasts") {
		t.Errorf("fault list: %s", all)
	}
	if all := w.cli("events", "-o", "json"); !strings.Contains(all, "fault hang ni/"+ni(1)+" ended by itself") {
		t.Errorf("the end of the fault is no event: %s", all)
	}
}

// Each fault does to a real node what it says, and what it did is over with it.
func TestEachFaultIsFeltAndOverWithItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	uplinks := func(mtu string) string {
		return uplinkPorts(1, 0) + "networkInstances:\n" +
			strings.Replace(network(1, mtu), "port: wan", "port: uplink", 1)
	}
	w.withFaults(uplinks(""))
	w.wait("ready", "ni/"+ni(1))
	w.eventually("the port is probed", func() bool { return w.status("port", "wan")["latencyMs"] != nil })

	w.shell("fault fail net1 4s; fault drop-probes 15s; fault slow-disk 2s", "--write")
	w.apply(uplinks("    mtu: 1400\n"))
	w.eventually("the network says why it fails", func() bool {
		return strings.Contains(fmt.Sprint(w.status("ni", ni(1))["error"]), "fault fail: injected by an operator")
	})
	w.eventually("the probes have no answers", func() bool {
		loss, _ := w.status("port", "wan")["loss"].(float64)
		return loss > 0
	})
	w.eventually("the network has its MTU", func() bool {
		return strings.Contains(w.in("node", "ip", "link", "show", "es1"), "mtu 1400")
	})
	w.wait("ready", "ni/"+ni(1))
	w.eventually("no fault lasts", func() bool {
		return strings.Contains(w.shell("fault list", "--write"), "no fault lasts")
	})
	w.eventually("each end is an event", func() bool {
		all := w.cli("events", "--kind", "shell", "-o", "json")
		return strings.Contains(all, "fault fail ni/"+ni(1)+" ended by itself") &&
			strings.Contains(all, "fault drop-probes ended by itself") &&
			strings.Contains(all, "fault slow-disk ended by itself")
	})
}

// A daemon that is frozen, killed or gone is described from outside, while the network works on; after its return the
// shell works again.
func TestAShellOfADaemonThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "app/"+app(1))
	w.lease("web")
	ping := w.pingOut("web")[0]
	if err := ping.WaitGood(w.ctx, 50); err != nil {
		t.Fatal(err)
	}
	pid := w.daemonPID()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	said := w.shellFails(8, "tree")
	for _, want := range []string{fmt.Sprintf("process %d", pid), "stopped by a signal", "says nothing", "edgespan support",
		"journal: " + w.StateDir() + ", last written "} {
		if !strings.Contains(said, want) {
			t.Errorf("frozen: %q is missing in %s", want, said)
		}
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	trace := w.command(w.Binary, "shell", "-c", "trace")
	var gone bytes.Buffer
	trace.Stderr = &gone
	w.eventually("the daemon answers", func() bool {
		r, err := w.CLI(w.ctx, "shell", "-c", "tree")
		return err == nil && r.Code == 0
	})
	if err := trace.Start(); err != nil {
		t.Fatal(err)
	}
	w.eventually("the shell is attached", func() bool { return len(openSockets(trace.Process.Pid)) > 0 })
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	// It may end before it has greeted the shell, which says so.
	if err := trace.Wait(); err == nil || !strings.Contains(gone.String(), "the daemon went away") &&
		!strings.Contains(gone.String(), "daemon: not running") {
		t.Errorf("killed: %v, %s", err, gone.String())
	}
	if said := w.shellFails(8, "tree"); !strings.Contains(said, "daemon: not running; version ") {
		t.Errorf("gone: %s", said)
	}
	w.restart()
	w.shell("tree")
	if c := ping.Stop(); c.Lost+c.Wrong > 0 || c.Good < 100 {
		t.Errorf("pings: %v", c)
	}
}

// Whatever is killed at whatever step, a shell or the daemon, the other one goes on or says so, and no connection stays.
func TestKillsAtEveryStepOfAShell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withFaults(doc([]string{network(1, "")}))
	w.wait("ready", "ni/"+ni(1))
	w.shell("tree")
	steps := []string{"tree", "inspect monitor", "watch network-instance-status", "trace", "tail monitor", "events",
		"reconcile net1; trace", "fault drop-probes 1s; tail monitor"}
	start := func(commands string) (*exec.Cmd, *reader) {
		cmd := w.command(w.Binary, "shell", "--write", "-c", commands)
		said := &reader{}
		cmd.Stdout, cmd.Stderr = said, said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, said
	}
	before := len(openSockets(w.daemonPID()))
	for _, commands := range steps {
		for _, after := range []time.Duration{0, 2 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond} {
			cmd, _ := start(commands)
			<-time.After(after) // at another step each time
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	w.eventually("no connection of a shell is left", func() bool { return len(openSockets(w.daemonPID())) <= before })
	w.shell("tree")
	for i, commands := range steps {
		cmd, said := start(commands)
		<-time.After(time.Duration(i) * 4 * time.Millisecond)
		if err := w.node.Kill(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			// One that had its answers before is content, the others say what has happened.
			if err != nil && !strings.Contains(said.text(), "daemon") {
				t.Errorf("%s: %v, %s", commands, err, said.text())
			}
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			t.Errorf("%s: goes on without a daemon", commands)
		}
		w.restart()
	}
	w.shell("tree")
	w.wait("ready", "ni/"+ni(1))
}

// A daemon that is stuck is asked for its stack, which ends it; the network stands.
func TestAStackOfADaemonThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(doc([]string{network(1, "")}))
	w.wait("ready", "ni/"+ni(1))
	pid := w.daemonPID()
	if r, err := w.CLI(w.ctx, "shell", "--stack", "-c", "tree"); err != nil || r.Code != 0 {
		t.Errorf("of a daemon that answers: %d, %v: %s", r.Code, err, r.Err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	r, err := w.CLI(w.ctx, "shell", "--stack", "-c", "tree")
	if err != nil || r.Code != 8 || !strings.Contains(r.Err, fmt.Sprintf("process %d ends and writes", pid)) {
		t.Errorf("of one that does not: %d, %v: %s", r.Code, err, r.Err)
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil { // a stopped one gets no signal before
		t.Fatal(err)
	}
	select {
	case <-w.node.Ended():
	case <-time.After(20 * time.Second):
		t.Fatal("the daemon goes on")
	}
	said, err := os.ReadFile(w.NodeLog())
	if err != nil || !strings.Contains(string(said), "SIGQUIT: quit") || !strings.Contains(string(said), "goroutine ") {
		t.Errorf("the log has no stack: %v", err)
	}
	if !w.linkIs("es1", "UP") {
		t.Error("the network is gone")
	}
	w.restart()
	w.shell("tree")
}

// Another user than root gets in by a group alone: members of edgespan read, those of edgespan-admin may change
// something. What they tried is recorded.
func TestAShellOfAnotherUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(doc([]string{network(1, "")}))
	w.wait("ready", "ni/"+ni(1))
	reads, ok := daemon.GroupID("edgespan")
	changes, also := daemon.GroupID("edgespan-admin")
	if !ok || !also {
		t.Fatal("the groups are missing: run scripts/setup.sh")
	}
	as := func(groups string, args ...string) string {
		argv := append([]string{"--reuid=65534", "--regid=65534", groups, w.Binary, "shell"}, args...)
		cmd := w.command("setpriv", argv...)
		out, err := cmd.CombinedOutput()
		return fmt.Sprintf("%s%v", out, err)
	}
	for _, c := range []struct {
		groups string
		args   []string
		want   string
	}{
		{"--clear-groups", []string{"-c", "tree"}, "must be root or a member of the group edgespan"},
		{fmt.Sprint("--groups=", reads), []string{"-c", "tree"}, "ni/" + ni(1)},
		{fmt.Sprint("--groups=", reads), []string{"--write", "-c", "reconcile net1"},
			"reconcile: not permitted to uid 65534: must be root or in the group edgespan-admin\nexit status 7"},
		{fmt.Sprintf("--groups=%d,%d", reads, changes), []string{"--write", "-c", "reconcile net1"},
			"compares the host with its desired state now\n<nil>"},
	} {
		if said := as(c.groups, c.args...); !strings.Contains(said, c.want) {
			t.Errorf("%s %v: %s", c.groups, c.args, said)
		}
	}
	said, err := os.ReadFile(w.NodeLog())
	if err != nil || !strings.Contains(string(said), `"msg":"command refused","op":"reconcile","by":"uid 65534, pid `) {
		t.Errorf("the refusal is not in the log: %v", err)
	}
}

// openSockets returns the sockets that a process holds.
func openSockets(pid int) (all []string) {
	folder := fmt.Sprintf("/proc/%d/fd/", pid)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if to, err := os.Readlink(folder + e.Name()); err == nil && strings.HasPrefix(to, "socket:") {
			all = append(all, to)
		}
	}
	return all
}

// A hundred shells at once get their answers, and the daemon keeps nothing of them.
func TestAHundredShellsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(doc([]string{network(1, "")}))
	w.wait("ready", "ni/"+ni(1))
	w.shell("tree")
	pid := w.daemonPID()
	before := len(openSockets(pid))
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failed []string
	for range 10 {
		wait.Go(func() {
			for range 10 {
				r, err := w.CLI(w.ctx, "shell", "-c", "tree; names actor; tree monitor")
				if err != nil || r.Code != 0 || !strings.Contains(r.Out, "router") {
					mu.Lock()
					failed = append(failed, fmt.Sprint(err, r))
					mu.Unlock()
				}
			}
		})
	}
	wait.Wait()
	if len(failed) > 0 {
		t.Errorf("%d of 100 failed: %s", len(failed), failed[0])
	}
	w.eventually("no connection is left", func() bool { return len(openSockets(pid)) <= before })
}

// As an operator of a fleet I use a node's shell through the controller, while the node may be reached by nothing else.
// Both sides record who I am; a viewer gets nothing, and an operator injects no fault.
func TestAShellThroughTheController(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.open("one", 8443, quick...)
	c.remember(c.line("CA sha256:"))
	if r := w.join(c.run("nodes", "invite", "edge-1").Out, "--state-dir", w.StateDir()); r.Code != 0 {
		t.Fatalf("join: %+v", r)
	}
	w.withFaults(doc([]string{network(1, "")}))
	w.wait("ready", "ni/"+ni(1))
	w.eventually("the node is connected", func() bool {
		return strings.Contains(c.ok("nodes", "describe", "edge-1", "-o", "json"), `"online": true`)
	})
	if tree := c.ok("shell", "--node", "edge-1", "-c", "tree; names network"); !strings.Contains(tree, "ni/"+ni(1)) ||
		!strings.Contains(tree, `"net1"`) {
		t.Errorf("tree: %s", tree)
	}
	c.ok("shell", "--node", "edge-1", "--write", "-c", "reconcile net1; fault drop-probes 1s")
	if r := c.run("shell", "--node", "edge-1", "-c", "inspect nothing"); r.Code != 10 ||
		!strings.Contains(r.Err, `inspect: "nothing": no such actor`) {
		t.Errorf("a failure: %+v", r)
	}
	if r := c.run("shell", "--node", "edge-2", "-c", "tree"); r.Code != 10 || !strings.Contains(r.Err, `node "edge-2"`) {
		t.Errorf("an unknown node: %+v", r)
	}
	said, err := os.ReadFile(w.NodeLog())
	if err != nil || !strings.Contains(string(said), `"command":"reconcile net1","by":"operator `) {
		t.Errorf("the node's log does not have it: %v", err)
	}
	audited := false
	if err := filepath.WalkDir(c.dir, func(path string, _ os.DirEntry, err error) error {
		if text, err := os.ReadFile(path); err == nil && strings.HasPrefix(filepath.Base(path), "audit") {
			audited = audited || strings.Contains(string(text), "nodes/edge-1/shell") &&
				strings.Contains(string(text), "reconcile net1")
		}
		return err
	}); err != nil || !audited {
		t.Errorf("the controller's audit log does not have it: %v", err)
	}
	// A stream shows what happens, and ends with the node's connection.
	argv := c.argv([]string{w.Binary, "shell", "--node", "edge-1", "-c", "trace"})
	cmd := exec.Command("ip", append([]string{"netns", "exec", w.NS("isp")}, argv...)...)
	stream := &reader{}
	cmd.Stdout, cmd.Stderr = stream, stream
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.eventually("the stream shows a reconcile", func() bool {
		w.shell("reconcile net1", "--write")
		return strings.Contains(stream.text(), "compares with the host")
	})
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(stream.text(), "the node has disconnected") {
		t.Errorf("after the node has gone: %v, %s", err, stream.text())
	}
}
