package scenario

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/platform/lab"
)

// keepsVLANsApart reports whether bridges of this kernel filter VLANs, as ip-link(8) finds it out.
func (w *world) keepsVLANsApart() bool {
	w.Helper()
	r, err := w.Exec(w.ctx, "lan", "ip", "link", "add", "probe", "type", "bridge", "vlan_filtering", "1")
	if err != nil {
		w.Fatal(err)
	}
	if r.Code == 0 {
		w.in("lan", "ip", "link", "del", "probe")
	}
	return r.Code == 0
}

// inVLAN adds keys to the adapter of an app, such as "vlan: 10".
func inVLAN(keys, app string) string { return strings.Replace(app, "attach:", keys+", attach:", 1) }

// vlanWorld is a node with a trunk port lan0, behind which "lan" has VLANs 10 and 20 with DHCP and the untagged VLAN,
// and an access port lan1, behind which is "desk".
func vlanWorld(t *testing.T, apps ...string) *world {
	w := newWorld(t, append([]string{"lan", "desk"}, apps...)...)
	if !w.keepsVLANsApart() {
		t.Skip("the kernel has no VLAN filtering of bridges: run it in a virtual machine (make vm)")
	}
	for link, ns := range map[string]string{"lan0": "lan", "lan1": "desk"} {
		w.in("node", "ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", w.NS(ns))
		w.in("node", "ip", "link", "set", link, "up")
	}
	w.static("lan", "10.77.0.1")
	for _, vid := range []string{"10", "20"} {
		w.in("lan", "ip", "link", "add", "link", "eth0", "name", "eth0."+vid, "type", "vlan", "id", vid)
		w.in("lan", "ip", "link", "set", "eth0."+vid, "up")
		w.in("lan", "ip", "addr", "add", "10."+vid+".0.1/24", "dev", "eth0."+vid)
		w.in("lan", "dnsmasq", "--conf-file=/dev/null", "--port=0", "--interface=eth0."+vid, "--bind-interfaces", "--user=root",
			"--no-ping", "--dhcp-authoritative", "--dhcp-range=10."+vid+".0.100,10."+vid+".0.150,255.255.255.0,1h",
			"--leasefile-ro", "--pid-file="+filepath.Join(w.Dir, "lan"+vid+".pid"), "--log-facility=/dev/null")
	}
	return w
}

// vlanDoc is a config with a switch on the trunk port lan0 and, in VLAN 20, the access port lan1.
func vlanDoc(apps ...string) string {
	return vlanDocOf("", nil, apps...)
}

// vlanDocOf is vlanDoc with more ports and networks.
func vlanDocOf(port string, nets []string, apps ...string) string {
	ports := wan + "  trunk: {ifName: lan0, labels: lab}\n  desk: {ifName: lan1, labels: lab}\n" + port
	lab := strings.Replace(switchNetwork(1, "lab"), "}", ", vlanAccessPorts: {desk: 20}}", 1)
	return strings.Replace(doc(append([]string{lab}, nets...), apps...), wan, ports, 1)
}

// pings says whether a namespace gets an answer from an address.
func (w *world) pings(from, to string) bool {
	w.Helper()
	r, err := w.Exec(w.ctx, from, "ping", "-c1", "-W2", to)
	if err != nil {
		w.Fatal(err)
	}
	return r.Code == 0
}

// meetsOnly checks which of some addresses a namespace reaches.
func (w *world) meetsOnly(from string, reached []string, others ...string) {
	w.Helper()
	for _, to := range reached {
		w.eventually(from+" to "+to, func() bool { return w.pings(from, to) })
	}
	for _, to := range others {
		w.fails(from, "ping", "-c1", "-W1", to)
	}
}

// treeUp sets the links of apps and the desk up, and waits until all ports of the switch forward: it has two of the host
// and so runs the spanning tree protocol.
func (w *world) treeUp(apps ...string) {
	w.Helper()
	links := []string{"lan0", "lan1"}
	for i, ns := range apps {
		links = append(links, fmt.Sprintf("es1a%d", i+1))
		w.in(ns, "ip", "link", "set", "eth0", "up")
	}
	w.in("desk", "ip", "link", "set", "eth0", "up")
	w.eventuallyIn(treeTime, "all ports forward", func() bool {
		for _, l := range links {
			if !strings.Contains(w.in("node", "bridge", "link", "show", "dev", l), "state forwarding") {
				return false
			}
		}
		return true
	})
}

