package netns_test

import (
	"net/netip"
	"strings"
	"testing"

	"edgespan/netinst"
	"edgespan/netinst/addressing"
	"edgespan/netinst/netstate"
)

// onVLAN returns the desired state of a static port that is a VLAN.
func onVLAN(ifName, parent string, id int, gateway, address string) netstate.State {
	return addressing.Desired([]netinst.PortConfig{{Label: ifName, IfName: netinst.IfName(ifName),
		VLAN: netinst.VLAN{Parent: netinst.IfName(parent), ID: id}, Addressing: netinst.AddressingStatic,
		Static: []netip.Prefix{netip.MustParsePrefix(address)}, Gateway: netip.MustParseAddr(gateway)}}, nil)
}

// hasVLANs reports whether the kernel has VLANs, as ip-link(8) finds it out.
func (l *lab) hasVLANs() bool {
	l.t.Helper()
	l.ns.Exec(l.t, "ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1")
	defer l.ns.Exec(l.t, "ip", "link", "del", "probe0")
	_, err := l.ns.Try("ip", "link", "add", "link", "probe0", "name", "probe0.5", "type", "vlan", "id", "5")
	return err == nil
}

// A kernel without VLANs is told apart from all other reasons, and a failed creation leaves nothing behind. Each error
// says what to do.
func TestAVLANThatCannotBeCreatedSaysWhy(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	want := onVLAN("eth1.5", "eth1", 5, "10.7.0.1", "10.7.0.2/24")
	link := want[netstate.ID{Kind: netstate.KindLink, Name: "eth1.5"}]
	add := func() string {
		op := netstate.Op{Verb: netstate.Add, Kind: netstate.KindLink, Items: []netstate.Item{{Want: link}}}
		if err := l.do(t.Context(), portsOwner, op); err != nil {
			return err.Error()
		}
		return ""
	}
	if got := add(); !strings.Contains(got, "interface eth1 does not exist") {
		t.Errorf("without its parent: %s", got)
	}
	l.ns.Exec(t, "ip", "link", "add", "eth1.5", "type", "veth", "peer", "name", "eth1")
	if got := add(); !strings.Contains(got, "interface name eth1.5 is in use by another link") {
		t.Errorf("beside another link: %s", got)
	}
	if got := l.ns.Exec(t, "ip", "-o", "link", "show", "eth1.5"); !strings.Contains(got, "@eth1") {
		t.Errorf("the other link is now %s", got)
	}
	l.ns.Exec(t, "ip", "link", "set", "eth1.5", "name", "eth2")
	got, has := add(), l.hasVLANs()
	if !has && got != "add link eth1.5: create VLAN 5 of eth1: the kernel has no 802.1Q (module 8021q)" {
		t.Errorf("without VLANs: %s", got)
	}
	if has && got != "" {
		t.Errorf("with VLANs: %s", got)
	}
	if links := l.ns.Exec(t, "ip", "-o", "link"); strings.Contains(links, "es-doomed") ||
		strings.Contains(links, "eth1.5") != has {
		t.Errorf("there are %s", links)
	}
}

// A VLAN is created with all that it carries, found by another process, replaced with its number, and removed; one that
// another program has created is used and stays.
func TestAVLANIsEdgespansOnlyIfItHasCreatedIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if !l.hasVLANs() {
		t.Skip("this kernel has no 802.1Q (module 8021q): only the error is tested, and the plan in netinst/netstate")
	}
	l.ns.Exec(t, "ip", "link", "add", "eth1", "type", "veth", "peer", "name", "far1")
	five := onVLAN("voice", "eth1", 5, "10.7.0.1", "10.7.0.2/24")
	l.setPorts(five)
	all := "10.7.0.2/24, default via 192.0.2.1 dev eth0, default via 10.7.0.1 dev voice proto 101 metric 1000"
	shown := func() string { return strings.ReplaceAll(l.addressesOf("voice"), " linkdown", "") }
	if got := shown(); got != all {
		t.Errorf("voice has %s, want %s", got, all)
	}
	l.open() // another process finds what is edgespan's by its marks
	if done := l.setPorts(five); len(done) > 0 {
		t.Errorf("after a restart edgespan did %v", done)
	}
	l.setPorts(onVLAN("voice", "eth1", 6, "10.7.0.1", "10.7.0.2/24"))
	if got := l.ns.Exec(t, "ip", "-d", "-o", "link", "show", "voice"); !strings.Contains(got, "id 6 ") || shown() != all {
		t.Errorf("replaced, it is %s with %s", got, shown())
	}
	l.setPorts(netstate.State{})
	if links := l.ns.Exec(t, "ip", "-o", "link"); strings.Contains(links, "voice") || strings.Contains(links, "es-doomed") {
		t.Errorf("removed, there are %s", links)
	}
	l.ns.Exec(t, "ip", "link", "add", "link", "eth1", "name", "voice", "type", "vlan", "id", "5")
	l.setPorts(five)
	if got := shown(); got != all {
		t.Errorf("another program's has %s, want %s", got, all)
	}
	l.setPorts(netstate.State{})
	if got := l.ns.Exec(t, "ip", "-d", "-o", "link", "show", "voice"); !strings.Contains(got, "id 5 ") {
		t.Errorf("another program's is now %s", got)
	}
	// A crash between the creation and the mark leaves an unfinished one, which goes.
	l.ns.Exec(t, "ip", "link", "add", "link", "eth1", "name", "es-doomed-vlan", "type", "vlan", "id", "7")
	l.setPorts(netstate.State{})
	if links := l.ns.Exec(t, "ip", "-o", "link"); strings.Contains(links, "es-doomed") {
		t.Errorf("there are %s", links)
	}
}
