package netns_test

import (
	"fmt"
	"strings"
	"testing"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"
)

// hasVLANFilter reports whether bridges of the kernel keep VLANs apart, as ip-link(8) finds it out.
func (l *lab) hasVLANFilter() bool {
	l.t.Helper()
	if _, err := l.ns.Try("ip", "link", "add", "probe", "type", "bridge", "vlan_filtering", "1"); err != nil {
		return false
	}
	l.ns.Exec(l.t, "ip", "link", "del", "probe")
	return true
}

// untaggedIn is the membership of a port that carries one VLAN, and others with tags.
func untaggedIn(vid int, tagged ...int) []netstate.VLANMember {
	list := []netstate.VLANMember{{ID: vid, PVID: true, Untagged: true}}
	for _, t := range tagged {
		list = append(list, netstate.VLANMember{ID: t})
	}
	return list
}

// vlanBridge is a bridge with an adapter and the foreign link vm0, in VLANs or, without any, as usual.
func (l *lab) vlanBridge(adapter, vm []netstate.VLANMember) netstate.State {
	br := netstate.Link{Name: "es1", Type: netstate.Bridge, MAC: "02:16:3e:00:00:01", MTU: 1500,
		Alias: "edgespan ni " + owner(1).Name}
	if adapter != nil {
		br.Attrs = netstate.VLANAttrs()
	}
	s := l.given(l.app.Name, 1500, 1)
	s.Add(br, netstate.Port{Link: "es1"}, netstate.Port{Link: "es1a1", Master: "es1", VLANs: adapter},
		netstate.Port{Link: "vm0", Master: "es1", Foreign: true, VLANs: vm})
	return s
}

// allowTagged lets tagged frames meet the rules, which is the host state's part.
func (l *lab) allowTagged() {
	l.t.Helper()
	l.must(netstate.Owner{Name: netstate.HostOwner},
		netstate.NewState(netstate.Sysctl{Key: netstate.TaggedFilter, Value: "1"}))
}

// The VLANs of ports are observed as desired, changed in place, repaired when others change them, and gone with the
// config. The bridge itself is in none.
func TestVLANsOfABridge(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if !l.hasVLANFilter() {
		t.Skip("the kernel has no VLAN filtering of bridges: run it in a virtual machine (make vm)")
	}
	l.ns.Exec(t, "ip", "link", "add", "vm0", "type", "veth", "peer", "name", "vm1")
	l.allowTagged()
	plain := l.vlanBridge(nil, nil)
	l.must(owner(1), plain)
	index := indexOf(t, l.ns, "es1a1")
	for i, want := range []netstate.State{
		l.vlanBridge(untaggedIn(1), untaggedIn(1, 10)), l.vlanBridge(untaggedIn(10), untaggedIn(1, 10, 20)),
		l.vlanBridge(untaggedIn(20), untaggedIn(20)), l.vlanBridge(untaggedIn(1, 4094), untaggedIn(1, 2, 4094)),
		plain, l.vlanBridge(untaggedIn(10), untaggedIn(1, 10)),
	} {
		l.must(owner(1), want)
		if p := netstate.Diff(l.observe(owner(1), false), want); len(p) != 0 {
			t.Errorf("%d: afterwards the plan is %v", i, p)
		}
	}
	want := l.vlanBridge(untaggedIn(10), untaggedIn(1, 10))
	for _, change := range []string{"bridge vlan del dev es1a1 vid 10", "bridge vlan add dev es1a1 vid 10",
		"bridge vlan add dev es1a1 vid 30", "bridge vlan add dev vm0 vid 5 pvid untagged", "bridge vlan del dev vm0 vid 10",
		"bridge vlan add dev es1 vid 10 self", "ip link set es1 type bridge vlan_filtering 0"} {
		l.ns.Exec(t, strings.Fields(change)...)
		if p := netstate.Diff(l.observe(owner(1), false), want); len(p) == 0 {
			t.Errorf("%s: no difference", change)
		}
		l.must(owner(1), want)
	}
	// A default of others, which the kernel changes only while nothing is filtered.
	for _, change := range []string{"vlan_filtering 0", "vlan_default_pvid 7", "vlan_filtering 1"} {
		l.ns.Exec(t, strings.Fields("ip link set es1 type bridge "+change)...)
	}
	l.must(owner(1), want)
	if s := l.ns.Exec(t, "ip", "-d", "link", "show", "es1"); !strings.Contains(s, "vlan_default_pvid 0") ||
		!strings.Contains(s, ",UP") {
		t.Errorf("the bridge: %s", s)
	}
	if now := indexOf(t, l.ns, "es1a1"); now != index {
		t.Errorf("link %s was %s", now, index)
	}
	l.must(owner(1), netstate.State{})
	if s := l.ns.Exec(t, "bridge", "vlan", "show"); strings.Contains(s, "vm0") {
		t.Errorf("left: %s", s)
	}
}

