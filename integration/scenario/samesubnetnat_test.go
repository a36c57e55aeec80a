package scenario

import (
	wire "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// natOf returns the config of sameSubnets with the first three networks behind NAT by these ports.
func natOf(ports ...string) (nets, apps []string) {
	nets, apps = sameSubnets()
	for i, p := range ports {
		nets[i] = strings.Replace(nets[i], `port: ""`, "port: "+p, 1)
	}
	return nets, apps
}

// twoUplinks is doc with two uplinks.
func twoUplinks(nets, apps []string) string {
	return wan2 + "networkInstances:\n" + strings.Join(nets, "") + "appNetworks:\n" + strings.Join(apps, "")
}

// newNATSubnets starts four networks of one subnet behind NAT, the last an ordinary one, on a node whose kernel checks
// the sources of packets strictly.
func newNATSubnets(t *testing.T, env []string, ports ...string) (w *world, nets, apps []string) {
	t.Helper()
	w = newWorldOf(t, lab.Options{Uplinks: 2, Apps: []string{"a1", "b1", "a2", "b2", "a3", "b3", "a4", "b4"}})
	for _, link := range []string{"all", "default", lab.Uplink, w.Provider(1).Dev} {
		w.in("node", "sysctl", "-qw", "net.ipv4.conf."+link+".rp_filter=1")
	}
	nets, apps = natOf(ports...)
	w.start(twoUplinks(nets, apps), env...)
	for n := 1; n <= 4; n++ {
		w.wait("ready", "ni/"+ni(n), "app/"+app(2*n-1), "app/"+app(2*n))
		w.lease(fmt.Sprint("a", n))
		w.lease(fmt.Sprint("b", n))
	}
	for n := range 2 {
		w.mirrors(w.Provider(n).Short)
	}
	return w, nets, apps
}

// mirrorPort is where a provider sends back each packet of UDP.
const mirrorPort = "4444"

// mirrors makes a provider's web server send back each packet of UDP, with the address that it came from before it.
func (w *world) mirrors(short string) {
	w.Helper()
	var pc net.PacketConn
	err := w.inside(short, func() (err error) {
		pc, err = net.ListenPacket("udp4", lab.WebAddr+":"+mirrorPort)
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		buf := make([]byte, 256)
		for {
			n, from, err := pc.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_, _ = pc.WriteTo(append([]byte(from.String()+" "), buf[:n]...), from)
			}
		}
	})
	w.Cleanup(func() { _ = pc.Close(); serving.Wait() })
}

// opens opens a connection of the second app of each of these networks, all from one address and port.
func (w *world) opens(network, port, to string, networks ...int) map[int]net.Conn {
	w.Helper()
	all := map[int]net.Conn{}
	for _, n := range networks {
		c, err := w.dial(fmt.Sprint("b", n), network, "10.7.0.6:"+port, to, timeout)
		if err != nil {
			w.Fatalf("network %d: %v", n, err)
		}
		w.Cleanup(func() { _ = c.Close() })
		all[n] = c
	}
	return all
}

// echoed sends a packet on a connection and returns the address that the provider saw; "" if no answer comes, and an
// error if it is not the answer to this packet.
func echoed(c net.Conn, say string) (string, error) {
	_ = c.SetDeadline(time.Now().Add(time.Second))
	if _, err := c.Write([]byte(say)); err != nil {
		return "", nil //nolint:nilerr // as after a failover: the next packet tells
	}
	buf := make([]byte, 256)
	n, err := c.Read(buf)
	if err != nil {
		return "", nil //nolint:nilerr // as above
	}
	from, said, _ := strings.Cut(string(buf[:n]), " ")
	if said != say {
		return from, fmt.Errorf("%q is answered with %q", say, said)
	}
	return from, nil
}