// As an operator I put apps of one switch into VLANs (scenario 51): each gets its address by DHCP of its VLAN and meets
// only what is in it; I move one to another VLAN, and its link stays. Access rules apply to frames from and to trunks.
func TestVLANsOfASwitchKeepAppsApart(t *testing.T) {
	w := vlanWorld(t, "a", "b", "c", "d", "e")
	apps := func(vlanOfA string) []string {
		return []string{inVLAN("vlan: "+vlanOfA, onNet(1, 1, "a", allowAll)), inVLAN("vlan: 20", onNet(2, 1, "b", allowAll)),
			inVLAN("vlan: 10", onNet(3, 1, "c", "")), onNet(4, 1, "d", allowAll), inVLAN("vlan: 10", onNet(5, 1, "e", allowAll))}
	}
	w.start(vlanDoc(apps("10")...))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2), "app/"+app(3), "app/"+app(4), "app/"+app(5))
	w.treeUp("a", "b", "c", "d", "e")
	for _, x := range []struct{ ns, subnet string }{{"a", "10.10.0.0/24"}, {"b", "10.20.0.0/24"}, {"c", "10.10.0.0/24"},
		{"e", "10.10.0.0/24"}, {"desk", "10.20.0.0/24"}} {
		if l := w.lease(x.ns); !netip.MustParsePrefix(x.subnet).Contains(l.IP) {
			t.Errorf("%s got %s", x.ns, l.IP)
		}
	}
	w.static("d", "10.77.0.4")
	// All have addresses in one subnet besides: only the VLANs keep them apart.
	for i, ns := range []string{"a", "b", "c", "d", "e", "desk"} {
		w.in(ns, "ip", "addr", "add", fmt.Sprintf("10.99.0.%d/24", i+1), "dev", "eth0")
	}
	const a, b, c, d, e, desk = "10.99.0.1", "10.99.0.2", "10.99.0.3", "10.99.0.4", "10.99.0.5", "10.99.0.6"
	w.meetsOnly("a", []string{e, "10.10.0.1"}, b, c, d, desk)
	w.meetsOnly("b", []string{desk, "10.20.0.1"}, a, c, d, e)
	w.meetsOnly("d", []string{"10.77.0.1"}, a, b, e, desk)
	w.meetsOnly("desk", []string{b, "10.20.0.1"}, a, c, d, e)
	w.meetsOnly("c", nil, a, "10.10.0.1")
	w.in("lan", "ping", "-c1", "-W2", w.addressIn("a", "10.10.0."))
	w.fails("lan", "ping", "-c1", "-W1", w.addressIn("c", "10.10.0."))
	if got := w.cli("explain", "adapter/"+app(1)+"/0"); !strings.Contains(got, "in VLAN 10") {
		t.Errorf("explain: %s", got)
	}
	if got := w.cli("acl", "explain", "app/"+app(1)+"/0", "--to", b, "--proto", "icmp"); !strings.Contains(got, "another VLAN") {
		t.Errorf("acl explain: %s", got)
	}
	w.movesToAnotherVLAN(apps, b, e)
	w.mendsVLANs()
	// Without VLANs all of them meet again, and nothing of the VLANs is left.
	w.apply(lanDoc([]string{switchNetwork(1, "")}, onNet(1, 1, "a", allowAll), onNet(4, 1, "d", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(4))
	w.static("a", "10.99.0.1") // its lease has replaced it
	w.meetsOnly("a", []string{d})
	if s := w.in("node", "ip", "-d", "link", "show", "es1"); !strings.Contains(s, "vlan_filtering 0") {
		t.Errorf("the bridge: %s", s)
	}
	w.eventually("the setting of before", func() bool {
		return w.in("node", "sysctl", "-n", "net.bridge.bridge-nf-filter-vlan-tagged") == "0"
	})
}

// addressIn returns the address of an app that begins with a prefix.
func (w *world) addressIn(ns, prefix string) string {
	w.Helper()
	for _, word := range strings.Fields(w.in(ns, "ip", "-4", "-o", "addr", "show", "dev", "eth0")) {
		if strings.HasPrefix(word, prefix) && strings.Contains(word, "/") {
			return strings.Split(word, "/")[0]
		}
	}
	w.Fatalf("%s has no address %s*", ns, prefix)
	return ""
}

// movesToAnotherVLAN moves app 1 from VLAN 10, where it meets there, to VLAN 20, where it meets here: its link stays.
func (w *world) movesToAnotherVLAN(apps func(string) []string, here, there string) {
	w.Helper()
	before := w.in("node", "cat", "/sys/class/net/es1a1/ifindex")
	w.apply(vlanDoc(apps("20")...))
	w.wait("ready", "app/"+app(1))
	w.meetsOnly("a", []string{here}, there)
	if l := w.lease("a"); !netip.MustParsePrefix("10.20.0.0/24").Contains(l.IP) {
		w.Errorf("in VLAN 20 it got %s", l.IP)
	}
	if now := w.in("node", "cat", "/sys/class/net/es1a1/ifindex"); now != before {
		w.Errorf("its link is %s and was %s", now, before)
	}
}

// mendsVLANs lets others change the VLANs of ports, and waits until each is as desired again.
func (w *world) mendsVLANs() {
	w.Helper()
	members := func() string {
		return w.in("node", "bridge", "vlan", "show")
	}
	before := members()
	for _, change := range []string{
		"bridge vlan del dev es1a1 vid 20", "bridge vlan add dev es1a2 vid 10 pvid untagged", "bridge vlan del dev lan0 vid 10",
		"bridge vlan add dev lan1 vid 10", "bridge vlan add dev es1 vid 10 self", "bridge vlan add dev es1a4 vid 4000",
	} {
		w.in("node", strings.Fields(change)...)
		w.eventually("repair of "+change, func() bool { return members() == before })
	}
	w.in("node", "ip", "link", "set", "es1", "type", "bridge", "vlan_filtering", "0")
	w.eventually("the filter is on again", func() bool {
		return strings.Contains(w.in("node", "ip", "-d", "link", "show", "es1"), "vlan_filtering 1") && members() == before
	})
}

// As an operator I give an app a trunk: it sends and receives the VLANs that I name with tags, and no others; guards and
// access rules read what is in the tag. A VLAN of the port may be another port of the node at the same time (scenario
// 52).
func TestATrunkOfAnAppCarriesItsVLANs(t *testing.T) {
	w := vlanWorld(t, "a", "b", "r", "q", "web")
	open := "ping: {action: allow, match: {protocol: icmp}}"
	w.start(vlanDocOf("  voice: {ifName: lan0.50, vlan: {parent: lan0, id: 50}, addressing: static, address: 10.50.0.2/24, "+
		"gateway: 10.50.0.1}\n", []string{strings.Replace(network(2, ""), "port: wan", "port: voice", 1)},
		inVLAN("vlan: 10", onNet(1, 1, "a", allowAll)), inVLAN("vlan: 20", onNet(2, 1, "b", "")),
		inVLAN(`trunk: "10,20"`, onNet(3, 1, "r", open)), inVLAN("vlan: 10", onNet(4, 1, "q", allowAll)),
		onNet(5, 2, "web", allowAll)))
	w.in("lan", "ip", "link", "add", "link", "eth0", "name", "eth0.50", "type", "vlan", "id", "50")
	w.in("lan", "ip", "addr", "add", "10.50.0.1/24", "dev", "eth0.50")
	w.in("lan", "ip", "link", "set", "eth0.50", "up")
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2), "app/"+app(3), "app/"+app(4), "app/"+app(5))
	w.treeUp("a", "b", "r", "q")
	w.lease("web")
	w.meetsOnly("web", []string{"10.50.0.1"})
	w.static("a", "10.10.0.11")
	w.static("b", "10.20.0.12")
	w.static("q", "10.10.0.14")
	w.static("r", "10.77.0.3")
	for _, vid := range []string{"10", "20", "30"} {
		w.in("r", "ip", "link", "add", "link", "eth0", "name", "eth0."+vid, "type", "vlan", "id", vid)
		w.in("r", "ip", "link", "set", "eth0."+vid, "up")
		w.in("r", "ip", "addr", "add", "10."+vid+".0.3/24", "dev", "eth0."+vid)
	}
	w.meetsOnly("r", []string{"10.10.0.11", "10.10.0.1", "10.20.0.1", "10.77.0.1"}, "10.20.0.12")
	w.meetsOnly("a", []string{"10.10.0.3"})
	w.meetsOnly("lan", []string{"10.10.0.3", "10.20.0.3", "10.77.0.3"})
	// Rules of both ends, with and without a tag: r may only be pinged.
	for from, to := range map[string]string{"a": "10.10.0.3:80", "lan": "10.20.0.3:80"} {
		w.echo("r", "tcp4", to)
		if got := w.meets(from, "tcp4", "", to, denial); got != silence {
			t.Errorf("%s to %s meets %s", from, to, got)
		}
	}
	w.forbiddenTags()
}

