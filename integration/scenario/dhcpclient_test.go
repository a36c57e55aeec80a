package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"edgespan/platform/lab"
)

const dhcpPort = "ports:\n  wan: {ifName: uplink0, uplink: true, addressing: dhcp}\n"

// dhcpProvider runs a DHCP server at the provider of the first uplink: it leases the node's usual address for two
// minutes, to be renewed after 5 s. It returns what stops it, and how often its log has a word.
func (w *world) dhcpProvider() (stop func(), count func(word string) int) {
	w.Helper()
	dir := w.TempDir()
	log := filepath.Join(dir, "log")
	cmd := w.Command(w.ctx, "isp", "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--port=0",
		"--interface=node0", "--bind-interfaces", "--dhcp-authoritative", "--no-ping", "--log-dhcp", "--log-facility="+log,
		"--dhcp-range="+lab.NodeAt+","+lab.NodeAt+",255.255.255.0,2m", "--dhcp-leasefile="+filepath.Join(dir, "leases"),
		"--pid-file="+filepath.Join(dir, "pid"), "--dhcp-option=3,"+lab.Gateway, "--dhcp-option=6,"+lab.DNSAddr,
		"--dhcp-option=26,1400", "--dhcp-option=58,5", "--dhcp-option=59,60")
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	w.Cleanup(stop)
	return stop, func(word string) int {
		b, _ := os.ReadFile(log) // none before its first line
		return strings.Count(string(b), word)
	}
}

// A node gets its uplink's address, default route, DNS server and MTU from its provider's DHCP server, renews the lease
// without a lost packet, also over a stop and a kill, keeps it while the server is away, and gives it back with the
// config.
func TestANodeLeasesTheAddressOfItsUplink(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web"}, Second: true})
	stop, count := w.dhcpProvider()
	w.sh("ip addr flush dev uplink0; ip link set uplink0 down; ip addr flush dev uplink1")
	w.start(byUplinks(dhcpPort))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	w.byWan("leased")
	const route = "default via 192.0.2.1 dev uplink0 proto 101 metric 1000"
	if got := w.defaultRoutes(); got != route {
		t.Errorf("the default routes are %s", got)
	}
	w.says(func() string { return w.cli("get", "port", "-o", "wide") }, "DHCP (server 192.0.2.1)", lab.DNSAddr)
	w.biggest(1400)

	looked := count("DHCPDISCOVER")
	pings := w.pingOut("web", "node")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		flow(t, w, pings...)
		if err := w.node.Signal(signal); err != nil {
			t.Fatal(err)
		}
		<-w.node.Ended()
		flow(t, w, pings...)
		acks := count("DHCPACK")
		w.restart()
		w.wait("ready", "ni/"+ni(1), "app/"+app(1))
		w.eventually("the lease is confirmed after the start, and then renewed", func() bool {
			return count("DHCPACK") >= acks+2
		})
	}
	if got := count("DHCPDISCOVER"); got != looked {
		t.Errorf("%d DHCPDISCOVER after %d: a restart confirms the lease", got, looked)
	}
	stop()
	w.eventually("a renewal is not answered", func() bool {
		flow(t, w, pings...)
		return strings.Contains(w.defaultRoutes(), route)
	})
	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	flow(t, w, pings...)
	for i, who := range []string{"an app", "the node"} {
		if c := pings[i].Stop(); c.Lost+c.Wrong > 0 {
			t.Errorf("%s, over restarts, renewals and without the server: %s", who, c)
		} else {
			t.Logf("%s, over restarts, renewals and without the server: %s", who, c)
		}
	}

	_, count = w.dhcpProvider()
	w.sh("ip addr flush dev uplink0")
	w.eventually("what others remove is set again", func() bool { return w.defaultRoutes() == route })
	w.byWan("set again")
	w.apply(byUplinks("ports:\n  wan: {ifName: uplink0, uplink: true}\n"))
	w.eventually("the lease is given back", func() bool { return count("DHCPRELEASE") == 1 && w.defaultRoutes() == "" })
	w.eventually("the address is gone", func() bool {
		return strings.TrimSpace(w.in("node", "ip", "-4", "-o", "addr", "show", "dev", "uplink0")) == ""
	})
}

// A node whose uplink leads to another network by now gets an address there, and loses the former one. If it is in the
// subnet of a network of the node, as of a server that wants to disturb, that network is withdrawn, and says why.
func TestALeaseOfAnotherNetworkIsRefusedAndReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop, _ := w.dhcpProvider()
	w.sh("ip addr flush dev uplink0; ip link set uplink0 down")
	w.start(strings.Replace(doc([]string{network(1, "")}), wan, dhcpPort, 1))
	w.wait("ready", "ni/"+ni(1))
	has := func(address string) func() bool {
		return func() bool {
			out := w.in("node", "ip", "-4", "-o", "addr", "show", "dev", "uplink0")
			return strings.Count(out, "inet ") == 1 && strings.Contains(out, address)
		}
	}
	w.eventually("the first lease", has("192.0.2.2/24"))
	stop()
	w.in("isp", "ip", "link", "set", "node0", "down")
	w.says(func() string { return w.cli("get", "port") }, "uplink0 is down")
	w.in("isp", "ip", "addr", "replace", "10.1.0.65/26", "dev", "node0")
	dir := w.TempDir()
	cmd := w.Command(w.ctx, "isp", "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--port=0",
		"--interface=node0", "--bind-dynamic", "--dhcp-authoritative", "--no-ping",
		"--dhcp-range=10.1.0.77,10.1.0.77,255.255.255.192,2m",
		"--dhcp-leasefile="+filepath.Join(dir, "leases"), "--pid-file="+filepath.Join(dir, "pid"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	w.in("isp", "ip", "addr", "del", "192.0.2.1/24", "dev", "node0")
	w.in("isp", "ip", "link", "set", "node0", "up")
	w.eventually("the lease of the other network", has("10.1.0.77/26"))
	w.says(func() string { return w.cli("explain", "ni/"+ni(1)) }, "10.1.0.77/26", "uplink0")
}
