package scenario

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"edgespan/netinst"
)

// What the provider of the tests' IPv6 has: the prefix of the uplink, which the node learns from it, and a web server.
const (
	isp6Prefix = "2001:db8:99::/64"
	isp6Web    = "2001:db8:1::80"
	net6       = "2001:db8:7:1::/64"
)

// newWorld6 is newWorld with a provider that has IPv6 and advertises itself.
func newWorld6(t testing.TB, apps ...string) *world {
	t.Helper()
	w := newWorld(t, apps...)
	w.provide6(0)
	return w
}

// provide6 gives a provider IPv6: uplink n has the prefix 2001:db8:(99-n)::/64.
func (w *world) provide6(n int) {
	w.Helper()
	if !hasIPv6() {
		w.Skip("skipped: the kernel has no IPv6")
	}
	isp, peer, prefix := w.Provider(n).Short, w.Provider(n).Peer, fmt.Sprintf("2001:db8:%d::", 99-n)
	w.in(isp, "sysctl", "-qw", "net.ipv6.conf.all.forwarding=1", "net.ipv6.conf.all.keep_addr_on_down=1")
	w.in(isp, "ip", "addr", "add", prefix+"1/64", "dev", peer, "nodad")
	w.in(isp, "ip", "addr", "add", isp6Web+"/128", "dev", "lo", "nodad")
	if err := w.HTTPServer(w.ctx, isp, "["+isp6Web+"]:80", "hello over IPv6"); err != nil {
		w.Fatal(err)
	}
	conf := filepath.Join(w.TempDir(), "router.conf")
	text := "port=0\nlog-facility=-\npid-file=\ndhcp-leasefile=" + conf + ".leases\nuser=root\nbind-interfaces\ninterface=" +
		peer + "\nenable-ra\ndhcp-range=" + prefix + ",ra-only\nra-param=" + peer + ",4,1800\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	w.background(isp, "dnsmasq", "--keep-in-foreground", "--conf-file="+conf)
	w.eventually("the uplink's default route", func() bool {
		return strings.Contains(w.in("node", "ip", "-6", "route", "show", "default", "dev", w.Provider(n).Dev), "proto ra")
	})
}

func hasIPv6() bool {
	_, err := os.Stat("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	return err == nil
}

// background starts a command that ends with the test.
func (w *world) background(short string, argv ...string) *exec.Cmd {
	w.Helper()
	cmd := w.Command(w.ctx, short, argv...)
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// network6 is network with IPv6.
func network6(n int, six string) string { return network(n, "    ipv6: {"+six+"}\n") }

// slaac lets an app configure its addresses, and returns the one of a prefix.
func (w *world) slaac(short, prefix string) netip.Addr {
	w.Helper()
	w.in(short, "ip", "link", "set", "eth0", "up")
	want := netinst.EUI64(netip.MustParsePrefix(prefix), w.mac(short, "eth0").String())
	w.eventually("the address of "+short, func() bool {
		text := w.in(short, "ip", "-6", "-o", "addr", "show", "dev", "eth0", "scope", "global", "-tentative")
		return strings.Contains(text, want.String()+"/64")
	})
	return want
}

func (w *world) reaches6(short, to string) {
	w.Helper()
	w.in(short, "ping", "-6", "-c", "1", "-W", "5", to)
}

func (w *world) misses6(short, to string) {
	w.Helper()
	w.fails(short, "ping", "-6", "-c", "1", "-W", "1", to)
}

// As a user I give my network a prefix, and my apps have IPv6 without any configuration of their own.
func TestIPv6AppsReachTheWorldBySLAAC(t *testing.T) {
	t.Parallel()
	w := newWorld6(t, "web", "client", "alone")
	gateway := strings.Split(net6, "/")[0] + "1"
	apps := []string{onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll),
		onNet(3, 1, "alone", `web: {action: allow, match: {ip: "`+isp6Web+`", protocol: tcp, port: 80}}`)}
	w.start(doc([]string{network6(1, `subnet: "`+net6+`", nat: true`)}, apps...))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2), "app/"+app(3))
	web, client := w.slaac("web", net6), w.slaac("client", net6)
	w.slaac("alone", net6)

	for what, to := range map[string]string{"gateway": gateway, "gateway's link": "fe80::1%eth0", "other app": client.String(),
		"world": isp6Web} {
		t.Log(what)
		w.reaches6("web", to)
	}
	if got := w.in("web", "curl", "-sg", "-m", "5", "http://["+isp6Web+"]/"); !strings.HasPrefix(got, "hello over IPv6, you are [2001:db8:99:") {
		t.Errorf("web gets %q", got)
	}
	if got := w.in("alone", "curl", "-sg", "-m", "5", "http://["+isp6Web+"]/"); !strings.HasPrefix(got, "hello over IPv6, you are [2001:db8:99:") {
		t.Errorf("alone gets %q", got)
	}
	// Rules: alone may reach one port of one host, and nothing may reach it.
	w.misses6("alone", isp6Web)
	w.misses6("alone", web.String())
	w.misses6("web", netinst.EUI64(netip.MustParsePrefix(net6), w.mac("alone", "eth0").String()).String())
	w.reaches6("alone", gateway)
	// The node itself stays a host on its uplink: it keeps its route and listens to advertisements.
	if r := w.in("node", "ip", "-6", "route", "show", "default"); !strings.Contains(r, "proto ra") {
		t.Errorf("the node's default route is %q", r)
	}
	if v := w.in("node", "sysctl", "-n", "net.ipv6.conf.uplink0.forwarding", "net.ipv6.conf.uplink0.accept_ra"); v != "0\n1" {
		t.Errorf("forwarding and accept_ra of the uplink are %q", v)
	}
	// DNS.
	if got := w.in("web", "dig", "+short", "+time=2", "@"+gateway, "AAAA", "app2.n1.edge"); got != client.String() {
		t.Errorf("DNS answers %q, not %s", got, client)
	}
	if s := w.status("ni", ni(1)); s["warning"] != nil && s["warning"] != "" {
		t.Errorf("the warning is %v", s["warning"])
	}
	w.restartUnderPings("web", isp6Web)
	w.aChangeEndsFlows(apps, gateway)
}

