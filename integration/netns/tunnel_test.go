package netns_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"edgespan/integration/netns"
	"edgespan/netinst"
	"edgespan/netinst/netstate"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// town is several nodes on one underlay, 198.18.0.0/24, each with a device behind the interface dev0, a member of its
// cluster's network, 10.99.0.0/24.
type town struct {
	t     *testing.T
	under *netns.NS
	nodes []*lab
}

func newTown(t *testing.T, nodes int) *town {
	t.Helper()
	w := &town{t: t, under: netns.New(t)}
	w.under.Exec(t, "ip", "link", "add", "sw", "type", "bridge")
	w.under.Exec(t, "ip", "link", "set", "sw", "up")
	for i := range nodes {
		l := newLab(t)
		n := strconv.Itoa(i + 1)
		w.under.Exec(t, "ip", "link", "add", "n"+n, "type", "veth", "peer", "name", "u0", "netns", l.ns.Name)
		w.under.Exec(t, "ip", "link", "set", "n"+n, "master", "sw", "up")
		l.ns.Exec(t, "ip", "link", "set", "u0", "addrgenmode", "none", "up")
		l.ns.Exec(t, "ip", "addr", "add", "198.18.0."+n+"/24", "dev", "u0")
		l.ns.Exec(t, "ip", "link", "add", "dev0", "type", "veth", "peer", "name", "eth0", "netns", l.app.Name)
		l.ns.Exec(t, "ip", "link", "set", "dev0", "addrgenmode", "none", "up")
		l.app.Exec(t, "ip", "link", "set", "eth0", "addrgenmode", "none")
		l.app.Exec(t, "ip", "addr", "add", "10.99.0."+n+"/24", "dev", "eth0")
		l.app.Exec(t, "ip", "-6", "addr", "add", "fd00:99::"+n+"/64", "dev", "eth0", "nodad")
		l.app.Exec(t, "ip", "link", "set", "eth0", "up")
		w.nodes = append(w.nodes, l)
	}
	return w
}

// tunnel returns the tunnel from node a to node b; both are counted from 0.
func tunnel(a, b int, isolated bool) netinst.Tunnel {
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 0, byte(i + 1)}) }
	return netinst.Tunnel{
		Name: "node" + strconv.Itoa(b+1), VNI: uint32(256 + 10*min(a, b) + max(a, b)), Local: at(a), Remote: at(b),
		Port: 4789, MTU: 1450, Isolated: isolated,
	}
}

// clusterOf returns the network of a cluster on node i; 0 is the leader.
func clusterOf(nodes, i int, mesh bool) netinst.NetworkInstanceConfig {
	c := netinst.NetworkInstanceConfig{
		UUID: uuid.MustParse(owner(1).Name), DisplayName: "cluster", Type: netinst.Switch, MTU: 1450, SpoofGuard: true,
		Members: []netinst.IfName{"dev0"},
	}
	for j := range nodes {
		if j != i && (mesh || i == 0 || j == 0) {
			c.Tunnels = append(c.Tunnels, tunnel(i, j, mesh))
		}
	}
	return c
}

func (l *lab) desired(c netinst.NetworkInstanceConfig, adapters ...netinst.Adapter) netstate.State {
	return netinst.DesiredState(netinst.Input{Owner: owner(1), Config: c, Adapters: adapters, RunDir: l.dir}).State
}

var switchHost = netinst.HostState([]netinst.HostNetwork{{Number: 1, Switch: true}})

func (w *town) deploy(mesh bool) {
	w.t.Helper()
	for i, l := range w.nodes {
		l.must(hostOwner, switchHost)
		l.must(owner(1), l.desired(clusterOf(len(w.nodes), i, mesh)))
	}
}

func (w *town) undeploy() {
	w.t.Helper()
	for _, l := range w.nodes {
		l.must(owner(1), netstate.State{})
		l.must(hostOwner, netstate.State{})
	}
}

// pings has the device of node a ping that of node b with one packet of a size in bytes, including the IP header, that
// must not be fragmented.
func (w *town) pings(a, b, size int) bool {
	_, err := w.nodes[a].app.Try("ping", "-c1", "-W1", "-M", "do", "-s", strconv.Itoa(size-28),
		fmt.Sprint("10.99.0.", b+1))
	return err == nil
}

// frames returns how many frames the device of a node has received.
func (w *town) frames(i int) int {
	w.t.Helper()
	out := w.nodes[i].app.Exec(w.t, "ip", "-s", "-j", "link", "show", "dev", "eth0")
	_, rx, _ := strings.Cut(out, `"rx":{`)
	_, packets, _ := strings.Cut(rx, `"packets":`)
	number, _, _ := strings.Cut(packets, ",")
	n, err := strconv.Atoi(number)
	if err != nil {
		w.t.Fatalf("%v in %s", err, out)
	}
	return n
}

