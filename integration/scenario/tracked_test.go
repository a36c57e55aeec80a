package scenario

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/platform/lab"
)

// While the machine can track no more flows, no app can open one. The node's queries to its own helpers still work and
// prove that the network is healthy.
func TestAFullTableOfFlowsIsNoFaultOfANetwork(t *testing.T) {
	w := newWorld(t, "web")
	named := func(name string) string {
		return doc([]string{strings.Replace(network(1, ""), "{domain: n1.edge}", "{domain: n1.edge, hosts: {"+name+
			": 10.1.0.9}}", 1)}, onNet(1, 1, "web", allowAll))
	}
	w.start(named("first"))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	pid := w.dnsmasq()
	limit := w.number("/proc/sys/net/netfilter/nf_conntrack_max")
	began := time.Now()
	next := 0
	fill := func(n int) {
		t.Helper()
		if err := w.inside("node", func() error { return netns.FillFlows(next, n) }); err != nil {
			t.Fatal(err)
		}
		next += n
		w.fails("node", "ping", "-c1", "-W1", lab.Gateway)
	}
	fill(limit)
	t.Logf("%d of %d flows after %v", w.number("/proc/sys/net/netfilter/nf_conntrack_count"), limit,
		time.Since(began).Round(time.Millisecond))
	for _, name := range []string{"second", "third"} { // each apply runs the self-test
		fill(500) // earlier flows have ended
		w.apply(named(name))
		w.wait("ready", "ni/"+ni(1), "app/"+app(1))
		if s := w.status("ni", ni(1)); s["state"] != "Present" || s["error"] != "" {
			t.Errorf("with a full table the network is %v", s)
		}
	}
	if now := w.dnsmasq(); now != pid {
		t.Errorf("dnsmasq %s became %s", pid, now)
	}
	if events := w.cli("events"); strings.Contains(events, "Failed") {
		t.Errorf("it was not Present all the time:\n%s", events)
	}
}

// number reads a number from a file on the node.
func (w *world) number(path string) int {
	w.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(w.in("node", "cat", path)))
	if err != nil {
		w.Fatal(err)
	}
	return n
}