// sameTuples lets the second app of each network talk to one server from one address and port, at the same time, over
// TCP and UDP: each gets its own answers, from the node's address in at.
func (w *world) sameTuples(port int, at map[int]string) {
	w.Helper()
	var networks []int
	for n := range at {
		networks = append(networks, n)
	}
	slices.Sort(networks)
	web, seen := w.opens("tcp4", fmt.Sprint(port), lab.WebAddr+":80", networks...), map[string]int{}
	for _, n := range networks {
		_ = web[n].SetDeadline(time.Now().Add(timeout))
		if _, err := io.WriteString(web[n], "GET / HTTP/1.0\r\n\r\n"); err != nil {
			w.Errorf("network %d: %v", n, err)
		}
	}
	for _, n := range networks {
		text, err := io.ReadAll(web[n])
		_, from, _ := strings.Cut(string(text), "you are ")
		from = strings.TrimSpace(from)
		if !strings.HasPrefix(from, at[n]+":") || seen[from] > 0 {
			w.Errorf("network %d: it is %q for the server, as network %d: %v", n, from, seen[from], err)
		}
		seen[from] = n
		_ = web[n].Close()
	}
	udp := w.opens("udp4", fmt.Sprint(port), lab.WebAddr+":"+mirrorPort, networks...)
	for round := range 20 {
		for _, n := range networks {
			from, err := echoed(udp[n], fmt.Sprint("round ", round, " of network ", n))
			if err != nil || !strings.HasPrefix(from, at[n]+":") {
				w.Errorf("network %d, round %d: the server saw %q: %v", n, round, from, err)
			}
		}
	}
	for _, n := range networks {
		_ = udp[n].Close()
	}
}

// errorsReturn checks that errors of the node and of a host behind it reach the app that they are about, and no other.
func (w *world) errorsReturn(networks ...int) {
	w.Helper()
	for _, n := range networks {
		r, err := w.Exec(w.ctx, fmt.Sprint("b", n), "ping", "-n", "-c1", "-W2", "-t1", lab.WebAddr)
		if err != nil || !strings.Contains(r.Out, "From 10.7.0.1 ") {
			w.Errorf("network %d: no error of the node about an old packet: %v, %s", n, err, r.Out)
		}
	}
	closed := w.opens("udp4", "4300", lab.WebAddr+":9", networks...)
	for _, n := range networks {
		_ = closed[n].SetDeadline(time.Now().Add(2 * time.Second))
		_, _ = closed[n].Write([]byte("x"))
		if _, err := closed[n].Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
			w.Errorf("network %d: a closed port answers %v", n, err)
		}
		for _, other := range networks { // what is not read yet is no error about this network's packet
			if other > n {
				_ = closed[other].SetReadDeadline(time.Now().Add(time.Millisecond))
				if _, err := closed[other].Read(make([]byte, 1)); errors.Is(err, syscall.ECONNREFUSED) {
					w.Errorf("an error about a packet of network %d reaches network %d", n, other)
				}
			}
		}
		_ = closed[n].Close()
	}
}