// restartUnderPings restarts the daemon while an app pings, which loses nothing.
func (w *world) restartUnderPings(short, to string, env ...string) {
	w.Helper()
	ping := w.Command(w.ctx, short, "ping", "-6", "-q", "-i", "0.02", "-c", "150", to)
	var out strings.Builder
	ping.Stdout, ping.Stderr = &out, &out
	if err := ping.Start(); err != nil {
		w.Fatal(err)
	}
	if err := w.node.Kill(); err != nil {
		w.Fatal(err)
	}
	w.restart(env...)
	w.wait("ready", "ni/"+ni(1))
	if err := ping.Wait(); err != nil || !strings.Contains(out.String(), " 0% packet loss") {
		w.Errorf("ping: %v: %s", err, out.String())
	}
}

// aChangeEndsFlows denies an app what it does.
func (w *world) aChangeEndsFlows(apps []string, gateway string) {
	w.Helper()
	ping := w.background("web", "ping", "-6", "-q", "-i", "0.1", isp6Web)
	entry := func() bool {
		return strings.Contains(w.in("node", "conntrack", "-L", "-f", "ipv6", "-p", "icmpv6"), isp6Web)
	}
	w.eventually("a tracked flow", entry)
	apps[0] = onNet(1, 1, "web", `v4: {action: allow, match: {ip: 0.0.0.0/0}}`)
	w.apply(doc([]string{network6(1, `subnet: "`+net6+`", nat: true`)}, apps...))
	w.wait("ready", "app/"+app(1))
	w.eventually("the end of the flow", func() bool { return !entry() })
	w.misses6("web", isp6Web)
	w.reaches6("web", gateway)
	_ = ping.Process.Kill()

	// Without IPv6 in the config nothing of it is left.
	w.apply(doc([]string{network(1, "")}, apps...))
	w.wait("ready", "ni/"+ni(1))
	for _, c := range []string{"ip -6 rule", "ip -6 route show table all", "ip -6 addr", "nft list tables"} {
		if text := w.in("node", strings.Fields(c)...); strings.Contains(text, strings.TrimSuffix(net6, "::/64")) ||
			strings.Contains(text, "ip6 edgespan") || strings.Contains(text, "20001") {
			w.Errorf("%s: left over:\n%s", c, text)
		}
	}
	if v := w.in("node", "sysctl", "-n", "net.ipv6.conf.all.forwarding", "net.ipv6.conf.uplink0.accept_ra"); v != "0\n1" {
		w.Errorf("forwarding and accept_ra are %q", v)
	}
	w.misses6("web", gateway)
}

// As a user whose provider routes a prefix to the node I let apps have public addresses.
func TestIPv6AppsAreReachedByTheirRoutedPrefix(t *testing.T) {
	t.Parallel()
	w := newWorld6(t, "web", "client")
	w.start(doc([]string{network6(1, `subnet: "`+net6+`"`)}, onNet(1, 1, "web", allowAll),
		onNet(2, 1, "client", `icmp: {action: allow, direction: ingress, match: {ip: "`+isp6Web+`", protocol: icmp}}`)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	web, client := w.slaac("web", net6), w.slaac("client", net6)
	node := netinst.EUI64(netip.MustParsePrefix("fe80::/64"), w.mac("node", w.Provider(0).Dev).String())
	w.in("isp", "ip", "route", "add", net6, "via", node.String(), "dev", w.Provider(0).Peer)
	w.reaches6("web", isp6Web)
	w.in("isp", "ping", "-6", "-c", "1", "-W", "5", "-I", isp6Web, web.String())
	w.in("isp", "ping", "-6", "-c", "1", "-W", "5", "-I", isp6Web, client.String())
	w.fails("isp", "ping", "-6", "-c", "1", "-W", "1", "-I", "2001:db8:99::1", client.String())
	w.misses6("client", isp6Web)
	// The provider does not reach the gateway, nor an address that no app has, for which the node asks no neighbour.
	w.fails("isp", "ping", "-6", "-c", "1", "-W", "1", strings.Split(net6, "/")[0]+"1")
	w.fails("isp", "ping", "-6", "-c", "1", "-W", "1", strings.Split(net6, "/")[0]+"77")
	if n := w.in("node", "ip", "-6", "neigh", "show", "dev", "es1"); strings.Contains(n, "::77") {
		t.Errorf("neighbours: %s", n)
	}
	// What the node did not forward before, it does not forward now.
	w.in("isp", "ip", "route", "add", "2001:db8:55::/64", "via", node.String(), "dev", w.Provider(0).Peer)
	w.in("node", "ip", "link", "add", "lan0", "type", "veth", "peer", "name", "lan1")
	w.in("node", "ip", "link", "set", "lan1", "up")
	w.in("node", "ip", "link", "set", "lan0", "up")
	w.in("node", "ip", "addr", "add", "2001:db8:55::1/64", "dev", "lan0", "nodad")
	w.fails("isp", "ping", "-6", "-c", "2", "-i", "0.2", "-W", "1", "2001:db8:55::9")
	if n := w.in("node", "ip", "-6", "neigh", "show", "dev", "lan0"); strings.Contains(n, "2001:db8:55::9") {
		t.Errorf("forwarded: %s", n)
	}
}
