package scenario

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// onNets returns app a with an adapter on each of some networks in namespace ns.
func onNets(a int, ns, acl string, networks ...int) string {
	text := onNet(a, networks[0], ns, acl)
	for i, n := range networks[1:] {
		_, adapter, _ := strings.Cut(onNet(a, n, ns, acl), "      0: ")
		text += fmt.Sprintf("      %d: %s", i+1, adapter)
	}
	return text
}

// As a user I let one app route for the others of an air-gapped network: they learn its routes by DHCP, and it does not
// learn its own. Their rules decide what it may carry, and what others answer needs a network without the spoof guard.
func TestAnAppIsTheGatewayOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	const far, closed = "203.0.113.9", "203.0.113.10"
	net := func(guard bool) string {
		return strings.Replace(network(1, fmt.Sprintf("    spoofGuard: %v\n    routes: {far: {destination: 203.0.113.0/24, "+
			"gateway: 10.1.0.20}}\n", guard)), "port: wan", `port: ""`, 1)
	}
	router := strings.Replace(onNet(2, 1, "client", allowAll), "attach:", "ip: 10.1.0.20, attach:", 1)
	web := onNet(1, 1, "web", "far: {action: allow, match: {ip: "+far+", protocol: icmp}}")
	w.start(doc([]string{net(false)}, web))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	pid := w.dnsmasq()
	w.apply(doc([]string{net(false)}, web, router))
	w.wait("ready", "app/"+app(2))
	for app, want := range map[string]string{"client": "", "web": "203.0.113.0/24 10.1.0.20"} {
		if l := w.lease(app); l.Routes != want || l.Router != "" {
			t.Errorf("%s gets the routes %q and the router %q, want the routes %q", app, l.Routes, l.Router, want)
		}
	}
	for _, addr := range []string{far, closed} {
		w.in("client", "ip", "addr", "add", addr+"/32", "dev", "lo")
	}
	ping := []string{"ping", "-c1", "-W2"}
	w.in("web", append(ping, far)...)
	w.fails("web", append(ping, closed)...)
	w.fails("web", append(ping, "10.1.0.20")...) // no rule names the router itself
	w.apply(doc([]string{net(true)}, web, router))
	w.wait("ready", "ni/"+ni(1))
	w.eventually("the guard drops what has another's address", func() bool {
		r, err := w.Exec(w.ctx, "web", append(ping, far)...)
		return err == nil && r.Code != 0
	})
	if now := w.dnsmasq(); now != pid {
		t.Errorf("dnsmasq was %s and is %s", pid, now)
	}
}

// viaApp are the parts of a node whose only way to its controller is an app: a firewall on the segment of the node's
// cable, and on that of a virtual cable, at whose other end the node is a client of the app. Apps of network 1 may also
// leave by a second uplink.
func viaApp(firewall string) string {
	const ports = "ports:\n  mgmt: {ifName: mg0, uplink: true, addressing: static, address: 100.64.9.2/24, " +
		"gateway: 100.64.9.1, dnsServers: " + lab.DNSAddr + "}\n" +
		"  lte: {ifName: uplink1, uplink: true, cost: 10, gateway: " + lab.Gateway2 + ", dnsServers: " + lab.DNSAddr + "}\n" +
		"  cable: {ifName: uplink0}\n  inner: {ifName: mg1}\n"
	apps := strings.Replace(network(1, ""), "port: wan", "port: uplink\n    probe: {holdMs: 500}", 1)
	outside := switchNetwork(2, "cable")
	inside := strings.Replace(switchNetwork(3, "inner"), "type: switch", "type: switch, spoofGuard: false", 1)
	return ports + "networkInstances:\n" + apps + outside + inside + "appNetworks:\n" + onNet(1, 1, "web", allowAll) +
		onNets(2, "fw", firewall, 2, 3)
}

// asked returns how a web server at the provider sees one who asks it, "" without an answer.
func (w *world) asked(short string) string {
	w.Helper()
	r, err := w.Exec(w.ctx, short, "curl", "-sS", "-m", "2", "http://"+lab.WebAddr+"/")
	_, who, found := strings.Cut(r.Out, "you are ")
	if err != nil || r.Code != 0 || !found {
		return ""
	}
	who, _, _ = strings.Cut(who, ":")
	return who
}