// Three networks behind NAT have one subnet, on two uplinks, and so has an ordinary one: apps with one address talk to
// one server from one port at the same time, each by its own uplink, and each answer returns to its sender.
func TestNetworksOfOneSubnetBehindNAT(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, env []string) {
		t.Parallel()
		w, nets, apps := newNATSubnets(t, env, "wan", "wan", "lte")
		for n := 1; n <= 4; n++ {
			w.whoami(fmt.Sprint("a", n), "tcp4", "10.7.0.5:80")
			w.whoami(fmt.Sprint("a", n), "udp4", "10.7.0.5:80")
		}
		at := map[int]string{1: lab.NodeAt, 2: lab.NodeAt, 3: lab.NodeAt2, 4: lab.NodeAt}
		w.sameTuples(4000, at)
		w.errorsReturn(1, 2, 3, 4)
		// The node's own queries by its second uplink need this, for networks of any kind.
		w.in("node", "sysctl", "-qw", "net.ipv4.conf."+w.Provider(1).Dev+".rp_filter=2")
		for n := 1; n <= 4; n++ {
			w.answersFor(n, 4100)
			provider := map[string]string{lab.NodeAt: lab.Gateway, lab.NodeAt2: lab.Gateway2}[at[n]]
			if got := w.in(fmt.Sprint("b", n), "dig", "+short", "+tries=1", "@10.7.0.1", lab.ProviderName); got != provider {
				t.Errorf("network %d: DNS is answered by %s, want %s", n, got, provider)
			}
		}
		w.noneStrays()
		w.explainsOneSubnetBehindNAT()

		loops := append(w.steady(1, 2, 3, 4), w.outward(1, 2, 3, 4)...)
		flow(t, w, loops...)
		if err := w.node.Kill(); err != nil {
			t.Fatal(err)
		}
		flow(t, w, loops...)
		w.restart(env...)
		w.wait("ready", "ni/"+ni(1), "ni/"+ni(4), "app/"+app(1), "app/"+app(7))
		flow(t, w, loops...)
		w.unharmed("kill -9", loops)

		// Network 1 goes, then the ordinary one: what the kernel finds by the subnet alone is another network each time.
		for _, left := range [][]int{{2, 3, 4}, {2, 3}} {
			var restNets, restApps []string
			for _, n := range left {
				restNets, restApps = append(restNets, nets[n-1]), append(restApps, apps[2*n-2], apps[2*n-1])
			}
			loops := append(w.steady(left...), w.outward(left...)...)
			flow(t, w, loops...)
			w.apply(twoUplinks(restNets, restApps))
			w.eventually("a network has gone", func() bool {
				return strings.Count(w.in("node", "ip", "-o", "link", "show", "type", "bridge"), ": es") == len(left)
			})
			flow(t, w, loops...)
			w.unharmed("the end of another network", loops)
			rest := map[int]string{}
			for _, n := range left {
				rest[n] = at[n]
			}
			w.sameTuples(4200+len(left), rest)
			w.errorsReturn(left...)
		}
	})
}

// outward lets the second app of each of these networks ping the web server.
func (w *world) outward(networks ...int) (loops []*lab.Loop) {
	w.Helper()
	for _, n := range networks {
		l, err := w.PingLoop(fmt.Sprint("b", n), netip.MustParseAddr(lab.WebAddr), 10*time.Millisecond)
		if err != nil {
			w.Fatal(err)
		}
		loops = append(loops, l)
	}
	return loops
}

func (w *world) explainsOneSubnetBehindNAT() {
	w.Helper()
	for _, x := range []struct {
		app  int
		args string
		want string
	}{
		{1, "--to 10.7.0.6", "allow"}, {1, "--from 10.7.0.6", "allow"}, {1, "--to " + lab.WebAddr, "translate"},
		{5, "--to " + lab.WebAddr, "translate"}, {7, "--to " + lab.WebAddr, "translate"},
		{1, "--from " + lab.WebAddr, "deny"}, {7, "--from " + lab.WebAddr, "allow"}, {1, "--from " + lab.NodeAt, "deny"},
		{1, "--to 10.7.0.1 --proto udp --port 53", "allow"}, {1, "--to 10.7.0.1 --proto tcp --port 22", "deny"},
		{1, "--to " + lab.NodeAt, "deny"}, {3, fmt.Sprint("--to 169.254.0.", w.numberOf(1)), "deny"},
	} {
		got := w.explainFlow(append([]string{"app/" + app(x.app) + "/0"}, strings.Fields(x.args)...)...)
		if got.Verdict != x.want {
			w.Errorf("explain app %d %s: %+v, want %s", x.app, x.args, got, x.want)
		}
	}
}

