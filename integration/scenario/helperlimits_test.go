package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// groupOfHelper returns the cgroup of a process below that of edgespan, "" if it is in none.
func (w *world) groupOfHelper(pid string) string {
	w.Helper()
	text, err := os.ReadFile("/proc/" + pid + "/cgroup")
	if err != nil {
		w.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok && strings.Contains(group, "/edgespan/") {
			return group
		}
	}
	return ""
}

// cgroup2 returns where the hierarchy is mounted.
func cgroup2(t *testing.T) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return f[1]
		}
	}
	t.Skip("skipped: the machine mounts no cgroup2")
	return ""
}

// As an operator I limit what the helpers of a network take: each network has a cgroup, its limits change without a
// new dnsmasq, and it goes with the network. What the kernel lacks for that, the doctor says.
func TestTheHelpersOfANetworkHaveACgroup(t *testing.T) {
	t.Parallel()
	root := cgroup2(t)
	limited := func(processes string) []string {
		return []string{network(1, "    limits: {memory: 64, processor: 50, processes: "+processes+"}\n"), network(2, "")}
	}
	w := newWorld(t, "web")
	w.start(doc(limited("9"), onNet(1, 1, "web", allowAll)))
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1))
	pids := func() (one, two string) {
		for _, pid := range strings.Fields(w.in("node", "sh", "-c",
			`for p in $(ip netns pids "$0"); do grep -qx dnsmasq /proc/$p/comm && echo $p; done; :`, w.NS("node"))) {
			switch g := w.groupOfHelper(pid); {
			case strings.HasSuffix(g, "-ni-1"):
				one = pid
			case strings.HasSuffix(g, "-ni-2"):
				two = pid
			}
		}
		return one, two
	}
	one, two := pids()
	if one == "" || two == "" {
		t.Fatalf("the dnsmasqs in cgroups are %q and %q", one, two)
	}
	group := filepath.Join(root, w.groupOfHelper(one))
	lacks := w.cli("doctor")
	for name, f := range map[string]struct{ file, want string }{"memory": {"memory.max", "67108864"},
		"cpu": {"cpu.max", "50000 100000"}, "pids": {"pids.max", "9"}} {
		text, err := os.ReadFile(filepath.Join(group, f.file))
		if err == nil && strings.TrimSpace(string(text)) != f.want {
			t.Errorf("%s is %s, want %s", f.file, text, f.want)
		}
		if err != nil && !strings.Contains(lacks, "not enforced, as cgroup2 lacks: ") {
			t.Errorf("%v, and the doctor does not say that %s is missing:\n%s", err, name, lacks)
		}
	}

	// A change, a restart of the daemon and another program that takes it out of its group leave it running.
	w.apply(doc(limited("12"), onNet(1, 1, "web", allowAll)))
	w.wait("ready", "ni/"+ni(1))
	if text, err := os.ReadFile(filepath.Join(group, "pids.max")); err == nil && strings.TrimSpace(string(text)) != "12" {
		t.Errorf("pids.max is %s, want 12", text)
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.procs"), []byte(one), 0); err != nil {
		t.Fatal(err)
	}
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wait("ready", "ni/"+ni(1))
	w.eventually("it is in its group again", func() bool { a, b := pids(); return a == one && b == two })
	w.lease("web")

	// The group goes with its network, and the other one stays.
	w.apply(doc([]string{network(2, "")}))
	w.eventually("the group is gone", func() bool { _, err := os.Stat(group); return os.IsNotExist(err) })
	if _, b := pids(); b != two {
		t.Errorf("dnsmasq %s of the other network became %s", two, b)
	}
	w.apply("{}")
	w.eventually("no group is left", func() bool {
		left, err := filepath.Glob(strings.TrimSuffix(group, "-ni-1") + "-*")
		return err == nil && len(left) == 0
	})
}
