package scenario

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// whoami makes a namespace answer each client with the client's address, on TCP or UDP, and with its own name.
func (w *world) whoami(short, network, addr string) {
	w.Helper()
	var closer interface{ Close() error }
	var serving sync.WaitGroup
	err := w.inside(short, func() error {
		if network == "udp4" {
			pc, err := net.ListenPacket(network, addr)
			if err != nil {
				return err
			}
			closer = pc
			serving.Go(func() {
				for {
					_, from, err := pc.ReadFrom(make([]byte, 64))
					if errors.Is(err, net.ErrClosed) {
						return
					}
					if err == nil {
						_, _ = pc.WriteTo([]byte(short+" "+netip.MustParseAddrPort(from.String()).Addr().String()), from)
					}
				}
			})
			return nil
		}
		l, err := net.Listen(network, addr)
		if err != nil {
			return err
		}
		closer = l
		serving.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte(short + " " + netip.MustParseAddrPort(c.RemoteAddr().String()).Addr().String()))
				_ = c.Close()
			}
		})
		return nil
	})
	if err != nil {
		w.Fatalf("listen on %s in %s: %v", addr, short, err)
	}
	w.Cleanup(func() { _ = closer.Close(); serving.Wait() })
}

// asks returns what a whoami server answers: its name and the address from which it was asked.
func (w *world) asks(short, network, from, to string) string {
	w.Helper()
	c, err := w.dial(short, network, from, to, denial)
	if err != nil {
		if fault := net.Error(nil); errors.As(err, &fault) && fault.Timeout() {
			return silence
		}
		return err.Error()
	}
	defer func() { _ = c.Close() }()
	return w.heard(c)
}

// heard returns the answer on a connection; a packet of UDP asks for it first.
func (w *world) heard(c net.Conn) string {
	w.Helper()
	buf := make([]byte, 64)
	if c.LocalAddr().Network() == "udp" {
		_ = c.SetDeadline(time.Now().Add(denial))
		_, _ = c.Write([]byte("who am I?"))
	} else {
		_ = c.SetDeadline(time.Now().Add(timeout))
	}
	n, err := c.Read(buf)
	if err != nil {
		return silence
	}
	return string(buf[:n])
}

func portmapRule(name, match, ports string) string {
	return fmt.Sprintf("%s: {action: portmap, portmap: {%s}, match: {%s}}", name, ports, match)
}

// The port of the node leads to the app, from outside, from its own network and from the node, and nothing else does.
func TestAPortMapLeadsToTheApp(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, env []string) {
		t.Parallel()
		w := newWorld(t, "web", "client")
		nets := []string{network(1, "")}
		client := onNet(2, 1, "client", allowAll)
		mapped := func(rules ...string) string { return onNet(1, 1, "web", strings.Join(rules, ", ")) }
		maps := []string{
			"a: {action: drop, direction: ingress, match: {ip: 203.0.113.9}}",
			portmapRule("b", "protocol: tcp", "port: 8080, targetPort: 80"),
			portmapRule("c", "protocol: udp", "port: 8080, targetPort: 53"),
			portmapRule("d", "protocol: tcp", `port: "9000-9002", targetPort: "7000-7002"`),
			portmapRule("e", "protocol: tcp, ip: 198.51.100.80", "port: 81"),
		}
		w.start(doc(nets, mapped(maps...), client), env...)
		w.wait("ready", "app/"+app(1), "app/"+app(2))
		w.lease("web")
		w.lease("client")
		w.in("isp", "ip", "route", "add", "10.1.0.0/24", "via", lab.NodeAt)
		w.in("isp", "ip", "addr", "add", "203.0.113.9/32", "dev", "lo")
		for _, port := range []string{"80", "81", "7000", "7001", "7002", "7003", "22"} {
			w.whoami("web", "tcp4", webIP+":"+port)
		}
		w.whoami("web", "udp4", webIP+":53")
		const node = lab.NodeAt + ":"
		for _, x := range []struct{ why, short, network, from, to, want string }{
			{"from outside", "isp", "tcp4", "", node + "8080", "web 192.0.2.1"},
			{"from outside over UDP", "isp", "udp4", "", node + "8080", "web 192.0.2.1"},
			{"the last of a range", "isp", "tcp4", "", node + "9002", "web 192.0.2.1"},
			{"from the same network", "client", "tcp4", "", node + "8080", "web 10.1.0.1"},
			{"from the same network over UDP", "client", "udp4", "", node + "8080", "web 10.1.0.1"},
			{"a range from the same network", "client", "tcp4", "", node + "9001", "web 10.1.0.1"},
			{"from the node", "node", "tcp4", "", node + "8080", "web 192.0.2.2"},
			{"a client that the map names", "isp", "tcp4", lab.WebAddr + ":0", node + "81", "web 198.51.100.80"},
			{"a client that a rule before it drops", "isp", "tcp4", "203.0.113.9:0", node + "8080", silence},
			{"not the map, but its target", "isp", "tcp4", "", webIP + ":80", silence},
			{"the target, from the same network", "client", "tcp4", "", webIP + ":80", silence},
			{"a port beside the range's targets", "isp", "tcp4", "", webIP + ":7003", silence},
		} {
			if got := w.asks(x.short, x.network, x.from, x.to); got != x.want {
				t.Errorf("%s: %s asks %s over %s and hears %q, want %q", x.why, x.short, x.to, x.network, got, x.want)
			}
		}
		for _, x := range []struct{ why, to string }{
			{"a client that the map does not name", node + "81"}, {"beside a range", node + "9003"},
		} {
			if got := w.asks("isp", "tcp4", "", x.to); !strings.Contains(got, "refused") {
				t.Errorf("%s: %q, want the node's refusal", x.why, got)
			}
		}

		// Another target, then none: TCP begins anew by itself, and UDP with the same two ports follows.
		udp, err := w.dial("isp", "udp4", "192.0.2.1:4444", node+"8080", timeout)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = udp.Close() }()
		if got := w.heard(udp); got != "web 192.0.2.1" {
			t.Errorf("the first target: %q", got)
		}
		w.whoami("client", "udp4", clientIP+":54")
		w.obey(nets, mapped(maps[1]), onNet(2, 1, "client", portmapRule("a", "protocol: udp", "port: 8080, targetPort: 54")))
		if got := w.heard(udp); got != "client 192.0.2.1" {
			t.Errorf("after the map has moved to another app: %q", got)
		}
		w.whoami("node", "udp4", node+"8080")
		w.obey(nets, mapped(maps[1]), client)
		if got := w.heard(udp); got != "node 192.0.2.1" {
			t.Errorf("after the map is gone: %q", got)
		}
		w.obey(nets, mapped(maps...), client)
		if got := w.heard(udp); got != "web 192.0.2.1" {
			t.Errorf("after the map is back: %q", got)
		}
		if left := w.in("node", "conntrack", "-L", "-p", "udp", "--orig-port-src", "4444"); strings.Count(left, "4444") > 2 {
			t.Errorf("more than one flow is tracked: %s", left)
		}
	})
}