// forbiddenTags sends frames into VLANs that they must not enter.
func (w *world) forbiddenTags() {
	w.Helper()
	const ping, lie, hop, far = "a frame of its own", "a frame with a forged sender", "a hop into a VLAN", "a VLAN of others"
	all := netip.MustParseAddr("10.10.0.255")
	frame := func(mac []byte, text string) []byte {
		return ether([]byte{255, 255, 255, 255, 255, 255}, mac, etherIPv4, ipv4(netip.MustParseAddr("10.10.0.3"), all, 1,
			append([]byte{8, 0, 0, 0, 0, 1, 0, 1}, text...)))
	}
	got := w.sniff("a", "eth0", ping, lie, hop, far)
	r, q := w.mac("r", "eth0"), w.mac("q", "eth0")
	router, neighbour := w.raw("r"), w.raw("b")
	for _, s := range []struct {
		by   *sender
		what []byte
	}{
		{router, tagged(frame(q, lie), etherVLAN, 10)}, {router, tagged(frame(r, far), etherVLAN, 30)},
		{router, tagged(tagged(frame(r, hop), etherVLAN, 10), etherVLAN, 20)}, {router, tagged(frame(r, hop), etherQinQ, 10)},
		{neighbour, tagged(frame(w.mac("b", "eth0"), hop), etherVLAN, 10)},
		{neighbour, tagged(tagged(frame(w.mac("b", "eth0"), hop), etherVLAN, 10), etherVLAN, 20)},
		{neighbour, tagged(frame(w.mac("b", "eth0"), hop), etherVLAN, 0)},
	} {
		if err := s.by.send(s.what); err != nil {
			w.Fatal(err)
		}
	}
	w.eventually("the frame that it may send", func() bool {
		if err := router.send(tagged(frame(r, ping), etherVLAN, 10)); err != nil {
			w.Fatal(err)
		}
		return got.count(ping) > 0
	})
	for _, bad := range []string{lie, hop, far} {
		if n := got.count(bad); n > 0 {
			w.Errorf("%d of %q passed", n, bad)
		}
	}
}

