package scenario

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"edgespan/platform/lab"
)

// The stories of this file wait for minutes and use hardly any processor. Go starts parallel tests in about the reverse
// of their order, files by name, so those of the last files run beside all others instead of alone at the end.

// breakable puts a script before iptables-restore in a daemon's PATH, which fails while it is broken. Its result is the
// daemon's environment.
func (w *world) breakable() (env string, broken func(bool)) {
	w.Helper()
	real, err := exec.LookPath("iptables-restore")
	if err != nil {
		w.Fatal(err)
	}
	dir := filepath.Join(w.Dir, "breakable")
	flag := filepath.Join(dir, "broken")
	script := fmt.Sprintf("#!/bin/sh\nif [ -e '%s' ]; then echo as the test wants it >&2; exit 1; fi\nexec %s \"$@\"\n", flag, real)
	if err := os.Mkdir(dir, 0o755); err == nil {
		err = os.WriteFile(filepath.Join(dir, "iptables-restore"), []byte(script), 0o755)
	}
	if err != nil {
		w.Fatal(err)
	}
	return "PATH=" + dir + ":" + os.Getenv("PATH"), func(on bool) {
		w.Helper()
		err := os.Remove(flag)
		if on {
			err = os.WriteFile(flag, nil, 0o644)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
}

// reread gives the daemon a config file.
func (w *world) reread(doc string) {
	w.Helper()
	if err := w.WriteConfig([]byte(doc)); err != nil {
		w.Fatal(err)
	}
	if err := w.node.Signal(syscall.SIGHUP); err != nil {
		w.Fatal(err)
	}
}

// As an operator I get an alert for what happens to a node, and it clears once that is over. EdgespanActorRestarting
// and EdgespanHelperMemory need a defect: only their stories in deploy fire.
func TestTheAlertsOfANodeFireAndClear(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web"}, Uplinks: 3})
	fill, room := w.smallDiskAt(w.RunDir())
	env, broken := w.breakable()
	nets := func(n int) string {
		all := "networkInstances:\n" + strings.Replace(network(1, ""), "port: wan", "port: uplink\n    probe: {holdMs: 500}", 1)
		if n > 1 {
			all += strings.Replace(network(2, ""), "port: wan", `port: ""`, 1)
		}
		return uplinkPorts(3, 10) + all
	}
	web := "appNetworks:\n" + onNet(1, 1, "web", allowAll)
	w.start(nets(1)+web, metricsAt, env)
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	p := w.prometheus(nil)
	p.quiet(1)

	// What lasts as long as its reason.
	fill()
	w.apply(nets(2) + web)
	w.breakUplink(2, lab.GatewayDead)
	p.fires("EdgespanNetworkFailing", "network net2 "+ni(2)+" is not")
	p.fires("EdgespanOperationsFailing", "operations on the host that fail and are retried: ")
	p.fires("EdgespanProbesFailing", "does not answer by port dsl")
	room()
	w.repairUplink(2, lab.GatewayDead)
	w.reread("networkInstances: {x: {type: 5}}\n")
	p.fires("EdgespanConfigRejected", "the one before still runs")
	w.reread(nets(1) + web)
	p.clear()

	// What is counted. Another program flushes the rules, which also makes the daemon read all counters, and removes the
	// network's address.
	w.breakUplink(2, lab.LinkDown)
	p.fires("EdgespanUplinkFlapping", "network "+ni(1)+" moves", func() {
		w.cli("port", "drain", "wan")
		w.eventually("the network has moved", func() bool { return w.status("ni", ni(1))["port"] == "lte" })
		w.cli("port", "undrain", "wan")
		w.eventually("the network is back", func() bool { return w.status("ni", ni(1))["port"] == "wan" })
	})
	p.fires("EdgespanPortDown", "port dsl has no carrier")
	gateway := gatewayOf(t, w, "web")
	disturb := func() {
		w.in("node", "iptables", "-F")
		if _, err := w.Exec(w.ctx, "node", "ip", "address", "del", gateway+"/24", "dev", "es1"); err != nil { // it may be gone
			t.Fatal(err)
		}
	}
	flood := func() { w.sendUDP(gateway, 53, 2000, 300) }
	flood() // the first reading of a counter is where counting starts
	p.fires("EdgespanDrift", "another program", disturb, flood)
	// What makes the daemon read the network and its counters, too; a flush would set them to 0.
	touch := func() { w.in("node", "ip", "link", "set", "es1", "type", "bridge", "ageing_time", "20000") }
	p.fires("EdgespanAdapterOverLimit", "adapter "+app(1)+"/0 exceeds its limit of dns", flood, touch)
	p.shows("node.json")
	w.repairUplink(2, lab.LinkDown)
	w.reread(nets(1))
	p.clear()

	// What the daemon can't say itself, or says of itself.
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	p.fires("EdgespanNodeDown", lab.NodeAt+":9273: the daemon can't be scraped")
	w.in("node", "iptables", "-F")
	broken(true)
	w.restart(metricsAt, env)
	p.fires("EdgespanNodeNotReady", "the daemon is not ready")
	broken(false)
	p.clear()
}

// As an operator I get an alert for what happens to a fleet. EdgespanRolloutStuck, EdgespanStoreNearlyFull (of an etcd),
// EdgespanStoreSlow and EdgespanConfigDBNotReady (alone) take hours or another store: their stories in deploy fire.
func TestTheAlertsOfAControllerFireAndClear(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	fill, room := w.smallDiskAt(filepath.Join(w.Dir, "lab"))
	fillAudit, roomAudit := w.smallDiskAt(filepath.Join(w.Dir, "audit"))
	const log = "audit-admins.log"
	if err := os.Symlink(filepath.Join(w.Dir, "audit", log), filepath.Join(w.Dir, "lab", log)); err != nil {
		t.Fatal(err)
	}
	o := w.open("lab", 8443, append([]string{"--config-staged-rollout-enabled", "--config-confirm-timeout-s", "5"}, quick...)...)
	o.remember(o.line("CA sha256:"))
	if r := w.join(o.run("nodes", "invite", "edge-1").Out, "--state-dir", w.StateDir()); r.Code != 0 {
		t.Fatalf("join: %+v", r)
	}
	o.ok("network", "set", "sysParams.managedConfig=true")
	w.start(doc([]string{network(1, "")}), metricsAt)
	p := w.prometheus(o)
	fillAudit()
	admin := func() { o.run("operators", "add", "bob", "--role", "viewer") }
	p.fires("EdgespanAuditNotWritable", "192.0.2.1:8443: the audit log can't be written", admin)
	roomAudit()
	admin()
	p.fires("EdgespanNodesBlocked", "nodes that wait for an operator as NeedsAdoption: 1")
	o.ok("nodes", "adopt", "edge-1", "--import")
	o.is("edge-1", "InSync", ready)
	p.quiet(2)

	// The first batch of a bad config is undone by its node.
	o.ok("node", "modify", "edge-1", "ports.wan.ifName=uplink9", "-m", "the wrong card")
	p.fires("EdgespanRolloutFailed", "the newest staged rollout is ")
	p.fires("EdgespanNodesRolledBack", "nodes that have rejected or undone their config: 1")
	p.fires("EdgespanPushesFailing", " of the last pushes have failed")
	o.ok("node", "modify", "edge-1", "ports.wan.ifName=uplink0", "networkInstances."+ni(1)+".displayName=green")
	o.is("edge-1", "InSync", ready)
	p.clear("EdgespanRolloutFailed", "EdgespanNodesRolledBack")
	p.shows("fleet.json")

	fill()
	writes := 0
	write := func() { // until what the store has in reserve is full, too
		writes++
		o.run("network", "modify", "envParams.FILL="+strings.Repeat(fmt.Sprintf("%09d", writes), 5000))
	}
	p.fires("EdgespanStoreNotWritable", "192.0.2.1:8443: the store accepts no writes", write)
	p.fires("EdgespanControllerNotReady", "192.0.2.1:8443: the controller is not ready", write)
	p.fires("EdgespanRequestsFailing", " of the requests to fleet fail", write)
	room()
	p.clear()

	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	p.fires("EdgespanNodesOffline", "100% of the nodes are offline")
	w.restart(metricsAt)
	p.clear()
	o.kill()
	p.fires("EdgespanControllerDown", "192.0.2.1:8443: the controller can't be scraped")
	o.begin()
	p.clear()
}