// watch collects the host's events until done.
func (l *lab) watch(e *events) (done func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- l.host.Watch(ctx, func(ev netstate.HostEvent) { e.mu.Lock(); e.list = append(e.list, ev); e.mu.Unlock() })
	}()
	until(l.t, "first event", func() bool { return e.any(func(ev netstate.HostEvent) bool { return ev.Resync }) })
	return func() {
		cancel()
		if err := <-ended; err != nil {
			l.t.Errorf("watch: %v", err)
		}
	}
}

func TestAClusterIsOneLayer2NetworkOverItsTunnels(t *testing.T) {
	t.Parallel()
	for name, mesh := range map[string]bool{"star": false, "mesh": true} {
		t.Run(name, func(t *testing.T) {
			w := newTown(t, 3)
			var before []string
			for _, l := range w.nodes {
				before = append(before, picture(t, l.ns)+picture(t, l.app))
			}
			w.deploy(mesh)
			for a := range 3 {
				for b := range 3 {
					if a == b {
						continue
					}
					until(t, "ping", func() bool { return w.pings(a, b, 100) })
					if !w.pings(a, b, 1450) {
						t.Errorf("%d octets do not go from node %d to node %d", 1450, a+1, b+1)
					}
					if a != 0 && w.pings(a, b, 1451) {
						t.Errorf("%d octets go from node %d to node %d", 1451, a+1, b+1)
					}
				}
			}
			if _, err := w.nodes[1].app.Try("ping", "-c1", "-W1", "fd00:99::3"); err != nil {
				t.Error("IPv6 does not go between members")
			}
			w.noLoop()
			w.undeploy()
			for i, l := range w.nodes {
				if d := cmp.Diff(before[i], picture(t, l.ns)+picture(t, l.app)); d != "" {
					t.Errorf("node %d differs (-before +after):\n%s", i+1, d)
				}
			}
		})
	}
}

// noLoop has one device send ARP requests for 20 unused addresses: each other device gets each request once.
func (w *town) noLoop() {
	w.t.Helper()
	const asked = 20
	was := []int{0, w.frames(1), w.frames(2)}
	w.nodes[0].app.Exec(w.t, "sh", "-c", "for i in $(seq 101 "+strconv.Itoa(100+asked)+
		"); do ping -c1 -W1 10.99.0.$i >/dev/null & done; wait")
	for _, i := range []int{1, 2} {
		if got := w.frames(i) - was[i]; got < asked || got > 4*asked {
			w.t.Errorf("node %d's device got %d frames of %d", i+1, got, asked)
		}
	}
}

func TestNothingReachesTheNodeByItsCluster(t *testing.T) {
	t.Parallel()
	w := newTown(t, 2)
	w.deploy(false)
	until(t, "ping", func() bool { return w.pings(0, 1, 100) })
	w.nodes[1].ns.Exec(t, "ip", "-6", "addr", "add", "fd00:aa::2/128", "dev", "lo")
	bridge := netinst.BridgeMAC(uuid.MustParse(owner(1).Name))
	for _, i := range []int{0, 1} { // from beyond the tunnel, and from the member next to it
		app := w.nodes[i].app
		app.Exec(t, "ip", "route", "add", "198.18.0.0/24", "dev", "eth0")
		_, _ = app.Try("ping", "-c1", "-W1", "198.18.0.2") // it sends an ARP request
		if out := app.Exec(t, "ip", "neigh", "show", "198.18.0.2"); strings.Contains(out, "lladdr") {
			t.Errorf("node %d's device learns where node 2 is: %s", i+1, out)
		}
		app.Exec(t, "ip", "neigh", "replace", "198.18.0.2", "lladdr", bridge, "dev", "eth0", "nud", "permanent")
		app.Exec(t, "ip", "-6", "route", "add", "fd00:aa::/64", "dev", "eth0")
		app.Exec(t, "ip", "neigh", "add", "fd00:aa::2", "lladdr", bridge, "dev", "eth0", "nud", "permanent")
		for _, to := range []string{"198.18.0.2", "fd00:aa::2"} {
			if _, err := app.Try("ping", "-c1", "-W1", to); err == nil {
				t.Errorf("node %d's device reaches %s of node 2", i+1, to)
			}
		}
	}
}

