package netns_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/addressing"
	"edgespan/netinst/netstate"
)

var portsOwner = netstate.Owner{Name: netstate.PortsOwner, Number: netstate.PortsNumber}

// static returns the desired state of a port with addressing static.
func static(ifName, gateway string, addresses ...string) netstate.State {
	p := netinst.PortConfig{Label: ifName, IfName: netinst.IfName(ifName), Addressing: netinst.AddressingStatic}
	for _, a := range addresses {
		p.Static = append(p.Static, netip.MustParsePrefix(a))
	}
	if gateway != "" {
		p.Gateway = netip.MustParseAddr(gateway)
	}
	return addressing.Desired([]netinst.PortConfig{p}, nil)
}

// setPorts applies the ports' desired state as the applier does, returns the ops, and checks that it is observed.
func (l *lab) setPorts(want netstate.State) []string {
	l.t.Helper()
	var done []string
	r := netstate.NewRun(netstate.Diff(netstate.Claim(l.observe(portsOwner, true), want), want))
	for op, ok := r.Next(); ok; op, ok = r.Next() {
		r.Done(op, l.do(l.t.Context(), portsOwner, op))
		done = append(done, op.String())
	}
	for _, f := range r.Failures() {
		l.t.Errorf("%+v", f)
	}
	if left := netstate.Diff(netstate.Claim(l.observe(portsOwner, true), want), want); len(left) > 0 {
		l.t.Errorf("after the apply, this is left to do: %v", left)
	}
	return done
}

