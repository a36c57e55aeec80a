package scenario

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// Three peers become one layer-2 network and return to none: the operator's commands, their output, and the devices'
// connectivity. The cluster is also edited while it is deployed.
func TestThreePeersBecomeOneNetworkAndAreNoneAgain(t *testing.T) {
	t.Parallel()
	f := newField(t, 3)
	before := f.pictures()
	a, b := f.peers[0], f.peers[1]

	f.apply(f.describePeers() + "---\n" + f.describeCluster(a, "star"))
	if c := f.cluster(); c.State != "undeployed" || c.Deployed || c.Ready {
		t.Errorf("a cluster that is described only: %+v", c)
	}
	if bad := f.cross(time.Second); len(bad) != 6 {
		t.Errorf("before the deploy only %v can't reach each other", bad)
	}
	f.ok("clusters", "deploy", "yard", "-m", "a first cluster")
	f.untilReady()
	f.connected()
	f.tellsTheTruth(map[string]int{"edge-1": 2, "edge-2": 1, "edge-3": 1})
	f.carries(1450)

	numbers := f.numbers()
	pings := f.pingAll()
	f.apply(f.describeCluster(b, "star"))
	f.untilReady()
	f.reconnected()
	f.tellsTheTruth(map[string]int{"edge-1": 1, "edge-2": 2, "edge-3": 1})
	if now := f.numbers(); now["edge-1 edge-2"] != numbers["edge-1 edge-2"] || len(now) != 2 {
		t.Errorf("the tunnels had %v and have %v: that between the first two stays", numbers, now)
	}
	for pair, l := range pings {
		if c := l.Stop(); pair == "edge-1 edge-2" && c.Lost+c.Wrong > 0 {
			t.Errorf("another leader, pings over a tunnel that stays: %s", c)
		}
	}

	f.apply(f.describeCluster(b, "mesh"))
	f.untilReady()
	f.reconnected()
	f.tellsTheTruth(map[string]int{"edge-1": 2, "edge-2": 2, "edge-3": 2})
	f.calm()
	f.apply(f.describeCluster(a, "star"))
	f.untilReady()
	f.reconnected()
	f.tellsTheTruth(map[string]int{"edge-1": 2, "edge-2": 1, "edge-3": 1})
	f.undeploy(before)
	for _, p := range f.peers {
		if s := f.peer(p); !s.Online || s.Health != "green" || len(s.Clusters) != 0 || len(s.Ignored) != 0 {
			t.Errorf("after undeploy: %+v", s)
		}
	}
}

// reconnected is connected after an edit: peers change one after the other, and for a moment a known device is looked
// for on its old path.
func (f *field) reconnected() {
	f.w.Helper()
	f.w.eventually("a ping between each two", func() bool { return len(f.cross(300*time.Millisecond)) == 0 })
}

// tellsTheTruth compares what the operator sees with the hosts: each peer with its number of tunnels.
func (f *field) tellsTheTruth(tunnels map[string]int) {
	f.w.Helper()
	for _, p := range f.peers { // a cluster may be ready before its peers' other parameters
		f.ok("wait", "peer/"+p.name, "--for", "ready", "--timeout", scaled(20*time.Second).String())
	}
	c := f.cluster()
	if c.State != "deployed" || !c.Ready || c.Health != "green" {
		f.w.Errorf("the cluster is told as %+v", c)
	}
	for _, x := range c.Tunnels {
		if x.States != [2]string{"Present", "Present"} {
			f.w.Errorf("tunnel %v is told as %+v", x.Between, x)
		}
	}
	for _, p := range f.peers {
		s := f.peer(p)
		if !s.Online || !s.Ready || s.Health != "green" || s.Desired != s.Applied ||
			!slices.Equal(s.Clusters, []string{"yard"}) || len(s.Ignored) > 0 {
			f.w.Errorf("%s is told as %+v", p.name, s)
		}
		for _, x := range s.Parameters {
			if x.State != "Present" || x.Review != "no" || x.Target != "present" {
				f.w.Errorf("%s: %+v", p.name, x)
			}
		}
		links := strings.Count(p.in("node", "ip", "-o", "link", "show", "type", "vxlan"), "vxlan")
		if reported := len(s.of("tunnel")); reported != tunnels[p.name] || p.tunnels() != reported {
			f.w.Errorf("%s has %d tunnels, tells %d, and should have %d", p.name, links, reported, tunnels[p.name])
		}
	}
}