// As an operator of a kernel without VLAN filtering I am told so, and no frame passes unseparated: neither of apps that
// begin in a VLAN, nor of apps that get one while they run. Everything else works.
func TestAKernelWithoutVLANFilteringMixesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "lan", "a", "b", "c", "d", "e")
	if w.keepsVLANsApart() {
		t.Skip("the kernel has VLAN filtering of bridges")
	}
	const missing = "the kernel has no VLAN filtering of bridges (CONFIG_BRIDGE_VLAN_FILTERING)"
	nets := []string{switchNetwork(1, ""), switchNetwork(2, ""), network(3, "")}
	apps := func(vlanOfC string) []string {
		return []string{inVLAN("vlan: 10", onNet(1, 1, "a", allowAll)), inVLAN("vlan: 10", onNet(2, 1, "b", allowAll)),
			inVLAN(vlanOfC, onNet(3, 2, "c", allowAll)), onNet(4, 2, "d", allowAll), onNet(5, 3, "e", allowAll)}
	}
	w.start(doc(nets, apps("vlan: 0")...))
	w.wait("ready", "ni/"+ni(2), "ni/"+ni(3), "app/"+app(3), "app/"+app(4), "app/"+app(5))
	w.lease("e")
	says := func(n int) bool { return strings.Contains(fmt.Sprint(w.status("ni", ni(n))["error"]), missing) }
	w.eventually("the reason", func() bool { return says(1) })
	w.eventually("the app's reason", func() bool { return w.adapterStatus(1, "error") != "" })
	if r, err := w.CLI(w.ctx, "doctor"); err != nil || !strings.Contains(r.Out, "network net1 has VLANs, and "+missing) {
		t.Errorf("doctor: %v\n%s", err, r.Out)
	}
	w.static("c", "10.9.0.3")
	w.static("d", "10.9.0.4")
	w.meetsOnly("c", []string{"10.9.0.4"})
	w.apply(doc(nets, apps("vlan: 10")...))
	w.eventually("the reason of the other", func() bool { return says(2) })
	w.eventually("the app's reason", func() bool { return strings.Contains(w.adapterStatus(3, "error"), missing) })
	// The network may have the new config, and its app that reason, before the app has its own new one.
	w.eventually("the port is set down", func() bool {
		return !strings.Contains(w.in("node", "ip", "-o", "link", "show", "es2a1"), ",UP")
	})
	w.meetsOnly("c", nil, "10.9.0.4")
	w.meetsOnly("d", nil, "10.9.0.3")
	w.apply(doc(nets, apps("vlan: 1")...))
	w.wait("ready", "ni/"+ni(2), "app/"+app(3))
	w.meetsOnly("c", []string{"10.9.0.4"})
	w.in("e", "ping", "-c1", "-W2", lab.WebAddr)
	if _, err := os.Stat("/proc/sys/net/bridge"); err == nil { // of the last network with VLANs, which still wants it
		w.apply(doc(nets[1:], apps("vlan: 1")[2:]...))
		w.eventually("the setting of before", func() bool {
			return w.in("node", "sysctl", "-n", "net.bridge.bridge-nf-filter-vlan-tagged") == "0"
		})
	}
}

