package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"edgespan/platform/lab"
)

const (
	wan2 = "ports:\n  wan: {ifName: uplink0, uplink: true, dnsServers: 198.51.100.53}\n" +
		"  lte: {ifName: uplink1, uplink: true, cost: 10, dnsServers: 198.51.100.53}\n"
)

// byUplinks returns a config with network 1, which may use both uplinks, and app 1 on it.
func byUplinks(ports string) string {
	n := strings.Replace(network(1, ""), "port: wan", "port: uplink\n    probe: {holdMs: 500}", 1)
	return ports + "networkInstances:\n" + n + "appNetworks:\n" + onNet(1, 1, "web", allowAll)
}

// leaves waits until app 1's packets leave the node by an uplink with this address, and its DNS queries go to the
// provider there.
func (w *world) leaves(why, label, at, provider string) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s: out by %s", why, label), func() bool {
		r, err := w.Exec(w.ctx, "web", "curl", "-sS", "-m", "1", "http://"+lab.WebAddr+"/")
		return err == nil && r.Code == 0 && strings.Contains(r.Out, "you are "+at+":")
	})
	w.eventually(fmt.Sprintf("%s: DNS of %s", why, label), func() bool {
		r, err := w.Exec(w.ctx, "web", "dig", "+short", "+tries=1", "+time=1", "@10.1.0.1", lab.ProviderName)
		return err == nil && strings.TrimSpace(r.Out) == provider
	})
	w.wait("ready", "ni/"+ni(1))
	w.eventually(fmt.Sprintf("%s: status of %s", why, label), func() bool { // published once all of it is applied
		s := w.status("ni", ni(1))
		return s["port"] == label && s["error"] == ""
	})
}

func (w *world) byWan(why string) { w.Helper(); w.leaves(why, "wan", lab.NodeAt, lab.Gateway) }
func (w *world) byLTE(why string) { w.Helper(); w.leaves(why, "lte", lab.NodeAt2, lab.Gateway2) }

// sh runs a line of shell on the node.
func (w *world) sh(line string) {
	w.Helper()
	w.in("node", "sh", "-ec", line)
}

// biggest checks that a packet of mtu bytes, and no larger one, leaves app 1 unfragmented.
func (w *world) biggest(mtu int) {
	w.Helper()
	const headers = 28 // of IPv4 and ICMP
	w.in("web", "ping", "-c1", "-W2", "-Mdo", fmt.Sprint("-s", mtu-headers), lab.WebAddr)
	w.fails("web", "ping", "-c1", "-W1", "-Mdo", fmt.Sprint("-s", mtu-headers+1), lab.WebAddr)
}

// A network leaves an uplink that is up and leads nowhere for one that leads out, and returns when the first does.
func TestANetworkLeavesAnUplinkThatLeadsNowhere(t *testing.T) {
	t.Parallel()
	for _, mtu := range [][2]int{{1500, 1420}, {1492, 1500}, {1420, 9000}, {9000, 1492}} {
		t.Run(fmt.Sprint("MTU ", mtu[0], " and ", mtu[1]), func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, lab.Options{Apps: []string{"web", "client"}, Second: true, MTU: mtu[0], MTU2: mtu[1]})
			w.start(byUplinks(wan2) + onNet(2, 1, "client", allowAll))
			w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
			w.lease("web")
			between, err := w.PingLoop("web", w.lease("client").IP, 20*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if err := between.WaitGood(w.ctx, 3); err != nil {
				t.Fatal(err)
			}
			w.byWan("both lead out")
			w.biggest(mtu[0])

			w.in("isp", "ip", "link", "set", "node0", "down")
			w.byLTE("no carrier")
			w.biggest(mtu[1])
			w.in("isp", "ip", "link", "set", "node0", "up")
			w.byWan("carrier")
			w.biggest(mtu[0])
			if c := between.Stop(); c.Lost+c.Wrong > 0 {
				t.Errorf("pings between the apps over the failover and back: %s", c)
			} else {
				t.Logf("pings between the apps: %s", c)
			}
			if mtu[0] != 1500 {
				return
			}

			w.sh("ip addr del 192.0.2.2/24 dev uplink0")
			w.byLTE("no address")
			w.says(func() string { return w.cli("explain", "ni/"+ni(1)) }, "uplink port lte via 203.0.113.1",
				"not port wan: uplink wan (uplink0) has no IPv4 address")
			w.sh("ip addr add 192.0.2.2/24 dev uplink0; ip route add default via 192.0.2.1 dev uplink0")
			w.byWan("address")

			w.sh("ip route del default dev uplink0")
			w.byLTE("no default route")
			w.says(func() string { return w.cli("get", "port") }, "uplink wan (uplink0) has no default route", "via 203.0.113.1")
			w.sh("ip route add default dev uplink0")
			w.byWan("a default route without gateway") // the provider answers ARP for the world
			w.says(func() string { return w.cli("get", "port") }, "without gateway")

			w.sh("ip addr flush dev uplink0; ip addr add 192.0.2.2/32 dev uplink0; ip route add default via 192.0.2.1 dev " +
				"uplink0 onlink")
			w.byWan("an address of /32 and a gateway on link")
			w.says(func() string { return w.cli("get", "port") }, "via 192.0.2.1 onlink")

			w.sh("ip route del default dev uplink0; ip route del default dev uplink1")
			w.eventually("no way out", func() bool {
				s := w.status("ni", ni(1))
				return s["state"] == "WaitingForDependencies" && // of the uplink that it had last
					(s["error"] == "uplink wan (uplink0) has no default route" ||
						s["error"] == "uplink lte (uplink1) has no default route")
			})
		})
	}
}

