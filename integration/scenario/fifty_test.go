package scenario

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// BenchmarkUplinkFiftyNetworks measures the processor time of a daemon with 50 networks that may use any of 3 uplinks,
// while nothing happens but probes: in each run for 5 s, and in all of them together (%core).
func BenchmarkUplinkFiftyNetworks(b *testing.B) {
	const networks, uplinks, long = 50, 3, 5 * time.Second
	w := newWorldOf(b, lab.Options{Uplinks: uplinks})
	var doc strings.Builder
	doc.WriteString(uplinkPorts(uplinks, 10) + "networkInstances:\n")
	for n := range networks {
		doc.WriteString(strings.Replace(network(n+1, ""), "port: wan", "port: uplink", 1))
	}
	w.start(doc.String())
	for n := range networks {
		w.wait("ready", "ni/"+ni(n+1))
	}
	pid := w.daemonPID()
	ready := time.After(5 * time.Second) // of what a start leaves to do
	<-ready
	first, start, probes := cpuTime(b, pid), time.Now(), w.probesSeen(0)
	var shares []float64
	for b.Loop() {
		before, began := cpuTime(b, pid), time.Now()
		<-time.After(long)
		shares = append(shares, 100*(cpuTime(b, pid)-before).Seconds()/time.Since(began).Seconds())
	}
	b.ReportMetric(100*(cpuTime(b, pid)-first).Seconds()/time.Since(start).Seconds(), "%core")
	if n, seconds := w.probesSeen(0)-probes, time.Since(start).Seconds(); float64(n) < 0.75*seconds {
		b.Errorf("the provider has received %d packets in %.0f s: each uplink is probed each second", n, seconds)
	}
	b.ReportMetric(0, "ns/op")
	quantiles(b, "%core", shares)
}

// daemonPID returns the process of the node's daemon.
func (w *world) daemonPID() int {
	w.Helper()
	for _, word := range strings.Fields(w.in("node", "ip", "netns", "pids", w.NS("node"))) {
		exe, _ := os.Readlink("/proc/" + word + "/exe") // a process that has ended meanwhile has none
		if pid, err := strconv.Atoi(word); err == nil && exe == w.Binary {
			return pid
		}
	}
	w.Fatal("no daemon runs")
	return 0
}

// probesSeen returns how many packets a provider has received.
func (w *world) probesSeen(uplink int) int {
	w.Helper()
	p := w.Provider(uplink)
	n, err := strconv.Atoi(w.in(p.Short, "cat", "/sys/class/net/"+p.Peer+"/statistics/rx_packets"))
	if err != nil {
		w.Fatal(err)
	}
	return n
}

// cpuTime returns the processor time that a process and the children it has waited for have used.
func cpuTime(t testing.TB, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ") // field 3 follows the command's name
	fields, ticks := strings.Fields(rest), 0
	for _, f := range fields[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / 100 // USER_HZ
}