// The filter is turned on and off under traffic of ports that stay in one VLAN, and loses none of it. It separates those
// that do not.
func TestTheVLANFilterIsTurnedOnAndOff(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if !l.hasVLANFilter() {
		t.Skip("the kernel has no VLAN filtering of bridges: run it in a virtual machine (make vm)")
	}
	far := netns.New(t) // the node itself would answer ARP for an address of its own by the bridge
	l.ns.Exec(t, "ip", "link", "add", "vm0", "type", "veth", "peer", "name", "vm1", "netns", far.Name)
	far.Exec(t, "ip", "addr", "add", "10.9.0.2/24", "dev", "vm1")
	far.Exec(t, "ip", "link", "set", "vm1", "up")
	l.allowTagged()
	l.must(owner(1), l.vlanBridge(nil, nil))
	inside := l.veth(1, l.app.Name).Peer.Name
	l.app.Exec(t, "ip", "addr", "add", "10.9.0.1/24", "dev", inside)
	l.app.Exec(t, "ip", "link", "set", inside, "up")
	ping := func(n int) string {
		out, _ := l.app.Try("ping", "-c", fmt.Sprint(n), "-i", "0.01", "-W2", "10.9.0.2")
		return out
	}
	until(t, "the first ping", func() bool { return strings.Contains(ping(1), " 0% packet loss") })
	out := make(chan string)
	go func() { out <- ping(500) }()
	for range 5 {
		l.must(owner(1), l.vlanBridge(untaggedIn(1), untaggedIn(1, 10)))
		l.must(owner(1), l.vlanBridge(nil, nil))
	}
	if got := <-out; !strings.Contains(got, " 0% packet loss") {
		t.Error(got)
	}
	for _, vid := range []int{10, 20} {
		l.must(owner(1), l.vlanBridge(untaggedIn(vid), untaggedIn(vid)))
		until(t, "an answer in one VLAN", func() bool { return strings.Contains(ping(3), " 0% packet loss") })
	}
	l.must(owner(1), l.vlanBridge(untaggedIn(10), untaggedIn(1, 20)))
	if got := ping(3); !strings.Contains(got, "100% packet loss") {
		t.Errorf("from one VLAN to another: %s", got)
	}
}

// Without the filter, or without rules for tagged frames, nothing passes: the error says what is missing.
func TestWhatIsInAVLANWaitsForItsFilter(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ns.Exec(t, "ip", "link", "add", "vm0", "type", "veth", "peer", "name", "vm1")
	l.must(owner(1), l.vlanBridge(nil, nil))
	for _, link := range []string{"es1a1", "vm0"} {
		if s := l.ns.Exec(t, "ip", "link", "show", link); !strings.Contains(s, "master es1") || !strings.Contains(s, ",UP") {
			t.Fatal(s)
		}
	}
	want := l.vlanBridge(untaggedIn(10), untaggedIn(10))
	if !l.hasVLANFilter() {
		l.allowTagged()
		fs := l.apply(t.Context(), owner(1), want)
		if len(fs) != 3 {
			t.Errorf("failures: %+v", fs)
		}
		for _, f := range fs {
			if !strings.Contains(f.Err, netstate.ErrNoVLANFilter.Error()) {
				t.Errorf("%s: %s", f.ID, f.Err)
			}
		}
		if s := l.ns.Exec(t, "ip", "link", "show", "es1a1"); strings.Contains(s, ",UP") {
			t.Errorf("the adapter still carries frames: %s", s)
		}
		if s := l.ns.Exec(t, "ip", "link", "show", "vm0"); strings.Contains(s, "master") {
			t.Errorf("the other link still carries frames: %s", s)
		}
		l.must(owner(1), l.vlanBridge(nil, nil))
	}
	l.must(netstate.Owner{Name: netstate.HostOwner}, netstate.State{})
	for _, f := range l.apply(t.Context(), owner(1), want) {
		if port := f.ID.Kind == netstate.KindPort; port && (!f.Waiting || !strings.Contains(f.Err, netstate.TaggedFilter)) {
			t.Errorf("without rules for tagged frames: %+v", f)
		}
	}
	for _, link := range []string{"es1a1", "vm0"} {
		if s, _ := l.ns.Try("bridge", "vlan", "show", "dev", link); strings.Contains(s, "10 PVID") {
			t.Errorf("it is in its VLAN: %s", s)
		}
	}
}
