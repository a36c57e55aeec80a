package scenario

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// daemonPid returns the pid of the daemon.
func (w *world) daemonPid() string {
	w.Helper()
	return w.in("node", "sh", "-c",
		`for p in $(ip netns pids "$0"); do grep -qx edgespan /proc/$p/comm && echo $p; done; :`, w.NS("node"))
}

// ticks returns the processor time of a process, in hundredths of a second (proc(5)).
func (w *world) ticks(pid string) int {
	w.Helper()
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		w.Fatal(err)
	}
	sum := 0
	for _, f := range strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))[11:13] {
		n, err := strconv.Atoi(f)
		if err != nil {
			w.Fatal(err)
		}
		sum += n
	}
	return sum
}

// carrierChanges returns how often the carrier of a node's link has changed.
func (w *world) carrierChanges(link string) int {
	w.Helper()
	n, err := strconv.Atoi(w.in("node", "cat", "/sys/class/net/"+link+"/carrier_changes"))
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// during repeats a shell command in a namespace while do runs.
func (w *world) during(short, command string, do func()) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	c := w.Command(ctx, short, "sh", "-c", "while :; do "+command+"; done")
	if err := c.Start(); err != nil {
		cancel()
		w.Fatal(err)
	}
	defer func() {
		cancel()
		_ = c.Wait() // killed
	}()
	do()
}

// taps returns apps with a tap device each, on network n.
func taps(first, count, n int) (apps []string) {
	for i := range count {
		apps = append(apps, fmt.Sprintf("  %s:\n    displayName: tap%d\n    activate: true\n    adapters:\n      0: "+
			"{networkInstance: %s, attach: {kind: tap}}\n", app(first+i), first+i, ni(n)))
	}
	return apps
}

// An app that flaps its link, another agent that keeps a link down, and an op that can't succeed each cost little, are
// reported, and delay no repair.
func TestNothingThatOthersDoInALoopTiresTheNode(t *testing.T) {
	w := newWorld(t, "a")
	const many = 300
	apps := append(taps(100, many, 1), onNet(1, 1, "a", allowAll))
	w.start(doc([]string{strings.Replace(network(1, ""), "10.1.0.0/24", "10.1.0.0/22", 1)}, apps...))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(99+many))
	pid := w.daemonPid()
	up := func(link string) bool { return strings.Contains(w.in("node", "ip", "-o", "link", "show", link), ",UP") }
	const watched = 5 * time.Second
	flaps := filepath.Join(t.TempDir(), "flaps") // by one process each 1,000: as fast as the kernel does it
	if err := os.WriteFile(flaps, []byte(strings.Repeat("link set eth0 down\nlink set eth0 up\n", 1000)),
		0o600); err != nil {
		t.Fatal(err)
	}
	w.during("a", "ip -batch "+flaps, func() {
		before, flapped, began := w.ticks(pid), w.carrierChanges("es1a1"), time.Now()
		time.Sleep(watched) // the measurement is of this duration
		share := float64(w.ticks(pid)-before) / time.Since(began).Seconds()
		t.Logf("an app that flaps its link %d times: %.1f %% of a core", (w.carrierChanges("es1a1")-flapped)/2, share)
		if share > 5 {
			t.Errorf("an app that flaps its link costs %.1f %% of a core, which may be 5", share)
		}
		w.in("node", "ip", "link", "set", "es1", "down")
		began = time.Now()
		w.eventually("the bridge is up again", func() bool { return up("es1") })
		if d := time.Since(began); d > scaled(2*time.Second) {
			t.Errorf("beside it a repair takes %v", d)
		}
	})
	down := filepath.Join(t.TempDir(), "down") // faster than the daemon reads back what it has set up
	if err := os.WriteFile(down, []byte(strings.Repeat("link set es1a1 down\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	w.during("node", "ip -batch "+down, func() {
		w.eventually("a contest is told", func() bool {
			warning, _ := w.status("ni", ni(1))["warning"].(string)
			return strings.Contains(warning, "changed by others") && strings.Contains(warning, "port es1a")
		})
		w.says(func() string { return w.cli("events", "ni/"+ni(1)) }, "contested", "changed by others")
		w.says(func() string { return w.cli("explain", "ni/"+ni(1)) }, "changed by others")
	})
	w.eventually("the link is up again", func() bool { return up("es1a1") })
}
