package netns_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"edgespan/integration/netns"
	"edgespan/netinst"
	"edgespan/netinst/netstate"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// clusterApp returns an app of a cluster's network in a namespace, with the address 10.99.0.100, that answers pings of
// one address only.
func clusterApp(t *testing.T, from string) (*netns.NS, netinst.Adapter) {
	t.Helper()
	ns := netns.New(t)
	a := netinst.Adapter{
		Config: netinst.AppAdapterConfig{
			AppUUID: uuid.MustParse("a0000000-0000-4000-8000-000000000001"), TargetVersion: 1, Activate: true,
			Spec: netinst.AdapterSpec{
				Netns: ns.Name, IfName: "eth0",
				ACL: []netinst.ACLRule{
					{Name: "ping", Direction: netinst.Both, Action: netinst.Allow, IP: netip.MustParsePrefix(from), Protocol: "icmp"},
				},
			},
		},
		Lease: netinst.Lease{Number: 1, MAC: "02:16:3e:01:00:01"},
	}
	return ns, a
}

func (w *town) deployWith(a netinst.Adapter, mesh bool) {
	w.t.Helper()
	w.deploy(mesh)
	w.nodes[0].must(owner(1), w.nodes[0].desired(clusterOf(len(w.nodes), 0, mesh), a))
}

func TestAppsOfAClusterKeepTheirRules(t *testing.T) {
	t.Parallel()
	w := newTown(t, 3)
	app, a := clusterApp(t, "10.99.0.2/32")
	w.deployWith(a, true)
	app.Exec(t, "ip", "link", "set", "eth0", "addrgenmode", "none", "up")
	app.Exec(t, "ip", "addr", "add", "10.99.0.100/24", "dev", "eth0")
	app.Exec(t, "ip", "-6", "addr", "add", "fd00:99::100/64", "dev", "eth0", "nodad")
	pings := func(ns *netns.NS, to string) bool { _, err := ns.Try("ping", "-c1", "-W1", to); return err == nil }
	until(t, "the device that may reaches the app", func() bool { return pings(w.nodes[1].app, "10.99.0.100") })
	if !pings(app, "10.99.0.2") {
		t.Error("the app does not reach the device that it may reach")
	}
	for i, l := range w.nodes {
		if i != 1 && pings(l.app, "10.99.0.100") {
			t.Errorf("the device of node %d reaches the app", i+1)
		}
		if pings(l.app, "fd00:99::100") {
			t.Errorf("the device of node %d reaches the app by IPv6, which no rule judges", i+1)
		}
		if i != 1 && pings(app, netip.AddrFrom4([4]byte{10, 99, 0, byte(i + 1)}).String()) {
			t.Errorf("the app reaches the device of node %d", i+1)
		}
	}
	if !w.pings(0, 2, 100) {
		t.Error("devices do not reach each other beside an app")
	}
}

// notMember leaves out the member, whether it is in the bridge or not: once the bridge is removed, it must be as it
// was.
func notMember(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(s string) bool { return strings.Contains(s, ": dev0@") })
}

// For each k: after k ops of a change, another process, which only has the run folder and the kernel, completes the
// change.
//
// A run takes every third k, from a random one on: all of them take minutes.
func TestAStopAfterAnyOpOfAClusterConverges(t *testing.T) {
	t.Parallel()
	w := newTown(t, 3)
	l := w.nodes[0]
	others := foreign(t, l)
	_, a := clusterApp(t, "10.99.0.0/24")
	moved := clusterOf(3, 0, true)
	moved.Tunnels[0].Remote = netip.MustParseAddr("198.18.0.77")
	moved.Tunnels[1].VNI, moved.MTU, moved.Members = 999, 1300, nil
	none := desiredStates{foundation: map[int]netinst.HostNetwork{}}
	desired := func(c netinst.NetworkInstanceConfig, as ...netinst.Adapter) desiredStates {
		return desiredStates{nets: map[int]netstate.State{1: l.desired(c, as...)},
			foundation: map[int]netinst.HostNetwork{1: {Number: 1, Switch: true}}}
	}
	star, mesh := desired(clusterOf(3, 0, false), a), desired(moved)
	start := picture(t, l.ns)
	for _, pair := range [][2]desiredStates{{none, star}, {star, mesh}, {mesh, none}} {
		ops := 0
		for k, more := rand.IntN(*everyNthOp), true; more; k += *everyNthOp {
			more = false
			for _, way := range [][2]desiredStates{pair, {pair[1], pair[0]}} {
				did, left := l.someOps(way[0], way[1], k)
				more = more || left
				l.open()
				l.turn(way[0], way[1])
				if d := cmp.Diff(notMember(others.then), notMember(theirs(t, l))); d != "" {
					t.Fatalf("stopped after %d ops, %q: what belongs to others differs:\n%s", k, did, d)
				}
			}
			ops = k
		}
		t.Logf("%d ops, every %d.", ops, *everyNthOp)
		l.turn(pair[0], pair[1])
	}
	if d := cmp.Diff(sorted(start), sorted(picture(t, l.ns))); d != "" {
		t.Errorf("host differs (-before +after):\n%s", d)
	}
}

// After a change of topology, a known device is reached by its new path at once: the learned path leads nowhere.
func TestAnotherTopologyFindsDevicesByTheirNewWay(t *testing.T) {
	t.Parallel()
	w := newTown(t, 3)
	w.deploy(false)
	until(t, "ping", func() bool { return w.pings(1, 2, 100) })
	for _, mesh := range []bool{true, false} {
		for _, i := range []int{2, 0, 1} { // the one that pings is the last
			w.nodes[i].must(owner(1), w.nodes[i].desired(clusterOf(3, i, mesh)))
		}
		if !w.pings(1, 2, 100) {
			t.Errorf("mesh %v: no ping goes the new way", mesh)
		}
	}
}
