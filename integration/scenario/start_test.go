package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"edgespan/platform/lab"
)

// smallDisk mounts a small disk below the state folder, and returns functions that fill it and make room again.
func (w *world) smallDisk() (fill func(), room func()) { return w.smallDiskAt(w.StateDir()) }

func (w *world) smallDiskAt(dir string) (fill func(), room func()) {
	w.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		w.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m,mode=755"); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			w.Error(err)
		}
	})
	path := filepath.Join(dir, "somebody-elses")
	fill = func() {
		w.Helper()
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			w.Fatal(err)
		}
		for size := 1 << 20; size > 0; {
			if _, err = f.Write(make([]byte, size)); err != nil {
				size /= 2
			}
		}
		if !errors.Is(err, syscall.ENOSPC) {
			w.Fatalf("filling the disk ended with %v", err)
		}
		_ = f.Close()
	}
	return fill, func() {
		if err := os.Truncate(path, 0); err != nil {
			w.Fatal(err)
		}
	}
}

// diagnosed fails the test unless the doctor names a problem by a check and a word, or none.
func (w *world) diagnosed(check, word string) {
	w.Helper()
	r, err := w.CLI(w.ctx, "doctor", "-o", "json")
	if err != nil {
		w.Fatal(err)
	}
	var all struct {
		Findings []struct{ Check, Level, Text, Fix string }
	}
	if err := json.Unmarshal([]byte(r.Out), &all); err != nil {
		w.Fatal(err)
	}
	problem := ""
	for _, f := range all.Findings {
		if f.Check == check && f.Level == "problem" {
			problem += f.Text + "\n"
		}
	}
	if (word == "") != (problem == "") || !strings.Contains(problem, word) || word != "" && r.Code != 1 {
		w.Errorf("doctor exits %d and says of %s %q, want %q", r.Code, check, problem, word)
	}
}

// link returns the index of an app's link and the pids of dnsmasq, which must not change.
func (w *world) link(app string) string {
	w.Helper()
	return w.in(app, "cat", "/sys/class/net/eth0/ifindex") + " " + w.dnsmasq()
}

// A full disk doesn't end a daemon or stop it from starting: the config file is applied, a config that can't be stored
// is refused and changes nothing, a helper that dies is restarted, and no version is reused. Once there is room,
// everything is written to the disk.
func TestAFullDiskEndsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "db")
	fill, room := w.smallDisk()
	fill()
	one := []string{network(1, ""), onNet(1, 1, "web", allowAll)}
	w.start(doc([]string{one[0]}, one[1])) // the node's first start
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	journal := func(want string) {
		t.Helper()
		w.eventually("journal: "+want, func() bool { return w.status("config", "node")["journal"] == want })
	}
	journal("not journalled")
	w.diagnosed("state", "no space left on device")
	if out := w.cli("events"); !strings.Contains(out, "not journalled") {
		t.Errorf("the events are\n%s", out)
	}
	refused := func(document string) {
		t.Helper()
		r, err := w.CLIWith(w.ctx, document, "apply", "-f", "-")
		if err != nil || r.Code != 1 || !strings.Contains(r.Err, "no space left on device") {
			t.Errorf("apply exits %d, %v: %s%s", r.Code, err, r.Out, r.Err)
		}
	}
	both, err := w.Config([]byte(doc([]string{one[0]}, one[1], onNet(2, 1, "db", allowAll))))
	if err != nil {
		t.Fatal(err)
	}
	refused(string(both))
	w.lease("web")
	if r, err := w.CLI(w.ctx, "get", "app", app(2)); err != nil || r.Code == 0 {
		t.Errorf("a refused app is there: %v %s", err, r.Out)
	}
	complete, versions := w.link("web"), map[any]bool{}
	for range 3 {
		version := w.status("app", app(1))["targetVersion"]
		if versions[version] {
			t.Errorf("version %v was given out twice", version)
		}
		versions[version] = true
		if err := w.node.Kill(); err != nil {
			t.Fatal(err)
		}
		w.restart()
		w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	}
	if now := w.link("web"); now != complete {
		t.Errorf("link and dnsmasq are %s, were %s", now, complete)
	}
	w.killDnsmasq()
	w.answersWithin(boundOfARepair)

	room()
	journal("journalled")
	w.diagnosed("state", "")
	w.apply(doc([]string{one[0]}, one[1], onNet(2, 1, "db", allowAll)))
	w.wait("ready", "app/"+app(2))

	// The disk fills again while the daemon runs: an in-place write still succeeds.
	fill()
	w.apply(doc([]string{one[0]}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "ni/"+ni(1))
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	if r, err := w.CLI(w.ctx, "get", "app", app(2)); err != nil || r.Code != 10 {
		t.Errorf("what was applied last is not what runs: %d %v %s", r.Code, err, r.Out)
	}
}

