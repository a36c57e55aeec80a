package scenario

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// closedNet returns one air-gapped network whose subnet others may have.
func closedNet(n int, more string) string {
	return fmt.Sprintf("  %s:\n    displayName: net%d\n    type: local\n    port: \"\"\n    ipv4: {subnet: 10.7.0.0/24, "+
		"mayOverlap: true}\n    dns: {domain: n%d.edge, hosts: {own: \"10.7.0.9%d\"}}\n%s", ni(n), n, n, n, more)
}

// fixedOn returns one app with a fixed address, called name in DNS.
func fixedOn(a, n int, ns, name, ip, acl string) string {
	return fmt.Sprintf("  %s:\n    displayName: %s\n    activate: true\n    adapters:\n      0: {networkInstance: %s, ip: %s, "+
		"attach: {kind: veth, netns: %s}, acl: {%s}}\n", app(a), name, ni(n), ip, ns, acl)
}

// sameSubnets are three networks of one subnet, with two apps each of the same names and addresses, and an ordinary
// network with that subnet and NAT beside them.
func sameSubnets() (nets, apps []string) {
	for n := 1; n <= 3; n++ {
		six := ""
		if n == 2 {
			six = "    ipv6: {subnet: \"fd00:7::/64\"}\n"
		}
		nets = append(nets, closedNet(n, six))
		apps = append(apps, fixedOn(2*n-1, n, fmt.Sprint("a", n), "server", "10.7.0.5", allowAll),
			fixedOn(2*n, n, fmt.Sprint("b", n), "client", "10.7.0.6", allowAll))
	}
	nets = append(nets, fmt.Sprintf("  %s:\n    displayName: open\n    type: local\n    port: wan\n"+
		"    ipv4: {subnet: 10.7.0.0/24}\n    dns: {domain: open.edge, hosts: {own: 10.7.0.94}}\n", ni(4)))
	return nets, append(apps, fixedOn(7, 4, "a4", "server", "10.7.0.5", allowAll),
		fixedOn(8, 4, "b4", "client", "10.7.0.6", allowAll))
}

func newSameSubnets(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "a1", "b1", "a2", "b2", "a3", "b3", "a4", "b4")
	for _, link := range []string{"all", "default", lab.Uplink} { // the strictest that a distribution sets
		w.in("node", "sysctl", "-qw", "net.ipv4.conf."+link+".rp_filter=1")
	}
	nets, apps := sameSubnets()
	w.start(doc(nets, apps...))
	for n := 1; n <= 4; n++ {
		w.wait("ready", "ni/"+ni(n), "app/"+app(2*n-1), "app/"+app(2*n))
		for _, x := range []struct{ ns, ip string }{{fmt.Sprint("a", n), "10.7.0.5"}, {fmt.Sprint("b", n), "10.7.0.6"}} {
			w.in(x.ns, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=2")
			if l := w.lease(x.ns); l.IP.String() != x.ip {
				t.Fatalf("%s got %v, want %s", x.ns, l, x.ip)
			}
		}
	}
	return w
}

// domainOf is the DNS domain of network n of sameSubnets.
func domainOf(n int) string { return []string{"n1.edge", "n2.edge", "n3.edge", "open.edge"}[n-1] }