// As an operator I manage a node through a firewall that is one of its own apps. No restart of the daemon interrupts
// that, apps leave by another uplink while the firewall does not forward, and a config that stops the firewall, and so
// cuts the node off, is undone by the node.
func TestANodeIsManagedThroughItsOwnApp(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web", "fw"}, Second: true})
	w.sh("ip addr flush dev uplink0; ip route del default dev uplink1; ip link add mg0 type veth peer name mg1; " +
		"ip link set mg1 up")
	const behind = "192.0.2.20" // how the provider sees what comes through the firewall
	w.start(viaApp(allowAll))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.lease("web")
	w.in("fw", "sh", "-ec", "sysctl -qw net.ipv4.ip_forward=1; ip addr add "+behind+"/24 dev eth0; ip link set eth0 up; "+
		"ip addr add 100.64.9.1/24 dev eth1; ip link set eth1 up; ip route add default via "+lab.Gateway+"; "+
		"iptables -t nat -A POSTROUTING -o eth0 -j MASQUERADE")
	for _, who := range []string{"node", "web"} {
		w.eventually(who+" leaves through the firewall", func() bool { return w.asked(who) == behind })
	}

	o := w.open("lab", 8443, append([]string{"--config-confirm-timeout-s", "10"}, quick...)...)
	o.remember(o.line("CA sha256:"))
	pings := w.pingOut("node")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		flow(t, w, pings...)
		if err := w.node.Signal(signal); err != nil {
			t.Fatal(err)
		}
		<-w.node.Ended()
		flow(t, w, pings...)
		if signal == syscall.SIGTERM { // the node joins through its app
			if r := w.join(o.run("nodes", "invite", "edge-1").Out, "--state-dir", w.StateDir()); r.Code != 0 {
				t.Fatalf("join: %+v", r)
			}
			o.ok("network", "set", "sysParams.managedConfig=true")
			o.set("edge-1", viaApp(allowAll))
		}
		w.restart()
		o.is("edge-1", "InSync", ready)
	}
	flow(t, w, pings...)
	if c := pings[0].Stop(); c.Lost+c.Wrong > 0 {
		t.Errorf("the node's pings over restarts: %s", c)
	}

	w.in("fw", "sysctl", "-qw", "net.ipv4.ip_forward=0")
	w.eventually("apps leave by the other uplink", func() bool { return w.asked("web") == lab.NodeAt2 })
	w.in("fw", "sysctl", "-qw", "net.ipv4.ip_forward=1")
	w.eventually("apps leave through the firewall again", func() bool { return w.asked("web") == behind })
	o.is("edge-1", "InSync", ready)

	began := time.Now()
	o.set("edge-1", viaApp("none: {action: drop, direction: both}"), "-m", "the firewall is shut")
	w.eventually("the node is cut off", func() bool { return w.asked("node") == "" })
	o.set("edge-1", viaApp(allowAll), "-m", "mended") // which reaches the node once it has undone the other
	w.eventuallyIn(time.Minute, "the mended config", func() bool {
		n := o.node("edge-1")
		return n.State == "InSync" && n.Ready
	})
	t.Logf("the node is in sync %v after it was cut off", time.Since(began).Round(time.Millisecond))
	w.says(func() string { return w.cli("events", "--kind", "config") }, "not confirmed within 10s")
	for _, who := range []string{"node", "web"} {
		w.eventually(who+" leaves through the firewall after the undo", func() bool { return w.asked(who) == behind })
	}
}

// A network has more routes by its apps than an option of DHCP, or a line that dnsmasq reads, has room for: apps get as
// many as fit, whole, and none that leads to itself.
func TestAppsLearnAsManyRoutesAsFit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	var routes strings.Builder
	config := map[string]string{"0.0.0.0/0": "10.1.0.1", "192.0.2.0/24": "10.1.0.1"}
	for n := range 60 {
		to, via := fmt.Sprintf("198.18.%d.0/24", 100+n), fmt.Sprint("10.1.0.", 20+n%40)
		fmt.Fprintf(&routes, "      r%02d: {destination: %s, gateway: %s}\n", n, to, via)
		config[to] = via
	}
	router := strings.Replace(onNet(2, 1, "client", allowAll), "attach:", "ip: 10.1.0.20, attach:", 1)
	w.start(doc([]string{network(1, "    routes:\n"+routes.String())}, onNet(1, 1, "web", allowAll), router))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	for _, app := range []string{"web", "client"} {
		words := strings.Fields(w.lease(app).Routes)
		for i := 0; i+1 < len(words); i += 2 {
			if config[words[i]] != words[i+1] || app == "client" && words[i+1] == "10.1.0.20" {
				t.Errorf("%s gets the route %s by %s", app, words[i], words[i+1])
			}
		}
		t.Logf("%s gets %d routes", app, len(words)/2)
		if len(words)/2 < 20 {
			t.Errorf("%s gets only the routes %q", app, words)
		}
	}
}