// When the uplink of two networks of one subnet fails, both leave it: known flows begin anew, also in the kernel's
// table, and nothing is mixed up before, meanwhile or after.
func TestNetworksOfOneSubnetLeaveAnUplink(t *testing.T) {
	t.Parallel()
	w, nets, apps := newNATSubnets(t, nil, "uplink", "uplink", "uplink")
	for i := range nets[:3] {
		nets[i] += "    probe: {holdMs: 500}\n"
	}
	nets[3] = strings.Replace(nets[3], "port: wan", "port: uplink\n    probe: {holdMs: 500}", 1)
	w.apply(twoUplinks(nets, apps))
	for n := 1; n <= 4; n++ {
		w.wait("ready", "ni/"+ni(n))
	}
	all := []int{1, 2, 3, 4}
	known, tcp := w.opens("udp4", "4500", lab.WebAddr+":"+mirrorPort, all...), w.opens("tcp4", "4501", lab.WebAddr+":80", all...)
	by := func(why, node string) {
		t.Helper()
		for _, n := range all {
			w.eventually(fmt.Sprintf("%s: network %d by %s", why, n, node), func() bool {
				from, err := echoed(known[n], fmt.Sprint(why, " of network ", n))
				if err != nil {
					t.Errorf("network %d: %v", n, err)
				}
				return strings.HasPrefix(from, node+":")
			})
		}
	}
	by("at first", lab.NodeAt)
	w.breakUplink(0, lab.FarSideDead)
	by("after the failure", lab.NodeAt2)
	for _, n := range all { // edgespan ends what can't go on
		_ = tcp[n].SetReadDeadline(time.Now().Add(timeout))
		if _, err := tcp[n].Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) || isTimeout(err) {
			t.Errorf("network %d: the connection by the dead uplink: %v", n, err)
		}
	}
	w.sameTuples(4502, map[int]string{1: lab.NodeAt2, 2: lab.NodeAt2, 3: lab.NodeAt2, 4: lab.NodeAt2})
	w.errorsReturn(all...)
	w.repairUplink(0, lab.FarSideDead)
	by("after the repair", lab.NodeAt)
	w.sameTuples(4503, map[int]string{1: lab.NodeAt, 2: lab.NodeAt, 3: lab.NodeAt, 4: lab.NodeAt})
	w.noneStrays()
}

func isTimeout(err error) bool {
	fault := net.Error(nil)
	return errors.As(err, &fault) && fault.Timeout()
}

// fragment returns a part of the payload of an IPv4 packet that is sent in several: it begins at a multiple of 8 bytes.
func fragment(src, dst netip.Addr, proto byte, id uint16, at int, more bool, payload []byte) []byte {
	p := ipv4(src, dst, proto, payload)
	wire.BigEndian.PutUint16(p[4:], id)
	flags := uint16(at / 8)
	if more {
		flags |= 0x2000
	}
	wire.BigEndian.PutUint16(p[6:], flags)
	p[10], p[11] = 0, 0
	wire.BigEndian.PutUint16(p[10:], checksum(p[:20]))
	return p
}

