package scenario

import (
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// An app with an adapter on each of three networks learns the routes of each by DHCP, as they are by its network's
// gateway, and one default route: that of the network with an uplink.
func TestAnAppOfSeveralNetworksLearnsTheRoutesOfEach(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web", "client"}, Second: true})
	w.sh("ip route del default dev uplink1")
	const far, shop, inner = "100.64.0.9", "100.90.0.9", "10.9.0.9"
	w.in("isp", "ip", "addr", "add", far+"/32", "dev", "lo")
	w.in("isp2", "ip", "addr", "add", shop+"/32", "dev", "lo")
	nets := []string{
		network(1, "    routes: {far: {destination: 100.64.0.0/16, gateway: "+lab.Gateway+"}}\n"),
		strings.Replace(network(2, "    routes: {shop: {destination: 100.90.0.0/16, gateway: "+lab.Gateway2+"}}\n"),
			"port: wan", "port: lan", 1),
		strings.Replace(network(3, "    spoofGuard: false\n    routes: {inner: {destination: 10.9.0.0/16, gateway: "+
			"10.3.0.20}}\n"), "port: wan", `port: ""`, 1),
	}
	router := strings.Replace(onNet(2, 3, "client", allowAll), "attach:", "ip: 10.3.0.20, attach:", 1)
	w.start(strings.Replace(doc(nets, onNets(1, "web", allowAll, 1, 2, 3), router), wan,
		wan+"  lan: {ifName: uplink1}\n", 1))
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "ni/"+ni(3), "app/"+app(1), "app/"+app(2))
	for i, want := range []struct{ router, routes string }{
		{"10.1.0.1", "0.0.0.0/0 10.1.0.1 100.64.0.0/16 10.1.0.1 192.0.2.0/24 10.1.0.1"},
		{"", "100.90.0.0/16 10.2.0.1 203.0.113.0/24 10.2.0.1"},
		{"", "10.9.0.0/16 10.3.0.20"},
	} {
		dev := "eth" + string(rune('0'+i))
		if l, err := w.DHCP(w.ctx, "web", dev); err != nil || l.Router != want.router || l.Routes != want.routes {
			t.Errorf("%s gets the router %q and the routes %q, want %q and %q (%v)", dev, l.Router, l.Routes, want.router,
				want.routes, err)
		}
	}
	if l := w.lease("client"); l.Router != "" || l.Routes != "" {
		t.Errorf("the app that routes gets the router %q and the routes %q", l.Router, l.Routes)
	}
	if got := w.in("web", "ip", "route", "show", "default"); strings.Contains(got, "\n") ||
		!strings.HasPrefix(got, "default via 10.1.0.1 dev eth0") {
		t.Errorf("the app's default routes are %q", got)
	}
	w.in("client", "ip", "addr", "add", inner+"/32", "dev", "lo")
	for _, to := range []string{lab.WebAddr, far, shop, lab.Gateway2, inner} {
		w.in("web", "ping", "-c1", "-W2", to)
	}
}

