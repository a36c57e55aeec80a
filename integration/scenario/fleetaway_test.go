package scenario

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// A controller hangs and then dies. The node continues, keeps its config, and later reports what happened meanwhile;
// the controller learns of a local config and its end.
func TestANodeWorksOnWhileItsControllerIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	apps := []string{onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll)}
	o := w.member(doc([]string{network(1, "")}, apps...), "--config-confirm-timeout-s", "5")
	web := w.lease("web")
	w.lease("client")
	pings, err := w.PingLoop("client", web.IP, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	confirmed := w.status("pending", "node")["generation"]
	before := w.accepted()

	// It hangs for longer than a config's confirm timeout.
	o.signal(syscall.SIGSTOP)
	hung := time.Now()
	w.applies(t, "refused, for the controller rules", 5, "{}")
	w.eventually("more than the confirm time", func() bool { return time.Since(hung) > 6*time.Second })
	if p := w.status("pending", "node"); p["pending"] != false || p["generation"] != confirmed ||
		p["source"] != "controller" {
		t.Errorf("while the controller hangs: %v", p)
	}
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	o.kill()
	w.eventually("the end of the stream", func() bool { return w.status("pending", "node")["linked"] == false })
	// The daemon restarts without a controller.
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if p := w.status("pending", "node"); p["generation"] != confirmed || p["source"] != "controller" ||
		p["managed"] != true {
		t.Errorf("after a start without a controller: %v", p)
	}
	if r := w.applies(t, "a local config", 0, doc([]string{network(1, ""), network(2, "")}, apps...), "--local"); r != "" {
		t.Logf("apply --local says %s", r)
	}
	w.wait("ready", "ni/"+ni(2))

	o.begin()
	n := o.is("edge-1", "HeldLocally")
	if n.Held == "" || n.Ready {
		t.Errorf("a held node is told as %+v", n)
	}
	o.ok("node", "modify", "edge-1", "networkInstances."+ni(1)+".dns.domain=new.edge")
	o.is("edge-1", "HeldLocally")
	if got := w.accepted() - before; got != 1 {
		t.Errorf("%d configs were taken: only the local one is 1", got)
	}
	w.wait("ready", "ni/"+ni(2))
	released := time.Now()
	w.cli("release")
	o.is("edge-1", "InSync", ready)
	if took := time.Since(released); took > scaled(5*time.Second) {
		t.Errorf("what was held back was pushed after %v", took)
	}
	w.wait("absent", "ni/"+ni(2))
	w.eventually("the new name", func() bool {
		return strings.Contains(w.in("client", "dig", "+short", "+time=1", "@10.1.0.1", "app1.new.edge"), web.IP.String())
	})
	if c := pings.Stop(); c.Lost+c.Wrong > 0 || c.Good < 300 {
		t.Errorf("pings all the time: %+v", c)
	}
}

// applies applies a config, checks the exit code, and returns the output.
func (w *world) applies(t *testing.T, what string, code int, doc string, more ...string) string {
	t.Helper()
	r, err := w.CLIWith(w.ctx, w.overrides(doc), append([]string{"apply", "-f", "-"}, more...)...)
	if err != nil || r.Code != code {
		t.Fatalf("%s: exit %d, %v: %s%s", what, r.Code, err, r.Out, r.Err)
	}
	return r.Err
}