// An app of another network reaches the app by its map, under its own address, and by no other way: not without its own
// rule of egress, not the app's address, and not an app without a map. A flood of it is bounded by the app's limit.
func TestAPortMapIsTheWayAcrossNetworks(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, env []string) {
		t.Parallel()
		w := newWorld(t, "web", "client", "guest", "mute")
		nets := []string{network(1, ""), network(2, "")}
		if env != nil {
			for n := 3; n < 7; n++ { // so many that the node has a tree of policy rules
				nets = append(nets, network(n, ""))
			}
		}
		maps := portmapRule("a", "protocol: tcp", "port: 8080, targetPort: 80") + ", " +
			portmapRule("b", "protocol: udp", "port: 8080, targetPort: 53") + ", " +
			portmapRule("c", "protocol: tcp, ip: 10.2.0.0/24", "port: 8081, targetPort: 80")
		apps := func(first, third string) []string {
			return []string{onNet(1, 1, "web", first), onNet(2, 1, "client", allowAll), onNet(3, 2, "guest", third),
				onNet(4, 2, "mute", "")}
		}
		w.start(doc(nets, apps(maps, allowAll)...), env...)
		w.wait("ready", "app/"+app(1), "app/"+app(2), "app/"+app(3), "app/"+app(4))
		for _, a := range []string{"web", "client", "guest", "mute"} {
			w.lease(a)
		}
		w.whoami("web", "tcp4", webIP+":80")
		w.whoami("web", "udp4", webIP+":53")
		w.whoami("client", "tcp4", clientIP+":80")
		w.echo("web", "tcp4", webIP+":7")
		const node, guest = lab.NodeAt + ":", "web " + guestIP
		for _, x := range []struct{ why, short, network, to, want string }{
			{"across", "guest", "tcp4", node + "8080", guest},
			{"across over UDP", "guest", "udp4", node + "8080", guest},
			{"a map for the other network", "guest", "tcp4", node + "8081", guest},
			{"the app's own address", "guest", "tcp4", webIP + ":80", silence},
			{"an app without a map", "guest", "tcp4", clientIP + ":80", silence},
			{"an app that may send nothing", "mute", "tcp4", node + "8080", silence},
			{"from outside", "isp", "tcp4", node + "8080", "web 192.0.2.1"},
			{"from the same network", "client", "tcp4", node + "8080", "web 10.1.0.1"},
			{"from the other network to the world", "guest", "tcp4", lab.WebAddr + ":80", ""},
		} {
			if x.want == "" {
				if code := w.fetch(x.short, "80", timeout); code != fetched {
					t.Errorf("%s: curl ends with %d", x.why, code)
				}
			} else if got := w.asks(x.short, x.network, "", x.to); got != x.want {
				t.Errorf("%s: %s asks %s over %s and hears %q, want %q", x.why, x.short, x.to, x.network, got, x.want)
			}
		}

		// A long connection lives on while rules allow it, and ends with the map.
		w.obey(nets, apps(portmapRule("a", "protocol: tcp", "port: 8080, targetPort: 7"), allowAll)...)
		c, err := w.dial("guest", "tcp4", "", node+"8080", timeout)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		for range 3 {
			if err := say(c, timeout); err != nil {
				t.Errorf("a connection across: %v", err)
			}
		}
		w.obey(nets, apps("", allowAll)...)
		if err := say(c, denial); err == nil {
			t.Error("a connection across lives on without its map")
		}
		if rules := w.in("node", "ip", "rule"); strings.Contains(rules, "fwmark") {
			t.Errorf("without any map, a rule for them stays: %s", rules)
		}
	})
}