// As an operator I give ports labels for what they are for. The default route, a route by a label, one with a gateway
// of each port, and a port map each have the best port of theirs, leave a port that fails, and return.
func TestEachRouteHasTheBestPortOfItsLabel(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web"}, Uplinks: 4})
	const byLabel, byGateway, client = "198.51.100.81", "198.51.100.82", "100.90.0.1"
	for _, n := range []int{0, 2} {
		isp := w.Provider(n).Short
		for _, a := range []string{byLabel, byGateway} {
			w.in(isp, "ip", "addr", "add", a+"/32", "dev", "lo")
			if err := w.HTTPServer(w.ctx, isp, a+":80", "server"); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.in("isp2", "ip", "addr", "add", client+"/32", "dev", "lo")
	const dns = "uplink: true, dnsServers: " + lab.DNSAddr
	ports := "ports:\n  wan: {ifName: uplink0, labels: \"internet,server\", " + dns + "}\n" +
		"  lte: {ifName: uplink1, labels: maps, " + dns + "}\n" +
		"  dsl: {ifName: uplink2, labels: server, cost: 3, " + dns + "}\n" +
		"  sat: {ifName: uplink3, labels: internet, cost: 5, " + dns + "}\n"
	n := strings.Replace(network(1, "    probe: {holdMs: 500}\n    routes:\n"+
		"      label: {destination: "+byLabel+"/32, port: server}\n"+
		"      wan: {destination: "+byGateway+"/32, port: wan, gateway: "+w.Provider(0).Gateway+"}\n"+
		"      dsl: {destination: "+byGateway+"/32, port: dsl, cost: 1, gateway: "+w.Provider(2).Gateway+"}\n"+
		"      clients: {destination: 100.90.0.0/16, port: maps, gateway: "+lab.Gateway2+"}\n"),
		"port: wan", "port: internet", 1)
	w.start(ports + "networkInstances:\n" + n + "appNetworks:\n" + onNet(1, 1, "web", allowAll+", "+
		portmapRule("a", "protocol: tcp, portLabel: maps", "port: 8080, targetPort: 80")))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	w.whoami("web", "tcp4", webIP+":80")
	leaves := func(why string, internet, server int) {
		t.Helper()
		for _, x := range []struct {
			to     string
			uplink int
		}{{lab.WebAddr, internet}, {byLabel, server}, {byGateway, server}} {
			w.eventually(why+": "+x.to+" by "+uplinkLabels[x.uplink], func() bool {
				r, err := w.Exec(w.ctx, "web", "curl", "-sS", "-m", "1", "http://"+x.to+"/")
				return err == nil && r.Code == 0 && strings.Contains(r.Out, "you are "+w.Provider(x.uplink).Node+":")
			})
		}
		for isp, want := range map[string]string{"isp2": "web " + client, "isp": "refused"} {
			from, at := "", w.Provider(0).Node
			if isp == "isp2" {
				from, at = client+":0", lab.NodeAt2
			} else if internet != 0 {
				continue // the first uplink is broken
			}
			if got := w.asks(isp, "tcp4", from, at+":8080"); !strings.Contains(got, want) {
				t.Errorf("%s: %s asks the port map at %s and hears %q, want %q", why, isp, at, got, want)
			}
		}
	}
	w.in("node", "ip", "route", "add", client+"/32", "via", lab.Gateway2) // for the node's own answers
	leaves("all work", 0, 0)
	for _, f := range []lab.Fault{lab.LinkDown, lab.FarSideDead, lab.AddressLost} {
		w.breakUplink(0, f)
		leaves(string(f), 3, 2)
		w.repairUplink(0, f)
		leaves(string(f)+" is repaired", 0, 0)
	}
}

// Apps of a network behind a port that is no uplink have a default route while that port has one. Without it, nothing
// leaves by another port, the network's table ends with unreachable, and a route whose gateway is no neighbour is left
// out.
func TestTheDefaultRouteGoesWithThatOfThePort(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, lab.Options{Apps: []string{"web"}, Second: true})
	n := strings.Replace(network(1, "    routes:\n      bad: {destination: 198.18.0.0/15, gateway: 192.0.2.77}\n"),
		"port: wan", "port: lan", 1)
	w.start(strings.Replace(doc([]string{n}, onNet(1, 1, "web", allowAll)), wan,
		wan+"  lan: {ifName: uplink1, dnsServers: "+lab.DNSAddr+"}\n", 1))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	const connected = "203.0.113.0/24 10.1.0.1"
	table := func() string { return w.in("node", "ip", "route", "show", "table", "20001") }
	is := func(why, router, routes string) {
		t.Helper()
		w.eventually(why+": the lease", func() bool {
			l := w.lease("web")
			return l.Router == router && l.Routes == routes
		})
		if got := table(); !strings.Contains(got, "unreachable default ") || strings.Contains(got, "198.18.0.0/15") {
			t.Errorf("%s: the table is\n%s", why, got)
		}
	}
	is("at first", "10.1.0.1", "0.0.0.0/0 10.1.0.1 "+connected)
	if got := w.asked("web"); got != lab.NodeAt2 {
		t.Errorf("the app is seen as %q", got)
	}
	pid := w.dnsmasq()
	e := w.watchExits(2, exitEvery) // the app keeps the default route of its lease
	if e.now() != 1 {
		t.Error("packets do not leave by the network's port")
	}
	w.sh("ip route del default dev uplink1")
	w.eventually("the table without a default route", func() bool { return !strings.Contains(table(), "default via") })
	w.fails("web", "ping", "-c1", "-W1", lab.WebAddr)
	is("without default route", "", connected)
	w.in("web", "ping", "-c1", "-W2", lab.Gateway2)
	w.sh("ip route add default via " + lab.Gateway2 + " dev uplink1 metric 100")
	is("with a default route again", "10.1.0.1", "0.0.0.0/0 10.1.0.1 "+connected)
	if e.now() != 1 {
		t.Error("packets do not leave by the network's port again")
	}
	for _, x := range e.since(time.Time{}) {
		if x.uplink != 1 {
			t.Fatal("a packet left by the uplink of other networks")
		}
	}
	if now := w.dnsmasq(); now != pid {
		t.Errorf("dnsmasq was %s and is %s", pid, now)
	}
}