func TestTunnelsAndMembersAreObservedAsDesired(t *testing.T) {
	t.Parallel()
	w := newTown(t, 3)
	l := w.nodes[0]
	l.must(hostOwner, switchHost)
	star, mesh := clusterOf(3, 0, false), clusterOf(3, 0, true)
	moved := clusterOf(3, 0, false)
	moved.Tunnels[0].Remote = netip.MustParseAddr("198.18.0.77")
	moved.Tunnels[1].Port = 4790
	moved.Members, moved.MTU = nil, 1300
	for _, c := range []netinst.NetworkInstanceConfig{star, mesh, star, moved, mesh} {
		l.must(owner(1), l.desired(c))
		index := l.index("es1v257")
		l.open()
		l.must(owner(1), l.desired(c))
		if now := l.index("es1v257"); now != index {
			t.Errorf("a tunnel was made anew: index %s, was %s", now, index)
		}
	}
	for _, change := range []string{
		"ip link del es1v257", "ip link set es1v257 down", "ip link set es1v257 nomaster", "ip link set es1v258 mtu 1200",
		"bridge link set dev es1v257 isolated off", "ip link set dev0 nomaster",
		"ip link set es1v257 type vxlan id 257 remote 198.18.0.9",
	} {
		l.ns.Exec(t, strings.Fields(change)...)
		if len(netstate.Diff(l.observe(owner(1), true), l.desired(mesh))) == 0 {
			t.Errorf("%s is not seen", change)
		}
		l.must(owner(1), l.desired(mesh))
	}
	// Foreign VXLAN links are left alone and don't conflict, except one with the same number.
	l.ns.Exec(t, strings.Fields("ip link add theirs type vxlan id 300 remote 198.18.0.3 dstport 4789")...)
	index := l.index("theirs")
	more := clusterOf(3, 0, true)
	more.Tunnels[1].VNI = 300
	fs := l.apply(t.Context(), owner(1), l.desired(more))
	if len(fs) != 2 || !fs[0].Waiting || !strings.Contains(fs[0].Err, "number 300 on UDP port 4789 is taken by theirs") ||
		!fs[1].Blocked {
		t.Errorf("failures: %+v", fs)
	}
	l.must(owner(1), netstate.State{})
	if l.index("theirs") != index {
		t.Error("a tunnel of others was touched")
	}
}

func TestATunnelThatWouldLeadNowhereIsNotMade(t *testing.T) {
	t.Parallel()
	w := newTown(t, 2)
	l := w.nodes[0]
	l.must(hostOwner, switchHost)
	c := clusterOf(2, 0, false)
	want := l.desired(c)
	reported := &events{}
	done := l.watch(reported)
	defer done()
	waits := func(why string) {
		t.Helper()
		fs := l.apply(t.Context(), owner(1), want)
		if len(fs) == 0 || !fs[0].Waiting || !strings.Contains(fs[0].Err, why) ||
			slices.ContainsFunc(fs, func(f netstate.OpFailure) bool { return !strings.Contains(f.ID.Name, "es1v") }) {
			t.Fatalf("failures %+v, want %q of the tunnel alone", fs, why)
		}
		rest := l.observe(owner(1), true)
		for _, id := range want.IDs() {
			if _, ok := rest[id]; ok == strings.Contains(id.Name, "es1v") {
				t.Errorf("%s is there: %v", id, ok)
			}
		}
	}
	for _, c := range []struct{ away, why, back string }{
		{"ip addr del 198.18.0.1/24 dev u0", "the local address 198.18.0.1 is on no interface of the host",
			"ip addr add 198.18.0.1/24 dev u0"},
		{"ip link set u0 down", "no route leads from 198.18.0.1 to the remote address 198.18.0.2", "ip link set u0 up"},
		{"ip route add unreachable 198.18.0.2", "no route leads from 198.18.0.1 to the remote address 198.18.0.2",
			"ip route del unreachable 198.18.0.2"},
	} {
		l.ns.Exec(t, "ip", "route", "flush", "default") // else it leads anywhere
		reported.clear()
		l.ns.Exec(t, strings.Fields(c.away)...)
		until(t, c.away+" is told",
			func() bool { return reported.any(func(e netstate.HostEvent) bool { return e.HostRouting }) })
		waits(c.why)
		reported.clear()
		l.ns.Exec(t, strings.Fields(c.back)...)
		until(t, c.back+" is told",
			func() bool { return reported.any(func(e netstate.HostEvent) bool { return e.HostRouting }) })
		l.must(owner(1), want)
		l.ns.Exec(t, strings.Fields(c.away)...) // from an existing tunnel
		waits(c.why)
		l.ns.Exec(t, strings.Fields(c.back)...)
		l.must(owner(1), want)
	}
	// A missing member delays nothing either.
	l.ns.Exec(t, "ip", "link", "del", "dev0")
	fs := l.apply(t.Context(), owner(1), want)
	if len(fs) != 1 || !fs[0].Waiting || !strings.Contains(fs[0].Err, "interface dev0 does not exist") {
		t.Errorf("failures: %+v", fs)
	}
}
