package scenario

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// quick are flags of a controller with a short pause between two pushes.
var quick = []string{"--consecutive-reconfig-delay-s", "1"}

// overrides returns a node config in the form of `edgespan node set -f -`.
func (w *world) overrides(doc string) string {
	w.Helper()
	b, err := w.Config([]byte(doc))
	if err != nil {
		w.Fatal(err)
	}
	return string(b)
}

// set writes a node's overrides.
func (o *office) set(node, doc string, more ...string) string {
	o.w.Helper()
	r := o.with(o.w.overrides(doc), append([]string{"node", "set", node, "-f", "-"}, more...)...)
	if r.Code != 0 {
		o.w.Fatalf("node set %s: exit %d: %s%s", node, r.Code, r.Out, r.Err)
	}
	return r.Out + r.Err
}

// A fleet's first day, with each printed command run as it is: a controller, a node that joins, a network and an app
// for it, and their removal.
func TestAFleetsFirstDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	began := time.Now()
	o := w.open("lab", 8443, quick...)
	o.remember(o.line("CA sha256:"))
	if list := o.ok("nodes", "list", "-o", "name"); strings.TrimSpace(list) != "node-1" {
		t.Errorf("nodes at the first start: %q", list)
	}
	printed := o.run("nodes", "invite", "edge-1")
	if printed.Code != 0 {
		t.Fatalf("invite: %+v", printed)
	}
	if r := w.join(printed.Out, "--state-dir", w.StateDir()); r.Code != 0 || !strings.Contains(r.Err, "as edge-1") {
		t.Fatalf("join: %+v", r)
	}
	w.start("{}")
	o.is("edge-1", "Unmanaged", func(n nodeSeen) bool { return n.Online })

	if said := o.ok("network", "modify", "sysParams.managedConfig=true", "-m",
		"all nodes are ours"); !strings.Contains(said, "revision 1: ") {
		t.Errorf("network modify says %q", said)
	}
	o.is("edge-1", "InSync")
	both := doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll))
	said := o.set("edge-1", both, "-m", "a first network")
	if !strings.Contains(said, "revision 2: 1 node changes") {
		t.Errorf("node set says %q", said)
	}
	n := o.is("edge-1", "InSync", func(n nodeSeen) bool { return n.Ready })
	if n.Running != n.Desired {
		t.Errorf("in sync with %+v and not %+v", n.Running, n.Desired)
	}
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	client := w.lease("client")
	if !netip.MustParsePrefix("10.1.0.0/24").Contains(client.IP) {
		t.Errorf("the lease is %+v", client)
	}
	web := w.lease("web")
	w.eventually("the name of the other app", func() bool {
		return strings.Contains(w.in("client", "dig", "+short", "+time=1", "app1.n1.edge"), web.IP.String())
	})
	if got := w.in("client", "dig", "+short", lab.WebName); got != lab.WebAddr {
		t.Errorf("%s is %q", lab.WebName, got)
	}

	// The commands with which an operator checks the fleet.
	if list := o.ok("nodes", "list"); !strings.Contains(list, "it runs the desired config") {
		t.Errorf("nodes list:\n%s", list)
	}
	if said := o.run("network", "actions", "sysParams.logLevel=debug"); !strings.Contains(said.Out, "answered") ||
		!strings.Contains(said.Out, "edge-1") {
		t.Errorf("network actions: %+v", said)
	}
	if said := o.ok("nodes", "explain", "edge-1", "sysParams.managedConfig"); !strings.Contains(said,
		"true from network, revision 1") {
		t.Errorf("nodes explain: %s", said)
	}
	if said := o.ok("rollout", "show", "2"); !strings.Contains(said, "1 of 1 node acked") {
		t.Errorf("rollout show: %s", said)
	}
	if r := o.run("node", "set", "edge-1", "ports.wan.mtu=99999999"); r.Code != 4 ||
		!strings.Contains(r.Err, "ports.wan.mtu") {
		t.Errorf("a value that can't be: %+v", r)
	}

	// Roll back.
	o.ok("node", "modify", "edge-1", "networkInstances."+ni(1)+".ipv4.subnet=10.9.0.0/24", "-m", "a wrong one")
	o.is("edge-1", "InSync", func(n nodeSeen) bool { return n.Ready })
	w.eventually("the lease in the new network", func() bool {
		return netip.MustParsePrefix("10.9.0.0/24").Contains(w.lease("client").IP)
	})
	var past []struct {
		Number  uint64
		Message string
	}
	if err := json.Unmarshal([]byte(o.run("history", "-o", "json").Out), &past); err != nil || len(past) != 3 ||
		past[0].Message != "a wrong one" {
		t.Errorf("history: %v: %+v", err, past)
	}
	for _, line := range []string{ // the other commands of docs/operations.md
		"context list -o name", "operators add bob --role viewer --life 1h", "operators list", "history diff 1 3",
		"nodes status", "nodes status edge-1",
		"node get edge-1", "node get edge-1 --layer full --paths sysParams.managedConfig -o table",
		"history rollback 2 node/edge-1 --dry-run",
	} {
		if said := o.ok(strings.Fields(line)...); said == "" {
			t.Errorf("edgespan %s says nothing", line)
		}
	}
	o.ok("history", "rollback", "2", "-m", "too early")
	o.is("edge-1", "InSync", func(n nodeSeen) bool { return n.Ready })
	w.eventually("the lease in the old network", func() bool { return w.lease("client").IP == client.IP })
	t.Logf("the first day took %v", time.Since(began))
}