// A map goes with the address of its port, comes back with it, and moves with the address.
func TestAPortMapFollowsItsPort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", portmapRule("a", "protocol: tcp", "port: 8080, targetPort: 80"))))
	w.wait("ready", "app/"+app(1))
	w.lease("web")
	w.whoami("web", "tcp4", webIP+":80")
	meets := func(why, addr, want string) {
		t.Helper()
		w.eventually(why, func() bool { return w.asks("isp", "tcp4", "", addr+":8080") == want })
	}
	maps := func() string { return w.in("node", "iptables", "-t", "nat", "-S", "ES1-MAP") }
	meets("at first", lab.NodeAt, "web 192.0.2.1")
	w.in("node", "ip", "link", "set", lab.Uplink, "down")
	w.eventually("no map without the port", func() bool { return !strings.Contains(maps(), "DNAT") })
	w.in("node", "ip", "link", "set", lab.Uplink, "up")
	meets("with the port again", lab.NodeAt, "web 192.0.2.1")
	w.in("node", "ip", "addr", "add", "192.0.2.77/24", "dev", lab.Uplink)
	meets("at a second address", "192.0.2.77", "web 192.0.2.1")
	w.in("node", "ip", "addr", "del", "192.0.2.77/24", "dev", lab.Uplink)
	w.eventually("no map at an address that is gone", func() bool { return !strings.Contains(maps(), "192.0.2.77") })
	meets("at the first address", lab.NodeAt, "web 192.0.2.1")
}

// As an operator I am told by the doctor that a port map takes the port of a program of the node.
func TestTheDoctorFindsAProgramWhosePortIsMapped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "web", "ssh: {action: portmap, match: {protocol: tcp}, portmap: "+
		"{port: 2222, targetPort: 22}}")))
	w.wait("ready", "app/"+app(1))
	w.whoami("node", "tcp4", "127.0.0.1:2222") // which no map takes
	w.whoami("node", "tcp4", "0.0.0.0:2223")
	if out := w.cli("doctor"); strings.Contains(out, "port 2222") || !strings.Contains(out, "no port map takes the port") {
		t.Errorf("without such a program:\n%s", out)
	}
	w.whoami("node", "tcp4", lab.NodeAt+":2222")
	w.says(func() string { return w.cli("doctor") }, "scenario.test (",
		"listens on tcp port 2222 of "+lab.NodeAt+", which appNetworks."+app(1)+".adapters.0.acl.ssh leads to an app")
}

// A map with a label of a port stands at that port alone, of those that the network uses. Answers go by the network's
// routes: at the port of a static route, clients of its destination are answered.
func TestAPortMapOfALabelStandsAtItsPortAlone(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web"}, Second: true})
	nets := []string{network(1, "    routes: {far: {destination: 100.90.0.0/16, gateway: "+lab.Gateway2+", port: lte}}\n")}
	const lte = "  lte: {ifName: uplink1, labels: shop, uplink: true, cost: 10, dnsServers: 198.51.100.53}\n"
	mapped := func(match string) string {
		return strings.Replace(doc(nets, onNet(1, 1, "web", portmapRule("a", "protocol: tcp"+match,
			"port: 8080, targetPort: 80"))), wan, wan+lte, 1)
	}
	w.start(mapped(", portLabel: shop"))
	w.wait("ready", "app/"+app(1))
	w.lease("web")
	w.whoami("web", "tcp4", webIP+":80")
	const far = "100.90.0.1"
	w.in("isp2", "ip", "addr", "add", far+"/32", "dev", "lo")
	w.in("node", "ip", "route", "add", far+"/32", "via", lab.Gateway2) // for the node's own refusal
	for _, x := range []struct{ match, first, second string }{
		{", portLabel: shop", "refused", "web " + far},
		{", portLabel: wan", "web 192.0.2.1", "refused"},
		{"", "web 192.0.2.1", "web " + far},
	} {
		w.apply(mapped(x.match))
		w.wait("ready", "app/"+app(1))
		for _, at := range []struct{ short, from, addr, want string }{{"isp", "", lab.NodeAt, x.first},
			{"isp2", far + ":0", lab.NodeAt2, x.second}} {
			if got := w.asks(at.short, "tcp4", at.from, at.addr+":8080"); !strings.Contains(got, at.want) {
				t.Errorf("map%s: %s asks %s and hears %q, want %q", x.match, at.short, at.addr, got, at.want)
			}
		}
	}
}
