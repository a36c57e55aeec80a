package netns_test

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// On a switch apps choose their addresses. Two that work together make a flow to the node's own address known, by
// answering in its place; a third that may send nothing uses a flow of the first, which NAT of another program changes
// on its way. The flow must lead the first into no service of the node, and the third's packets to no app.
func TestFirewallKnowsFlowsOfASwitchByTheirSender(t *testing.T) {
	t.Parallel()
	l := newFwLab(t)
	in := l.fwInput(1, false, l.fwAdapter("a", 1, "10.1.0.128", fwAllowAll...),
		l.fwAdapter("b", 2, "10.1.0.129", fwAllowAll...), l.fwAdapter("c", 3, "10.1.0.130"))
	in.Config = netinst.NetworkInstanceConfig{UUID: in.Config.UUID, Type: netinst.Switch}
	for i := range in.Adapters {
		in.Adapters[i].Lease.IP = netip.Addr{}
	}
	l.apply(netstate.State{}, netinst.HostState([]netinst.HostNetwork{{Number: 1, Switch: true}}))
	l.apply(netstate.State{}, fwWithoutServices(netinst.DesiredState(in).State))
	for _, ns := range []string{"a", "b", "c"} {
		l.in(ns, "ip", "link", "set", "eth0", "up")
	}
	for _, link := range []string{"all", "es1"} {
		l.in("node", "sysctl", "-qw", "net.ipv4.conf."+link+".rp_filter=0")
	}
	inbox := &fwInbox{got: map[string]bool{}}
	inbox.listen(l, "node")
	a, b, c := l.fwRaw("a", "eth0"), l.fwRaw("b", "eth0"), l.fwRaw("c", "eth0")
	macA, macB, macC, node := l.mac("a", "eth0"), l.mac("b", "eth0"), l.mac("c", "eth0"), l.mac("node", "es1")
	write := func(fd int, frame []byte) {
		t.Helper()
		if _, err := unix.Write(fd, frame); err != nil {
			t.Fatal(err)
		}
	}
	send := func(fd int, to, from []byte, src, dst netip.AddrPort, text string) {
		t.Helper()
		write(fd, fwFrame(to, from, 0x0800, fwUDP(src.Addr(), dst.Addr(), src.Port(), dst.Port(), text)))
	}
	app, service := netip.MustParseAddrPort("10.1.0.11:4000"), netip.MustParseAddrPort("192.0.2.10:80")
	know := func(reply netip.AddrPort, what string) {
		t.Helper()
		send(a, macB, macA, app, service, "#ask"+what)
		fwHear(t, b, nil, "#ask"+what)
		send(b, macA, macB, service, reply, "#answer"+what)
		send(b, macA, macB, netip.AddrPortFrom(service.Addr(), 5000), app, "#seen"+what)
		fwHear(t, a, nil, "#seen"+what) // the host could not route a translated answer
	}

	know(app, "")
	send(a, node, macA, app, service, "#node")
	send(c, macB, macC, app, service, "#other")
	send(a, macB, macA, app, service, "#end")
	heard := fwHear(t, b, []string{"#other"}, "#end")
	honest := fwEnd{"world", netip.MustParseAddr("192.0.2.77")}
	l.until("the node hears the world", func() bool {
		l.send(honest, fwEnd{"node", service.Addr()}, service.Port(), "#honest")
		return inbox.has("#honest")
	})
	if inbox.has("#node") {
		t.Error("a flow of the switch led into the node")
	}

	translated := netip.MustParseAddrPort("10.1.0.99:4000")
	l.in("node", "iptables", "-t", "nat", "-I", "POSTROUTING", "-s", app.Addr().String(), "-j", "SNAT", "--to-source",
		translated.Addr().String())
	l.in("node", "conntrack", "-F")
	know(translated, " translated")
	send(c, macB, macC, app, service, "#third")
	send(a, macB, macA, app, service, "#last")
	for mark := range fwHear(t, b, []string{"#third"}, "#last") {
		heard[mark] = true
	}
	if len(heard) > 0 {
		t.Errorf("an app without permission used another's flow: %v", heard)
	}
}