// pointToPoint gives the node a link without neighbours, like one of pppd, whose other end is the second provider's,
// and carries every packet between both.
func (w *world) pointToPoint(name string) {
	w.Helper()
	ends := map[string]int{}
	for _, ns := range []string{"node", "isp2"} {
		err := w.inside(ns, func() error {
			fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK, 0)
			if err != nil {
				return err
			}
			ends[ns] = fd
			req, err := unix.NewIfreq(name)
			if err != nil {
				return err
			}
			req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
			return unix.IoctlIfreq(fd, unix.TUNSETIFF, req)
		})
		if err != nil {
			w.Fatalf("make %s in %s: %v", name, ns, err)
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		carry(ends["node"], ends["isp2"], stop)
	}()
	w.Cleanup(func() {
		close(stop)
		<-stopped
		for _, fd := range ends {
			_ = unix.Close(fd)
		}
	})
}

// carry copies the packets of two tun devices to each other until stop.
func carry(a, b int, stop <-chan struct{}) {
	buf := make([]byte, 65536)
	for {
		select {
		case <-stop:
			return
		default:
		}
		fds := []unix.PollFd{{Fd: int32(a), Events: unix.POLLIN}, {Fd: int32(b), Events: unix.POLLIN}}
		_, _ = unix.Poll(fds, 50)
		for i, to := range []int{b, a} {
			if n, err := unix.Read(int(fds[i].Fd), buf); err == nil {
				_, _ = unix.Write(to, buf[:n])
			}
		}
	}
}