// tunnels counts the node's VXLAN links.
func (p *onePeer) tunnels() int {
	return len(strings.FieldsFunc(p.in("node", "ip", "-o", "link", "show", "type", "vxlan"),
		func(c rune) bool { return c == '\n' }))
}

// numbers returns the tunnels' numbers by pair.
func (f *field) numbers() map[string]uint32 {
	f.w.Helper()
	out := map[string]uint32{}
	for _, x := range f.cluster().Tunnels {
		out[strings.Join(x.Between[:], " ")] = x.VNI
	}
	return out
}

// carries checks that packets of mtu bytes pass unfragmented, and no larger ones.
func (f *field) carries(mtu int) {
	f.w.Helper()
	from, to := f.peers[1], f.peers[2]
	for size, fits := range map[int]bool{mtu: true, mtu + 1: false} {
		argv := []string{"ping", "-n", "-c", "1", "-W", "1", "-M", "do", "-s", strconv.Itoa(size - 28), to.device().String()}
		if fits {
			from.in("dev", argv...)
		} else {
			from.fails("dev", argv...)
		}
	}
}

// pingAll starts a ping between each two devices, by their names.
func (f *field) pingAll() map[string]*lab.Loop {
	f.w.Helper()
	out := map[string]*lab.Loop{}
	for i, a := range f.peers {
		for _, b := range f.peers[i+1:] {
			l, err := a.PingLoop("dev", b.device(), 10*time.Millisecond)
			if err != nil {
				f.w.Fatal(err)
			}
			out[a.name+" "+b.name] = l
		}
	}
	return out
}

// unharmed ends the pings and checks that none was lost.
func (f *field) unharmed(what string, pings map[string]*lab.Loop) {
	f.w.Helper()
	for pair, l := range pings {
		if err := l.WaitGood(f.w.ctx, 20); err != nil {
			f.w.Fatal(err)
		}
		if c := l.Stop(); c.Lost+c.Wrong > 0 {
			f.w.Errorf("%s: pings %s: %s", what, pair, c)
		}
	}
}

// calm checks that a broadcast reaches each device once: there is no loop.
func (f *field) calm() {
	f.w.Helper()
	count := func(p *onePeer) int {
		n, err := strconv.Atoi(p.in("dev", "cat", "/sys/class/net/eth0/statistics/rx_packets"))
		if err != nil {
			f.w.Fatal(err)
		}
		return n
	}
	before := map[string]int{}
	for _, p := range f.peers {
		before[p.name] = count(p)
	}
	// An unused address: three ARP requests for it, without an answer.
	f.peers[0].fails("dev", "ping", "-n", "-c", "1", "-W", "3", "10.66.0.200")
	for _, p := range f.peers[1:] {
		if got := count(p) - before[p.name]; got < 3 || got > 60 {
			f.w.Errorf("%s's device got %d frames of 3 broadcasts", p.name, got)
		}
	}
}