// boundOfARepair is the time limit until the network's DNS is back on a busy machine with two cores.
const boundOfARepair = 5e9

// A completely damaged state folder doesn't stop a daemon from starting either: nothing on the host is recreated or
// removed, addresses are kept, and the damaged files are set aside.
func TestADamagedStateFolderEndsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "db")
	document := doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll), onNet(2, 1, "db", allowAll))
	w.start(document)
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	leases := fmt.Sprint(w.lease("web"), w.lease("db"))
	complete, version := w.link("web")+" "+w.link("db"), w.status("app", app(1))["targetVersion"]
	id, err := os.ReadFile(filepath.Join(w.StateDir(), "node-id"))
	if err != nil {
		t.Fatal(err)
	}
	damage := func(what string, f func(path string) error, names ...string) {
		t.Helper()
		if err := w.node.Kill(); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if err := f(filepath.Join(w.StateDir(), name)); err != nil {
				t.Fatal(err)
			}
		}
		w.restart()
		w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
		if now := w.link("web") + " " + w.link("db"); now != complete {
			t.Errorf("%s: links and dnsmasq are %s, were %s", what, now, complete)
		}
		if now := fmt.Sprint(w.lease("web"), w.lease("db")); now != leases {
			t.Errorf("%s: the leases are %s, were %s", what, now, leases)
		}
		if now := w.status("app", app(1))["targetVersion"]; now == version {
			t.Errorf("%s: version %v again", what, now)
		} else {
			version = now
		}
		if now, err := os.ReadFile(filepath.Join(w.StateDir(), "node-id")); err != nil || !bytes.Equal(now, id) {
			t.Errorf("%s: the id is %s, was %s: %v", what, now, id, err)
		}
		w.diagnosed("state", "at its start the daemon found")
		if out := w.cli("events"); !strings.Contains(out, "storage") {
			t.Errorf("%s: the events are\n%s", what, out)
		}
	}
	damage("a flipped bit and an empty id", func(path string) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if filepath.Base(path) == "node-id" {
			return os.WriteFile(path, nil, 0o644)
		}
		text[100] ^= 8
		return os.WriteFile(path, text, 0o600)
	}, "journal", "node-id")
	damage("garbage", func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte("x"), 5000), 0o600) },
		"journal")
	damage("no journal", os.Remove, "journal")
	kept, err := filepath.Glob(filepath.Join(w.StateDir(), "*.corrupt-*"))
	if err != nil || len(kept) < 3 {
		t.Errorf("kept are %v, %v", kept, err)
	}

	// Without a readable config and without a config file, the host is not changed.
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	slots, _ := filepath.Glob(filepath.Join(w.StateDir(), "config-*"))
	for _, path := range append(slots, filepath.Join(w.StateDir(), "journal")) {
		if err := os.WriteFile(path, []byte("\x00garbage"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(w.ConfigFile()); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.eventually("Unclaimed", func() bool {
		r, err := w.CLI(w.ctx, "get", "ni", ni(1))
		return err == nil && strings.Contains(r.Out, "Unclaimed")
	})
	w.diagnosed("state", "the node's config is lost")
	for _, path := range slots {
		if kept, _ := filepath.Glob(path + ".corrupt-*"); len(kept) != 1 {
			t.Errorf("of %s %d copies are kept", path, len(kept))
		}
	}
	w.lease("web")
	w.apply(document)
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	if now := w.link("web") + " " + w.link("db"); now != complete {
		t.Errorf("after the apply links and dnsmasq are %s, were %s", now, complete)
	}

	// With --strict, the exit code reports the damage.
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.StateDir(), "journal"), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := w.StartNode(w.NodeCmd("--strict"))
	if err != nil {
		t.Fatal(err)
	}
	<-n.Ended()
	if !strings.Contains(w.LastWords(5), "corrupt at offset 0") {
		t.Errorf("--strict says %s", w.LastWords(5))
	}
}

// A program that is not root's and has bound the lock's name doesn't stop a daemon, and is reported.
func TestAForeignHolderOfTheLockIsReportedAndIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	cmd := exec.Command("ip", "netns", "exec", w.NS("node"), "python3", "-c", `
import os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
s = socket.socket(socket.AF_UNIX)
s.bind("\0edgespan-node")
s.listen(1)
print("ready", flush=True)
sys.stdin.read()
`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip("needs python3: ", err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.diagnosed("lock", "uid 65534 holds the name @edgespan-node")
	if out := w.cli("events"); !strings.Contains(out, "uid 65534") {
		t.Errorf("the events are\n%s", out)
	}
	second, err := w.StartNode(w.NodeCmd())
	if err != nil {
		t.Fatal(err)
	}
	<-second.Ended()
	if !strings.Contains(w.LastWords(5), "another edgespan node runs in it") {
		t.Errorf("a second daemon says %s", w.LastWords(5))
	}
}

// dnsmasq has only the rights that it needs: its own user, two capabilities, no new privileges, a list of system
// calls; and it serves clients.
func TestDnsmasqHasNoRightsToSpare(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	w.answersWithin(boundOfARepair)
	if r, err := w.Exec(w.ctx, "web", "dig", "+tcp", "+short", "@10.1.0.1", lab.WebName); err != nil ||
		strings.TrimSpace(r.Out) != lab.WebAddr {
		t.Errorf("DNS by TCP, which forks: %v %s%s", err, r.Out, r.Err)
	}
	text, err := os.ReadFile(filepath.Join("/proc", w.dnsmasq(), "status"))
	if err != nil {
		t.Fatal(err)
	}
	status := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 {
			status[words[0]] = words[1:]
		}
	}
	const netAdmin, netRaw, bindService = 1 << 12, 1 << 13, 1 << 10
	caps := func(name string) uint64 {
		n, err := strconv.ParseUint(status[name][0], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if has := caps("CapEff:"); has&^(netAdmin|netRaw|bindService) != 0 || has&netAdmin == 0 {
		t.Errorf("the capabilities are %x", has)
	}
	if bound := caps("CapBnd:"); bound&^(netAdmin|netRaw|bindService|1<<6|1<<7) != 0 {
		t.Errorf("the bound of the capabilities is %x", bound)
	}
	if status["NoNewPrivs:"][0] != "1" || status["Seccomp:"][0] != "2" {
		t.Errorf("no new privileges %v, seccomp %v", status["NoNewPrivs:"], status["Seccomp:"])
	}
	uid := func(name string) string {
		text, _ := exec.Command("getent", "passwd", name).Output()
		words := strings.Split(string(text), ":")
		return words[min(2, len(words)-1)]
	}
	want := uid("edgespan-dns")
	if want == "" {
		t.Log("there is no user edgespan-dns: make setup makes it")
		if want = uid("dnsmasq"); want == "" {
			want = uid("nobody")
		}
	}
	if got := status["Uid:"]; got[0] != want || got[1] != want || got[2] != want {
		t.Errorf("it runs as %v, want %s", got, want)
	}
}

// The capabilities that the systemd unit leaves the daemon are enough for networks and their repair, rules, flows,
// namespaces, the addresses that apps use, and helpers of another user.
func TestTheUnitsCapabilitiesAreEnough(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip("needs setpriv")
	}
	text, err := os.ReadFile("../../deploy/edgespan.service")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "CapabilityBoundingSet=")
	line, _, _ := strings.Cut(rest, "\n")
	bound := "-all"
	for _, c := range strings.Fields(line) {
		bound += ",+" + strings.ToLower(strings.TrimPrefix(c, "CAP_"))
	}
	w := newWorld(t, "web", "db")
	if err := w.WriteConfig([]byte(doc([]string{network(1, ""), switchNetwork(2, "")},
		onNet(1, 1, "web", allowAll), onNet(2, 1, "db", "")))); err != nil {
		t.Fatal(err)
	}
	cmd := w.NodeCmd()
	at := 4 // ip netns exec NAME
	cmd.Args = append(append(append([]string{}, cmd.Args[:at]...), "setpriv", "--no-new-privs", "--bounding-set="+bound),
		cmd.Args[at:]...)
	if w.node, err = w.StartNode(cmd); err != nil {
		t.Fatal(err)
	}
	if _, err := w.WaitControl(w.ctx, w.node); err != nil {
		t.Fatal(err)
	}
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	w.lease("web")
	w.in("web", "ping", "-c1", "-W2", lab.WebAddr)
	w.killDnsmasq()
	w.answersWithin(boundOfARepair)
	w.apply(doc([]string{network(1, "")}, onNet(1, 1, "web", "")))
	w.eventually("a rule that denies", func() bool {
		r, err := w.Exec(w.ctx, "web", "ping", "-c1", "-W1", lab.WebAddr)
		return err == nil && r.Code != 0
	})
	w.apply("{}")
	w.eventually("an empty host", func() bool { return w.cli("get", "ni", "-o", "name") == "" && w.dnsmasq() == "" })
	if out := w.cli("get", "actor"); strings.Contains(out, "restarting") {
		t.Errorf("actors crash:\n%s", out)
	}
}