// An app whose network has no spoof guard knows what an app with its address sends in another network of its subnet, and
// from which port of the node. What it sends, under any address, reaches no app of the other network, and no flow of it.
func TestAnAppHarmsNoNetworkOfItsSubnetBehindNAT(t *testing.T) {
	t.Parallel()
	w, nets, apps := newNATSubnets(t, nil, "wan", "wan", "lte")
	nets[0] += "    spoofGuard: false\n"
	w.apply(twoUplinks(nets, apps))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	const forged, honest = "a forged packet", "an honest one"
	at := netip.MustParseAddr
	victim := w.opens("udp4", "4600", lab.WebAddr+":"+mirrorPort, 2)[2]
	var from string
	w.eventually("a flow of network 2", func() bool {
		seen, err := echoed(victim, "x")
		from = seen
		return err == nil && from != ""
	})
	node := netip.MustParseAddrPort(from)
	others := []*sniffer{w.sniff("b1", "eth0", forged)} // nothing is for it, under any address
	for n := 2; n <= 4; n++ {
		others = append(others, w.sniff(fmt.Sprint("a", n), "eth0", forged, honest), w.sniff(fmt.Sprint("b", n), "eth0", forged,
			honest))
	}
	b2, a1 := others[2], w.raw("a1")
	uplink := w.sniff("isp", w.Provider(0).Peer, forged, honest)
	loops := append(w.steady(2, 3, 4), w.outward(2, 3, 4)...)
	flow(t, w, loops...)

	bridge, own := w.mac("node", fmt.Sprint("es", w.numberOf(1))), w.mac("a1", "eth0")
	hostSide := w.mac("node", fmt.Sprint("es", w.numberOf(1), "a1"))
	send := func(to net.HardwareAddr, packet []byte) {
		if err := a1.send(ether(to, own, etherIPv4, packet)); err != nil {
			t.Fatal(err)
		}
	}
	about := func(mark string) []byte {
		return unreachable(ipv4(node.Addr(), webAddr, 17, udp(node.Port(), 4444, []byte(mark))))
	}
	answer := udp(4444, node.Port(), []byte(forged))
	sources := []string{"10.7.0.5", "10.7.0.6", "10.7.0.1", lab.WebAddr, lab.NodeAt, lab.NodeAt2, "192.0.2.1"}
	targets := []string{lab.NodeAt, lab.NodeAt2, "10.7.0.1"}
	for n := 1; n <= 3; n++ {
		answers := netip.AddrFrom4([4]byte{169, 254, 0, byte(w.numberOf(n))}).String()
		sources, targets = append(sources, answers), append(targets, answers)
	}
	for range 3 {
		for _, src := range sources {
			for _, dst := range targets {
				for _, to := range []net.HardwareAddr{bridge, hostSide} {
					send(to, ipv4(at(src), at(dst), 1, about(forged)))
					send(to, ipv4(at(src), at(dst), 17, answer))
				}
			}
			// In the name of the flow: by another way into the node than the bridge's own address, too.
			send(hostSide, ipv4(at(src), webAddr, 17, udp(node.Port(), 4444, []byte(forged))))
		}
	}
	// The rest of a packet whose first part the other app sends.
	whole := udp(4601, 4444, append(slices.Repeat([]byte("."), 24), honest...))
	b2wire, b2mac, other := w.raw("b2"), w.mac("b2", "eth0"), w.mac("node", fmt.Sprint("es", w.numberOf(2)))
	part := func(id uint16, at0 int, more bool, payload []byte) []byte {
		return fragment(at("10.7.0.6"), webAddr, 17, id, at0, more, payload)
	}
	b2sends := func(packet []byte) {
		if err := b2wire.send(ether(other, b2mac, etherIPv4, packet)); err != nil {
			t.Fatal(err)
		}
	}
	const inParts = 3
	for id := range uint16(inParts) {
		b2sends(part(id, 0, true, whole[:32]))
		send(bridge, part(id, 32, false, []byte(forged + "   ")[:len(whole)-32]))
		b2sends(part(id, 32, false, whole[32:]))
	}
	// Each leaves, is sent back, and no app gets it, which the app says.
	w.eventually("packets in parts", func() bool { return uplink.count(honest) == 3*inParts })
	flow(t, w, loops...)
	if seen, err := echoed(victim, "still there"); err != nil || seen != from {
		t.Errorf("the flow of network 2 leaves from %s, was %s: %v", seen, from, err)
	}
	// The test sees what arrives: an error from where the flow leads.
	isp := w.rawOn("isp", w.Provider(0).Peer)
	back := ether(w.mac("node", w.Provider(0).Dev), w.mac("isp", w.Provider(0).Peer), etherIPv4,
		ipv4(webAddr, node.Addr(), 1, about(honest)))
	w.eventually("an error about the flow", func() bool { return isp.send(back) == nil && b2.count(honest) > 0 })
	for i, s := range others {
		if n := s.count(forged); n > 0 {
			t.Errorf("sniffer %d of the other apps got %d forged packets", i, n)
		}
	}
	if n := uplink.count(forged); n > 0 {
		t.Errorf("%d forged packets leave by the uplink", n)
	}
	w.unharmed("a hostile app", loops)
}