// The link of a modem has neither a gateway nor a subnet.
func TestAPointToPointLinkLeadsOut(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web"}, Second: true})
	w.sh("ip link set uplink1 down")
	w.start(byUplinks(strings.Replace(wan2, "uplink1", "ppp0", 1)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	w.byWan("no modem")
	w.pointToPoint("ppp0")
	w.in("isp2", "sh", "-ec",
		"ip link set node1 down; ip addr add 203.0.113.1 peer 203.0.113.2 dev ppp0; ip link set ppp0 up")
	w.sh("ip addr add 203.0.113.2 peer 203.0.113.1 dev ppp0; ip link set ppp0 up; ip route add default dev ppp0 metric 100")
	w.in("isp", "ip", "link", "set", "node0", "down")
	w.byLTE("the modem alone")
	w.in("isp", "ip", "link", "set", "node0", "up")
	w.byWan("both")
}

// A port's gateway is also the route of its networks' DNS, and of no other traffic of the host.
func TestThePortsGatewayIsTheWayOfItsDNS(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web", "two"}, Second: true})
	w.sh("ip route del default dev uplink1")
	w.in("isp2", "sysctl", "-qw", "net.ipv4.conf.node1.arp_ignore=1") // the world is no neighbour there
	const ports = "ports:\n  lte: {ifName: uplink1, uplink: true, gateway: 203.0.113.1, dnsServers: 198.51.100.53}\n"
	second := strings.Replace(network(2, ""), "port: wan", "port: uplink", 1)
	both := strings.Replace(byUplinks(ports), "appNetworks:\n", second+"appNetworks:\n", 1) + onNet(2, 2, "two", allowAll)
	w.start(both)
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
	w.lease("web")
	w.lease("two")
	w.byLTE("by its gateway")
	asks := func(transport string) {
		t.Helper()
		w.eventually("DNS of the second network by "+transport, func() bool {
			r, err := w.Exec(w.ctx, "two", "dig", transport, "+short", "+tries=1", "+time=1", "@10.2.0.1", lab.ProviderName)
			return err == nil && strings.TrimSpace(r.Out) == lab.Gateway2
		})
	}
	asks("+notcp")
	asks("+tcp")
	// The host's own traffic takes its old route, whether it is bound to the port or not.
	if got := w.in("node", "ip", "route", "get", lab.WebAddr); !strings.Contains(got, "via 192.0.2.1 dev uplink0") {
		t.Errorf("the host's way is %s", got)
	}
	w.fails("node", "curl", "-sS", "-m", "1", "--interface", "uplink1", "http://"+lab.WebAddr+"/")
	// Each network has its own rule: the second one's is kept without the first.
	w.apply(strings.Replace(ports+"networkInstances:\n"+second+"appNetworks:\n"+onNet(2, 2, "two", allowAll), "\n\n", "\n",
		1))
	w.wait("absent", "ni/"+ni(1))
	asks("+notcp")
	if got := w.in("node", "ip", "rule", "show", "oif", "uplink1"); strings.Count(got, "\n") != 0 ||
		!strings.Contains(got, "dport 53") {
		t.Errorf("the rules are\n%s", got)
	}
}

// Without a configured server, a network uses the servers that the host has learnt for the uplink, and reports if
// there are none.
func TestANetworkAsksTheServersThatTheHostHasLearnt(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web"}, Second: true})
	w.start(byUplinks(strings.ReplaceAll(wan2, ", dnsServers: 198.51.100.53", "")))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	const nobody = "no DNS server: dns.servers and ports.wan.dnsServers are empty, and none was learned from uplink0"
	if s := w.status("ni", ni(1)); s["state"] != "Present" || s["warning"] != nobody {
		t.Errorf("without any server: %v", s)
	}
	w.says(func() string { return w.cli("explain", "ni/"+ni(1)) }, "warning: "+nobody)
	w.says(func() string { return w.cli("doctor") }, "no DNS server")
	pid := w.dnsmasq()
	index := func(dev string) string { return w.in("node", "cat", "/sys/class/net/"+dev+"/ifindex") }
	files := map[string]string{
		"run/systemd/netif/links/" + index("uplink0"): "# This is private data. Do not parse.\nDNS=" + lab.DNSAddr + "\n",
		"etc/resolv.conf": "nameserver 127.0.0.53\nnameserver " + lab.DNSAddr + "\n",
	}
	write := func(path string) {
		t.Helper()
		p := filepath.Join(w.ResolverRoot(), path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(files[path]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	networkd := "run/systemd/netif/links/" + index("uplink0")
	write(networkd)
	w.byWan("systemd-networkd has learnt a server")
	w.says(func() string { return w.cli("get", "port", "-o", "wide") }, "systemd-networkd (/"+networkd+")", lab.DNSAddr)
	if s := w.status("ni", ni(1)); s["warning"] != "" {
		t.Errorf("with a server: %v", s)
	}
	// A restart never removes a server, not even for a moment.
	before := w.folder()
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	if now := w.folder(); now != before {
		t.Errorf("the run folder was\n%s\nand is\n%s", before, now)
	}
	// The servers of the whole host are used through the uplink of its default route.
	if err := os.Remove(filepath.Join(w.ResolverRoot(), networkd)); err != nil {
		t.Fatal(err)
	}
	write("etc/resolv.conf")
	w.says(func() string { return w.cli("get", "port", "-o", "wide") }, "resolv.conf (/etc/resolv.conf)",
		"server 127.0.0.53 is the host itself")
	w.byWan("resolv.conf names a server")
	w.sh("ip route del default dev uplink0")
	w.byLTE("its way is the other uplink now")
	if now := w.dnsmasq(); now != pid {
		t.Errorf("dnsmasq was %s and is %s", pid, now)
	}
}