// Two VLANs have the same addresses. What a station of one sends with the addresses and ports of a flow of the other,
// first and the other way round, does not make the rules take that flow's answers for something new.
func TestFlowsOfVLANsAreTrackedApart(t *testing.T) {
	w := newWorld(t, "lan", "bad", "mate", "client", "server")
	if !w.keepsVLANsApart() {
		t.Skip("the kernel has no VLAN filtering of bridges: run it in a virtual machine (make vm)")
	}
	w.start(doc([]string{switchNetwork(1, "")}, inVLAN("vlan: 10", onNet(1, 1, "bad", allowAll)),
		inVLAN("vlan: 10", onNet(2, 1, "mate", allowAll)),
		inVLAN("vlan: 20", onNet(3, 1, "client", "out: {action: allow, direction: egress}")),
		inVLAN("vlan: 20", onNet(4, 1, "server", allowAll))))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2), "app/"+app(3), "app/"+app(4))
	for _, ns := range []string{"bad", "server"} {
		w.static(ns, "10.98.0.1")
	}
	for _, ns := range []string{"mate", "client"} {
		w.static(ns, "10.98.0.2")
	}
	w.echo("mate", "udp4", "10.98.0.2:5000")
	w.echo("server", "udp4", "10.98.0.1:53")
	for _, x := range []struct{ from, local, remote string }{{"bad", "10.98.0.1:53", "10.98.0.2:5000"},
		{"client", "10.98.0.2:5000", "10.98.0.1:53"}} {
		flow, err := w.dial(x.from, "udp4", x.local, x.remote, timeout)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = flow.Close() }()
		if err := say(flow, timeout); err != nil {
			t.Errorf("%s to %s: %v", x.from, x.remote, err)
		}
	}
}
