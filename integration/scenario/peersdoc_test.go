package scenario

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// The commands of docs/peers.md work on nodes as in examples/fleet/cluster.yaml, except for /usr/bin/collector: no
// node here has it, which is reported.
func TestTheExampleOfAClusterRunsAsItIsTyped(t *testing.T) {
	t.Parallel()
	f := newField(t, 3)
	f.ok("network", "set", "sysParams.managedConfig=true", "ports.wan0.ifName=under0")
	for i, link := range []string{"eth1", "eth1", "enp3s0"} {
		f.peers[i].in("node", "ip", "link", "set", "lan0", "name", link)
	}
	f.peers[2].in("node", "ip", "addr", "add", "198.51.100.3/24", "dev", "under0")
	for _, p := range f.peers {
		f.is(p.name, "InSync", ready)
	}

	_, here, _, _ := runtime.Caller(0)
	file := filepath.Join(filepath.Dir(here), "..", "..", "examples", "fleet", "cluster.yaml")
	if said := f.ok("apply", "-f", file, "-m", "the lab"); !strings.Contains(said,
		"parameters may change on edge-1, edge-2, edge-3") {
		t.Errorf("apply says %s", said)
	}
	f.ok("clusters", "deploy", "lab")
	f.w.eventually("a ping between each two", func() bool { return len(f.cross(500e6)) == 0 })
	f.w.eventually("the reason of the executor", func() bool {
		r := f.run("peers", "explain", "edge-3")
		return r.Code == 0 && strings.Contains(r.Out, "/usr/bin/collector") &&
			strings.Contains(r.Out, "executor/collector: CreatingFailed")
	})
	for _, name := range []string{"edge-1", "edge-2"} {
		f.ok("wait", "peer/"+name, "--for", "ready", "--timeout", scaled(20*time.Second).String())
	}
	for _, line := range []string{
		"peers list", "clusters list", "clusters status lab", "clusters describe lab", "peers describe edge-3",
		"peers get edge-2",
	} {
		said := f.ok(strings.Fields(line)...)
		t.Logf("edgespan %s\n%s", line, said)
	}
	f.ok("clusters", "undeploy", "lab")
	f.ok("wait", "cluster/lab", "--for", "undeployed", "--timeout", scaled(20*time.Second).String())
	f.ok("clusters", "delete", "lab", "-m", "the lab is over")
}
