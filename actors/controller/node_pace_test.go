package controller

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
)

// A member of a cluster reports other ports each time. Its neighbours are not reconfigured for each report; a real
// change reaches them in seconds.
func TestPortsThatFlap(t *testing.T) {
	onPeers(t, func(r *rig, c *Controller) {
		r.deploy(c)
		r.pass(2 * time.Hour)
		bad, a := r.nodes["b"], r.nodes["a"]
		leads := func(address string) bool {
			a.mu.Lock()
			defer a.mu.Unlock()
			return contains(a.peer, address)
		}
		move := func(address string) {
			bad.mu.Lock()
			defer bad.mu.Unlock()
			bad.ports = []nodeproto.Port{{Label: "wan0", Addresses: []string{address}, MTU: 1500}}
		}
		move("192.0.2.77")
		r.pass(10 * time.Second)
		if !leads("192.0.2.77") {
			t.Fatalf("its neighbour runs %s", a.peer)
		}
		before, _ := a.got()
		synctest.Wait()
		commits := r.store.Commits()
		r.say(c, bad, 60, func(i int) nodeproto.FromNode {
			move(fmt.Sprintf("192.0.2.%d", 100+i%100))
			bad.mu.Lock()
			defer bad.mu.Unlock()
			return bad.report()
		})
		synctest.Wait()
		if after, _ := a.got(); after > before || r.store.Commits() > commits {
			t.Errorf("%d pushes to its neighbour and %d transactions in a minute", after-before, r.store.Commits()-commits)
		}
		for i := range 60 { // for an hour, a new address each minute
			move(fmt.Sprintf("198.51.100.%d", i))
			r.pass(time.Minute)
		}
		if after, _ := a.got(); after-before > 12 || after == before {
			t.Errorf("%d pushes to its neighbour in an hour", after-before)
		}
		move("192.0.2.78")
		r.pass(11 * time.Minute)
		if !leads("192.0.2.78") {
			t.Errorf("in the end its neighbour runs %s", a.peer)
		}
	})
}

// A node that a tunnel leads to connects from another address each time. It does not cause a revision per address, and
// holds up no rollout.
func TestAnAddressThatFlaps(t *testing.T) {
	onStaged(t, func(r *rig) {
		a := r.start("a")
		names := r.fleetOf(a, 6)
		bad := r.node(a, "zz")
		r.pass(10 * time.Second)
		r.write(a, ops.SetNodes{Modify: true, Overrides: r.doc(
			`{"n1":{"tunnelConfig":{"t":{"enabled":true,"localInterface":"nic1","dstNodeName":"zz","tunnelType":"GRE_L2","tunnelParams":{}}}}}`)})
		r.pass(3 * time.Minute)
		last := func() uint64 {
			log, err := a.History(r.Context(), fleetapi.HistoryQuery{Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			return log[0].Number
		}
		flap := func(d, each time.Duration, net string) {
			for i := range int(d / each) {
				bad.address = fmt.Sprintf("2001:db8::%s:%x", net, i+1)
				bad.connect(a)
				r.pass(each)
			}
		}
		flap(2*time.Second, 2*time.Second, "0")
		r.pass(10 * time.Minute)
		r.wire = func(_ *Controller, n *fakeNode, m any, pass func()) { // a node takes 15 s to apply a config
			if _, ok := m.(nodeproto.Push); ok && n != bad {
				time.AfterFunc(15*time.Second, pass)
				return
			}
			pass()
		}
		before := last()
		r.network(a, `{"sysParams":{"managedConfig":true},"envParams":{"A":"the-change"}}`)
		flap(5*time.Minute, 2*time.Second, "1")
		if n := last() - before; n > 1 {
			t.Errorf("%d revisions, one is the operator's", n)
		}
		had := r.had("the-change")
		for _, name := range names {
			if !strings.Contains(" "+had+" ", " "+name+" ") {
				t.Errorf("%s did not get the operator's change", name)
			}
		}
		flap(2*time.Hour, 20*time.Second, "2")
		if n := last() - before; n > 1+9 || n < 4 {
			t.Errorf("%d revisions in two hours", n)
		}
		if got := r.leadsTo(a, "n1"); got == "2001:db8::0:1" {
			t.Errorf("it leads to %v", got)
		}
	})
}

// A node that connected briefly to one replica on its way to another counts as connected to the latter.
func TestAnAddressOfANodeThatWentOn(t *testing.T) {
	onRig(t, func(r *rig) {
		r.change = func(o *Options) { o.Shared = true }
		a, b := r.start("a"), r.start("b")
		r.synced(a, "n1")
		bad := r.join(a, "zz")
		bad.address = "2001:db8::1"
		bad.connect(a)
		r.write(a, ops.SetNodes{Modify: true, Overrides: r.doc(
			`{"n1":{"tunnelConfig":{"t":{"enabled":true,"localInterface":"nic1","dstNodeName":"zz","tunnelType":"GRE_L2","tunnelParams":{}}}}}`)})
		r.pass(time.Minute)
		for _, step := range []struct {
			to      *Controller
			address string
		}{{a, "2001:db8::2"}, {b, "2001:db8::3"}} {
			bad.address = step.address
			bad.connect(step.to)
			r.pass(time.Second)
		}
		for range 30 {
			r.pass(time.Second)
			if got := r.leadsTo(a, "n1"); got == "2001:db8::2" {
				t.Fatalf("it leads to %v", got)
			}
		}
		if x, y := a.d.dir.nodeByName("zz").LastAddress(), b.d.dir.nodeByName("zz").LastAddress(); x != "2001:db8::3" || y != x {
			t.Errorf("a has it at %s, b at %s", x, y)
		}
		if got := r.leadsTo(a, "n1"); got != "2001:db8::3" {
			t.Errorf("it leads to %v", got)
		}
	})
}