// Three air-gapped networks have one subnet, and so has an ordinary one with NAT: the apps of each have the same
// addresses and the same names. Each app is answered by its own network alone, no packet is lost while the daemon is
// killed, and a network that goes takes nothing of the others with it.
func TestNetworksOfOneSubnet(t *testing.T) {
	t.Parallel()
	w := newSameSubnets(t)
	for n := 1; n <= 4; n++ {
		w.whoami(fmt.Sprint("a", n), "tcp4", "10.7.0.5:80")
		w.whoami(fmt.Sprint("a", n), "udp4", "10.7.0.5:80")
	}
	for n := 1; n <= 4; n++ {
		w.answersFor(n, 4000)
	}
	server := w.slaac("a2", "fd00:7::/64") // IPv6 is as in any network
	w.slaac("b2", "fd00:7::/64")
	w.reaches6("b2", server.String())
	w.reaches6("b2", "fd00:7::1")
	if got := w.in("b2", "dig", "+short", "+tries=1", "@fd00:7::1", "server.n2.edge", "AAAA"); got != server.String() {
		t.Errorf("the address of a2 is %s, want %s", got, server)
	}
	w.in("b4", "curl", "-sSf", "-m", "5", "http://"+lab.WebAddr+"/")
	w.fails("b1", "ping", "-c1", "-W1", lab.WebAddr)
	w.fails("node", "ping", "-c1", "-W1", "-I", "es"+fmt.Sprint(w.numberOf(1)), "10.7.0.5")
	w.noneStrays()
	w.explainsOneSubnet()

	loops := w.steady(1, 2, 3, 4)
	for range 2 {
		flow(t, w, loops...)
		if err := w.node.Kill(); err != nil {
			t.Fatal(err)
		}
		flow(t, w, loops...)
		w.restart()
		w.wait("ready", "ni/"+ni(1), "ni/"+ni(4), "app/"+app(1), "app/"+app(7))
	}
	flow(t, w, loops...)
	w.unharmed("kill -9", loops)

	// The networks 2 and 3 go; then the ordinary one, whose place network 1 takes.
	nets, apps := sameSubnets()
	loops = w.steady(1, 4)
	w.apply(doc([]string{nets[0], nets[3]}, apps[0], apps[1], apps[6], apps[7]))
	w.eventually("two networks have gone", func() bool {
		return strings.Count(w.in("node", "ip", "-o", "link", "show", "type", "bridge"), ": es") == 2
	})
	flow(t, w, loops...)
	w.unharmed("the end of other networks", loops)
	w.answersFor(1, 4100)
	w.answersFor(4, 4100)
	own := strings.NewReplacer(`port: ""`, "port: wan", ", mayOverlap: true", "").Replace(nets[0])
	w.apply(doc([]string{own}, apps[0], apps[1]))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	w.lease("b1") // with a default route now
	w.eventually("network 1 is an ordinary one", func() bool {
		r, err := w.Exec(w.ctx, "b1", "curl", "-sSf", "-m", "1", "http://"+lab.WebAddr+"/")
		return err == nil && r.Code == 0
	})
	w.answersFor(1, 4200)
	w.apply(doc([]string{nets[0], nets[1]}, apps[:4]...))
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2), "app/"+app(3), "app/"+app(4))
	for _, x := range []string{"b1", "a2", "b2"} {
		w.lease(x)
	}
	w.answersFor(1, 4300)
	w.answersFor(2, 4300)
}

// numberOf is the number of a network.
func (w *world) numberOf(n int) int {
	w.Helper()
	number, _ := w.status("ni", ni(n))["number"].(float64)
	return int(number)
}

// answersFor checks that the second app of network n gets the answers of its own network: by DNS over UDP and TCP, by
// ping, and from the first app, from a port that the apps of other networks have too.
func (w *world) answersFor(n, port int) {
	w.Helper()
	server, client := fmt.Sprint("a", n), fmt.Sprint("b", n)
	for _, way := range []string{"+notcp", "+tcp"} {
		for name, want := range map[string]string{"server." + domainOf(n): "10.7.0.5", "gateway." + domainOf(n): "10.7.0.1",
			"own": fmt.Sprint("10.7.0.9", n), "server." + domainOf(n%4+1): ""} {
			got := w.in(client, "dig", "+short", "+tries=1", "+time=2", way, "@10.7.0.1", name)
			if got != want {
				w.Errorf("network %d: %s %s is %q, want %q", n, way, name, got, want)
			}
		}
	}
	w.in(client, "ping", "-c1", "-W2", "10.7.0.1")
	w.in(client, "ping", "-c1", "-W2", "10.7.0.5")
	for _, network := range []string{"tcp4", "udp4"} {
		if got := w.asks(client, network, "10.7.0.6:"+fmt.Sprint(port), "10.7.0.5:80"); got != server+" 10.7.0.6" {
			w.Errorf("network %d: %s is answered by %q", n, network, got)
		}
	}
}

