package scenario

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// member creates a fleet of one node that runs doc in sync, with a controller named lab.
func (w *world) member(doc string, extra ...string) *office {
	w.Helper()
	o := w.open("lab", 8443, append(slices.Clone(quick), extra...)...)
	o.remember(o.line("CA sha256:"))
	if r := w.join(o.run("nodes", "invite", "edge-1").Out, "--state-dir", w.StateDir()); r.Code != 0 {
		w.Fatalf("join: %+v", r)
	}
	o.ok("network", "set", "sysParams.managedConfig=true")
	o.set("edge-1", doc)
	w.start("{}")
	o.is("edge-1", "InSync", ready)
	return o
}

func ready(n nodeSeen) bool { return n.Ready }

// accepted counts the configs that the node has accepted so far.
func (w *world) accepted() int {
	w.Helper()
	text, err := os.ReadFile(w.NodeLog())
	if err != nil {
		w.Fatal(err)
	}
	return strings.Count(string(text), `"msg":"config","what":"accepted"`)
}

// islanded returns a network without a way out.
func islanded(n int) string { return strings.Replace(network(n, ""), "port: wan", `port: ""`, 1) }

// A push that breaks the uplink is undone, reported to the operator with its reason, and not pushed again. Everything
// else works all the time.
func TestAPushThatBreaksTheUplinkComesBackAndTheControllerSaysSo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	good := doc([]string{network(1, ""), islanded(2)}, onNet(1, 2, "web", allowAll), onNet(2, 2, "client", allowAll))
	o := w.member(good, "--config-confirm-timeout-s", "10")
	web := w.lease("web")
	w.lease("client")
	pings, err := w.PingLoop("client", web.IP, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	before := w.accepted()

	began := time.Now()
	o.ok("node", "modify", "edge-1", "ports.wan.ifName=uplink9", "-m", "the wrong card")
	o.is("edge-1", "Degraded")
	if p := w.status("pending", "node"); p["pending"] != true {
		t.Errorf("get pending says %v", p)
	}
	n := o.is("edge-1", "RolledBack")
	took := time.Since(began)
	if took < 9*time.Second || took > scaled(20*time.Second) {
		t.Errorf("it came back after %v, not after the confirm time of 10 s", took)
	}
	if len(n.Failures) != 1 || n.Failures[0].Reason != "unhealthy" || !strings.Contains(n.Failures[0].Why, "port/wan") {
		t.Errorf("failures %+v", n.Failures)
	}
	said := o.ok("nodes", "describe", "edge-1")
	for _, part := range []string{"RolledBack: ", "unhealthy", "port/wan",
		"next: nothing, until its config or its versions change, or a retry is asked for"} {
		if !strings.Contains(said, part) {
			t.Errorf("nodes describe lacks %q:\n%s", part, said)
		}
	}
	w.wait("ready", "ni/"+ni(1))
	if got := w.in("node", "ip", "route", "get", "192.0.2.1"); !strings.Contains(got, "uplink0") {
		t.Errorf("the route to the provider: %s", got)
	}

	// A new stream, on which the controller starts from scratch.
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	o.is("edge-1", "Offline")
	w.restart()
	o.is("edge-1", "RolledBack", func(n nodeSeen) bool { return n.Online })
	if r := o.run("rollout", "show", "3", "-o", "wide"); !strings.Contains(r.Out, "failed") ||
		!strings.Contains(r.Out, "unhealthy") {
		t.Errorf("rollout show: %+v", r)
	}

	o.set("edge-1", doc([]string{network(1, ""), islanded(2), network(3, "")}, onNet(1, 2, "web", allowAll),
		onNet(2, 2, "client", allowAll)), "-m", "mended")
	o.is("edge-1", "InSync", ready)
	w.wait("ready", "ni/"+ni(3))
	if got := w.accepted() - before; got != 2 {
		t.Errorf("the node took %d configs: the broken one and the mended one are 2", got)
	}
	if c := pings.Stop(); c.Lost+c.Wrong > 0 || c.Good < 400 {
		t.Errorf("pings of a network that nobody touched: %+v", c)
	}
}