// addressesOf returns what ip says of an interface's IPv4 addresses and the main table's default routes.
func (l *lab) addressesOf(link string) string {
	l.t.Helper()
	var out []string
	for line := range strings.Lines(l.ns.Exec(l.t, "ip", "-4", "-o", "addr", "show", "dev", link)) {
		if w := strings.Fields(line); len(w) > 3 {
			out = append(out, w[3])
		}
	}
	for line := range strings.Lines(l.ns.Exec(l.t, "ip", "-4", "route", "show", "default")) {
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(out, ", ")
}

// An address that the config names and another program has set is taken as it is, and stays when the config goes. What
// edgespan has set goes with the config, also in another process.
func TestAPortsAddressesAreEdgespansOnlyIfItHasSetThem(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	before := l.addressesOf("eth0")
	if done := l.setPorts(static("eth0", "", "192.0.2.2/24")); len(done) > 0 {
		t.Errorf("to take what is there, edgespan did %v", done)
	}
	l.setPorts(static("eth0", "192.0.2.1", "192.0.2.2/24", "198.51.100.2/24"))
	both := "192.0.2.2/24, 198.51.100.2/24, default via 192.0.2.1 dev eth0, default via 192.0.2.1 dev eth0 proto 101 " +
		"metric 1000"
	if got := l.addressesOf("eth0"); got != both {
		t.Errorf("eth0 has %s, want %s", got, both)
	}
	l.open() // another process finds what is edgespan's by its marks
	if done := l.setPorts(static("eth0", "192.0.2.1", "192.0.2.2/24", "198.51.100.2/24")); len(done) > 0 {
		t.Errorf("after a restart edgespan did %v", done)
	}
	l.setPorts(netstate.State{})
	if got := l.addressesOf("eth0"); got != before {
		t.Errorf("after the removal eth0 has %s, want %s as before", got, before)
	}
}

// A port that was down and empty is set up; what others take away is added again.
func TestAPortIsSetUpAndItsDriftIsRepaired(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ns.Exec(t, "ip", "link", "add", "eth1", "type", "veth", "peer", "name", "far1")
	want := static("eth1", "10.9.9.9", "203.0.113.2/32") // a gateway on no subnet
	l.setPorts(want)
	full := "203.0.113.2/32, default via 192.0.2.1 dev eth0, default via 10.9.9.9 dev eth1 proto 101 metric 1000 onlink"
	down := full[:len(full)-len(" onlink")] + " onlink linkdown"
	if got := l.addressesOf("eth1"); got != down {
		t.Errorf("eth1 has %q, want %q", got, down)
	}
	l.ns.Exec(t, "ip", "link", "set", "far1", "up")
	for _, break_ := range []string{
		"addr del 203.0.113.2/32 dev eth1", "route del default dev eth1", "link set eth1 down", "addr flush dev eth1",
	} {
		l.ns.Exec(t, append([]string{"ip"}, strings.Fields(break_)...)...)
		l.setPorts(want)
		until(t, "after "+break_+" eth1 is as before", func() bool { return l.addressesOf("eth1") == full })
	}
	// An address that another program has added in its place is taken, and is its own.
	l.ns.Exec(t, "ip", "addr", "del", "203.0.113.2/32", "dev", "eth1")
	l.ns.Exec(t, "ip", "addr", "add", "203.0.113.2/32", "dev", "eth1")
	l.setPorts(want)
	l.setPorts(netstate.State{})
	if got := l.addressesOf("eth1"); got != "203.0.113.2/32, default via 192.0.2.1 dev eth0" {
		t.Errorf("after the removal eth1 has %s", got)
	}
}

// A change within the subnet or to another one keeps the default route, though the kernel removes an interface's routes
// with its last address.
func TestAPortMovesWithinAndBetweenSubnets(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ns.Exec(t, "ip", "addr", "flush", "dev", "eth0")
	for _, c := range []struct{ address, gateway string }{
		{"192.0.2.2/24", "192.0.2.1"}, {"192.0.2.3/24", "192.0.2.1"}, {"192.0.2.3/25", "192.0.2.1"},
		{"10.7.0.2/16", "10.7.0.1"}, {"10.7.0.3/16", "10.7.0.2"},
	} {
		l.setPorts(static("eth0", c.gateway, c.address))
		want := c.address + ", default via " + c.gateway + " dev eth0 proto 101 metric 1000"
		if got := l.addressesOf("eth0"); got != want {
			t.Errorf("eth0 has %s, want %s", got, want)
		}
	}
	// Another program's address is a secondary of edgespan's, and stays without it.
	promote := "net.ipv4.conf.eth0.promote_secondaries"
	before := l.ns.Exec(t, "sysctl", promote)
	l.ns.Exec(t, "ip", "addr", "add", "10.7.0.77/16", "dev", "eth0")
	l.setPorts(netstate.State{})
	if got := l.addressesOf("eth0"); got != "10.7.0.77/16" {
		t.Errorf("after the removal eth0 has %s", got)
	}
	if got := l.ns.Exec(t, "sysctl", promote); got != before {
		t.Errorf("%s is now %s", before, got)
	}
	l.ns.Exec(t, "ip", "addr", "flush", "dev", "eth0")
	l.setPorts(netstate.State{})
	if got := l.addressesOf("eth0"); got != "" {
		t.Errorf("after the removal eth0 has %s", got)
	}
}

// What is not a port's is refused, and a port that does not exist or is part of another link is waited for.
func TestOnlyPortsGetAddresses(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ns.Exec(t, "ip", "link", "add", "br9", "type", "bridge")
	l.ns.Exec(t, "ip", "link", "add", "dum0", "type", "veth", "peer", "name", "dum1")
	l.ns.Exec(t, "ip", "link", "set", "dum0", "master", "br9")
	l.ns.Exec(t, "ip", "link", "add", "es7", "type", "bridge")
	for _, c := range []struct {
		link    string
		waiting bool
	}{{"eth7", true}, {"dum0", true}, {"es7", false}, {"lo", false}} {
		want := static(c.link, "", "192.0.2.77/24")
		fs := l.apply(t.Context(), portsOwner, want)
		if len(fs) == 0 || fs[0].Waiting != c.waiting {
			t.Errorf("%s: failures %+v", c.link, fs)
		}
	}
	for _, obj := range []netstate.Object{
		netstate.Address{Link: "eth0", Prefix: "192.0.2.9/24"},
		netstate.Port{Link: "eth0", Master: "br9", Foreign: true},
		netstate.Route{Table: netstate.MainTable, Dst: "10.0.0.0/8", Type: netstate.Unicast, Dev: "eth0", Metric: 1000},
		netstate.Route{Table: 20001, Dst: "0.0.0.0/0", Type: netstate.Unicast, Dev: "eth0", Metric: 1000},
		netstate.Link{Name: "es1", Type: netstate.Bridge}, netstate.File{Path: "ni/1/conf/x"},
	} {
		op := netstate.Op{Verb: netstate.Add, Kind: obj.ID().Kind, Items: []netstate.Item{{Want: obj}}}
		if err := l.do(t.Context(), portsOwner, op); err == nil {
			t.Errorf("%s was added", obj.ID())
		}
	}
	foreign := netstate.Address{Link: "es7", Prefix: "192.0.2.9/24", Foreign: true}
	op := netstate.Op{Verb: netstate.Add, Kind: netstate.KindAddress, Items: []netstate.Item{{Want: foreign}}}
	if err := l.do(t.Context(), owner(7), op); err == nil {
		t.Error("a network added an address to a port")
	}
}

// A leased address ends with its lease by itself, also if no daemon runs; a renewal moves the end in place, and another
// process leaves it.
func TestALeasedAddressEndsWithItsLease(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ns.Exec(t, "ip", "addr", "flush", "dev", "eth0")
	until := func(ends time.Time) netstate.State {
		return addressing.Desired([]netinst.PortConfig{{Label: "wan", IfName: "eth0", Addressing: netinst.AddressingDHCP}},
			addressing.Leases{"wan": {IfName: "eth0", Address: netip.MustParsePrefix("10.7.0.2/24"),
				Gateway: netip.MustParseAddr("10.7.0.1"), End: ends}})
	}
	now := time.Now()
	l.setPorts(static("eth0", "10.7.0.1", "10.7.0.2/24")) // as a release has set it that knew no end
	l.setPorts(until(now.Add(time.Hour)))
	l.open()
	if done := l.setPorts(until(now.Add(time.Hour))); len(done) > 0 {
		t.Errorf("after a restart edgespan did %v", done)
	}
	const all = "10.7.0.2/24, default via 10.7.0.1 dev eth0 proto 101 metric 1000"
	if got := l.addressesOf("eth0"); got != all {
		t.Errorf("eth0 has %s, want %s", got, all)
	}
	if done := l.setPorts(until(now.Add(2 * time.Hour))); len(done) != 1 || done[0] != "change address eth0 10.7.0.2/24" {
		t.Errorf("a renewal does %v", done)
	}
	if out := l.ns.Exec(t, "ip", "-4", "addr", "show", "dev", "eth0"); !strings.Contains(out, "valid_lft 7") {
		t.Errorf("renewed for two hours, it is %s", out)
	}
	l.setPorts(until(time.Now().Add(7 * time.Second)))
	if got := l.addressesOf("eth0"); got != all {
		t.Errorf("eth0 has %s, want %s", got, all)
	}
	deadline := time.Now().Add(15 * time.Second)
	for l.addressesOf("eth0") != "" && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
	}
	if got := l.addressesOf("eth0"); got != "" {
		t.Errorf("after its lease eth0 has %s", got)
	}
}