// noneStrays checks that a packet to an address reaches the app that has it in the sender's network, and no other.
func (w *world) noneStrays() {
	w.Helper()
	var marks []string
	for n := 1; n <= 4; n++ {
		marks = append(marks, fmt.Sprint("a packet of network ", n))
	}
	var got []*sniffer
	for n := 1; n <= 4; n++ {
		got = append(got, w.sniff(fmt.Sprint("a", n), "eth0", marks...), w.sniff(fmt.Sprint("b", n), "eth0", marks...))
	}
	for n := 1; n <= 4; n++ {
		for _, to := range []string{"10.7.0.5:9", "10.7.0.9:9", "10.7.0.1:9", "10.7.0.255:9", lab.WebAddr + ":9"} {
			if c, err := w.dial(fmt.Sprint("b", n), "udp4", "10.7.0.6:4001", to, time.Second); err == nil {
				_, _ = c.Write([]byte(marks[n-1]))
				_ = c.Close()
			}
		}
	}
	for n := 1; n <= 4; n++ {
		w.eventually("a packet of network "+fmt.Sprint(n), func() bool { return got[2*n-2].count(marks[n-1]) > 0 })
		for m := range marks {
			if stray := got[2*n-2].count(marks[m]) + got[2*n-1].count(marks[m]); m != n-1 && stray > 0 {
				w.Errorf("network %d got %d packets of network %d", n, stray, m+1)
			}
		}
	}
}

// explainsOneSubnet checks what `acl explain` says of addresses that several apps have.
func (w *world) explainsOneSubnet() {
	w.Helper()
	for _, x := range []struct {
		app  int
		args string
		want string
	}{
		{1, "--to 10.7.0.6", "allow"}, {1, "--from 10.7.0.6", "allow"}, {3, "--to client", "allow"},
		{1, "--to 10.7.0.1 --proto udp --port 53", "allow"}, {1, "--to 10.7.0.1 --proto tcp --port 22", "deny"},
		{1, "--to 169.254.0.1 --proto udp --port 53", "deny"}, {1, "--from 10.7.0.1", "deny"}, {7, "--to 10.7.0.1", "allow"},
		{1, "--to " + lab.WebAddr, "deny"}, {7, "--to " + lab.WebAddr, "translate"}, {1, "--from " + lab.NodeAt, "deny"},
	} {
		got := w.explainFlow(append([]string{"app/" + app(x.app) + "/0"}, strings.Fields(x.args)...)...)
		if got.Verdict != x.want {
			w.Errorf("explain app %d %s: %+v, want %s", x.app, x.args, got, x.want)
		}
	}
}

// steady lets the second app of each of these networks ping its gateway and the first app, and ask DNS.
func (w *world) steady(networks ...int) (loops []*lab.Loop) {
	w.Helper()
	at := netip.MustParseAddr
	for _, n := range networks {
		short := fmt.Sprint("b", n)
		for _, start := range []func() (*lab.Loop, error){
			func() (*lab.Loop, error) { return w.PingLoop(short, at("10.7.0.1"), 10*time.Millisecond) },
			func() (*lab.Loop, error) { return w.PingLoop(short, at("10.7.0.5"), 10*time.Millisecond) },
			func() (*lab.Loop, error) {
				return w.DNSLoop(short, at("10.7.0.1"), "own."+domainOf(n), at(fmt.Sprint("10.7.0.9", n)), 10*time.Millisecond)
			},
		} {
			l, err := start()
			if err != nil {
				w.Fatal(err)
			}
			loops = append(loops, l)
		}
	}
	return loops
}