// Each fault is reported with its reason, breaks nothing else, and is repaired automatically.
func TestAClusterReportsDamageAndRepairsIt(t *testing.T) {
	t.Parallel()
	f := newField(t, 3)
	a, b, c := f.peers[0], f.peers[1], f.peers[2]
	before := f.pictures()
	b.in("node", "ip", "link", "set", "lan0", "name", "lan9") // an interface that does not exist yet

	f.apply(f.describePeers() + "---\n" + f.describeCluster(a, "star"))
	f.ok("clusters", "deploy", "yard")
	f.w.eventually("the cluster without the missing card",
		func() bool { return slices.Equal(f.cross(500*time.Millisecond), without("edge-2")) })
	f.has(b, "device-interface", "WaitingForDependencies", "lan0")
	if r := f.run("wait", "cluster/yard", "--for", "ready", "--timeout", "1s"); r.Code != 3 {
		t.Errorf("wait for what does not come: %+v", r)
	}
	if s := f.cluster(); s.Ready || s.State != "deploying" {
		t.Errorf("with a card missing: %+v", s)
	}
	b.in("node", "ip", "link", "set", "lan9", "name", "lan0")
	b.in("node", "ip", "link", "set", "lan0", "up")
	f.untilReady()
	f.connected()

	// The underlay's route is removed and added.
	b.in("node", "ip", "route", "del", "198.51.100.0/24", "dev", "under0")
	f.has(b, "tunnel", "WaitingForDependencies", a.underlay())
	if s := f.cluster(); s.Ready {
		t.Errorf("without a route: %+v", s)
	}
	if bad := f.cross(time.Second); !slices.Equal(bad, without("edge-2")) {
		t.Errorf("without edge-2's route no ping goes from %v", bad)
	}
	b.in("node", "ip", "route", "add", "198.51.100.0/24", "dev", "under0", "proto", "kernel", "scope", "link", "src",
		b.underlay())
	f.untilReady()
	f.connected()
	f.tellsTheTruth(map[string]int{"edge-1": 2, "edge-2": 1, "edge-3": 1})

	// Each daemon is killed: everything continues, and nothing is created twice.
	f.w.eventually("the executor", func() bool { return len(c.pulses()) == 1 })
	first := c.pulses()[0]
	pings, links := f.pingAll(), map[string]string{}
	for _, p := range f.peers {
		links[p.name] = p.links()
	}
	for _, p := range f.peers {
		if err := p.node.Kill(); err != nil {
			t.Fatal(err)
		}
		f.isOffline(p)
		p.restart()
	}
	f.untilReady()
	f.unharmed("while all daemons were killed", pings)
	for _, p := range f.peers {
		if now := p.links(); now != links[p.name] {
			t.Errorf("%s's links were\n%s\nand are\n%s", p.name, links[p.name], now)
		}
	}
	if len(c.pulses()) != 1 || !alive(first) {
		t.Errorf("the executor ran as %v", c.pulses())
	}
	f.tellsTheTruth(map[string]int{"edge-1": 2, "edge-2": 1, "edge-3": 1})

	// The executor is killed: it is restarted, and is Present only after it has run for a minute.
	pid, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	f.has(c, "executor", "CreatingFailed", "exited with")
	f.w.eventually("the executor again", func() bool { return len(c.pulses()) == 2 })
	if s := f.peer(c); s.Ready || s.Health != "red" {
		t.Errorf("with an executor that was lost: %+v", s)
	}
	second := c.pulses()[1]
	f.apply(strings.ReplaceAll(f.describePeers(), "executors:", "executors: {} #"))
	f.w.eventually("the end of the executor", func() bool { return !alive(second) })
	f.undeploy(before)
}

// isOffline waits until a peer is reported as offline.
func (f *field) isOffline(p *onePeer) {
	f.w.Helper()
	var s peerSeen
	defer func() {
		if f.w.Failed() {
			f.w.Logf("%s is told as %+v", p.name, s)
		}
	}()
	f.w.eventually(p.name+" is told as offline",
		func() bool { s = f.peer(p); return !s.Online && s.Health == "unknown" && !s.Ready })
}

// without returns the pairs of three peers that include a peer, sorted.
func without(name string) (out []string) {
	for _, a := range []string{"edge-1", "edge-2", "edge-3"} {
		for _, b := range []string{"edge-1", "edge-2", "edge-3"} {
			if a != b && (a == name || b == name) {
				out = append(out, a+" to "+b)
			}
		}
	}
	return out
}

// links returns the node's bridges, tunnels and ports, with their indices.
func (p *onePeer) links() string {
	p.Helper()
	lines := strings.Split(p.in("node", "ip", "-o", "link"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// alive reports whether a process is running.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// has waits until a peer's parameters of a kind are reported in a state, with a word in the reason.
func (f *field) has(p *onePeer, kind, state, word string) {
	f.w.Helper()
	f.w.eventually(p.name+"'s "+kind+" is "+state+" for "+word, func() bool {
		of := f.peer(p).of(kind)
		for _, x := range of {
			if x.State != state || !strings.Contains(x.Reason, word) {
				return false
			}
		}
		return len(of) > 0
	})
}