// unharmed ends loops and checks that they have lost nothing.
func (w *world) unharmed(by string, loops []*lab.Loop) {
	w.Helper()
	for i, l := range loops {
		if c := l.Stop(); c.Lost+c.Wrong > 0 || c.Good < 50 {
			w.Errorf("%s: loop %d: %v", by, i, c)
		}
	}
}

// An app whose network has no spoof guard sends in the name of others, to the addresses at which the node answers other
// networks, and through the node to addresses of its subnet, and begins flows without end. No app in another network of
// its subnet notices.
func TestAnAppHarmsNoNetworkOfItsSubnet(t *testing.T) {
	t.Parallel()
	w := newSameSubnets(t)
	nets, apps := sameSubnets()
	nets[0] += "    spoofGuard: false\n"
	apps[0] = strings.Replace(apps[0], "{networkInstance", "{maxFlows: 64, networkInstance", 1)
	w.apply(doc(nets, apps...))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))

	const name = "hostilequery"
	at := netip.MustParseAddr
	var others []*sniffer
	for n := 2; n <= 4; n++ {
		others = append(others, w.sniff(fmt.Sprint("a", n), "eth0", name), w.sniff(fmt.Sprint("b", n), "eth0", name))
	}
	answered := w.sniff("b1", "eth0", name)
	loops := w.steady(2, 3, 4)
	flow(t, w, loops...)
	query := append([]byte{0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, byte(len(name))}, name+"\x02n1\x04edge\x00\x00\x01\x00\x01"...)
	wire, bridge, own := w.raw("a1"), w.mac("node", fmt.Sprint("es", w.numberOf(1))), w.mac("a1", "eth0")
	send := func(src, dst string, proto byte, payload []byte) {
		if err := wire.send(ether(bridge, own, etherIPv4, ipv4(at(src), at(dst), proto, payload))); err != nil {
			t.Fatal(err)
		}
	}
	sources := []string{"10.7.0.5", "10.7.0.6", "10.7.0.1", "192.0.2.1", lab.NodeAt}
	targets := []string{"10.7.0.1", "10.7.0.5", "10.7.0.6", "10.7.0.255", lab.NodeAt, lab.WebAddr}
	for n := 1; n <= 4; n++ {
		sources = append(sources, fmt.Sprint("169.254.0.", n))
		targets = append(targets, fmt.Sprint("169.254.0.", n))
	}
	for round := range 3 {
		for _, src := range sources {
			for _, dst := range targets {
				send(src, dst, 17, udp(uint16(5000+round), 53, query))
				send(src, dst, 1, append(lab.EchoRequest(7, uint16(round)), name...))
				send(src, dst, 6, tcp(uint16(5000+round), 53, 0x02))
			}
		}
	}
	w.eventually("an answer in the name of the neighbour", func() bool {
		send("10.7.0.6", "10.7.0.1", 17, udp(5100, 53, query))
		return answered.count(name) > 0
	})
	for port := range 6000 { // each is a flow, to the neighbour or the node
		send("10.7.0.5", []string{"10.7.0.6", "10.7.0.1"}[port%2], 17, udp(uint16(10000+port), 53, query))
	}
	flow(t, w, loops...)
	zone := fmt.Sprint(20000 + w.numberOf(1))
	tracked := strings.Count(w.in("node", "conntrack", "-L", "--zone", zone, "-s", "10.7.0.5"), "src=10.7.0.5 dst=")
	if tracked == 0 || tracked > 64+8 {
		t.Errorf("%d flows of the app are tracked, want at most its 64", tracked)
	}
	for i, s := range others {
		if n := s.count(name); n > 0 {
			t.Errorf("app %d of the other networks got %d packets", i, n)
		}
	}
	w.unharmed("a hostile app", loops)
}
