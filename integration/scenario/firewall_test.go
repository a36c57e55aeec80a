package scenario

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// town is a lab with two networks: web and client are on the first, guest is on the second. Each of them, the provider
// and the node echo on port 7.
func town(t *testing.T, more ...string) (w *world, nets []string) {
	t.Helper()
	w = newWorld(t, append([]string{"web", "client", "guest"}, more...)...)
	nets = []string{network(1, ""), network(2, "")}
	w.start(doc(nets, onNet(1, 1, "web", ""), onNet(2, 1, "client", ""), onNet(3, 2, "guest", "")))
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2), "app/"+app(3))
	for _, a := range []string{"web", "client", "guest"} {
		w.lease(a)
	}
	for short, ip := range map[string]string{"web": webIP, "client": clientIP, "guest": guestIP, "isp": lab.WebAddr,
		"node": lab.NodeAt} {
		w.echo(short, "tcp4", "0.0.0.0:7")
		w.echo(short, "udp4", ip+":7") // a socket for all addresses may answer from another one
	}
	return w, nets
}

const (
	webIP, clientIP, guestIP = "10.1.0.128", "10.1.0.129", "10.2.0.128"
	world7                   = lab.WebAddr + ":7"
	everything               = allowAll
)

func TestNetworksDoNotReachEachOther(t *testing.T) {
	t.Parallel()
	w, nets := town(t)
	w.obey(nets, onNet(1, 1, "web", everything), onNet(2, 1, "client", everything), onNet(3, 2, "guest", everything))
	forbidden := map[string][]string{"web": {guestIP, "10.2.0.1", "10.2.0.77"}, "guest": {webIP, "10.1.0.1", "10.1.0.77"}}
	// A packet keeps its destination on the way out, so the address is its mark.
	mark := func(ip string) string { return string(netip.MustParseAddr(ip).AsSlice()) }
	marks := []string{mark(lab.WebAddr)}
	for _, to := range forbidden {
		for _, ip := range to {
			marks = append(marks, mark(ip))
		}
	}
	uplink := w.sniff("isp", "node0", marks...)
	for from, to := range forbidden {
		for _, ip := range to {
			w.missesAll("another network", from, ip+":7")
			w.fails(from, "ping", "-c1", "-W0.4", ip)
		}
	}
	// A rule that names the other network doesn't help.
	named := acl("allow both ip: 10.0.0.0/8", "allow both ip: 10.1.0.0/24", "allow both ip: 10.2.0.0/24")
	w.obey(nets, onNet(1, 1, "web", named), onNet(2, 1, "client", everything), onNet(3, 2, "guest", named))
	w.misses("another network, named", "web", "udp4", "", guestIP+":7")
	w.misses("another network, named", "guest", "udp4", "", webIP+":7")
	w.obey(nets, onNet(1, 1, "web", everything), onNet(2, 1, "client", everything), onNet(3, 2, "guest", everything))
	for _, from := range []string{"web", "guest"} {
		w.reaches("the world", from, "udp4", "", world7)
	}
	w.eventually("a packet to the world at the uplink", func() bool { return uplink.count(marks[0]) > 0 })
	for _, m := range marks[1:] {
		if n := uplink.count(m); n > 0 {
			t.Errorf("%d packets for %v left by the uplink", n, []byte(m))
		}
	}
}

func TestTheNodesOwnAddressesNeedARuleThatNamesThem(t *testing.T) {
	t.Parallel()
	w, nets := town(t)
	others := []string{onNet(2, 1, "client", ""), onNet(3, 2, "guest", "")}
	with := func(rules ...string) {
		w.Helper()
		w.obey(nets, append([]string{onNet(1, 1, "web", acl(rules...))}, others...)...)
	}
	own := []string{lab.NodeAt + ":7", "10.1.0.1:7", "10.2.0.1:7"}
	for _, rule := range []string{"allow both", "allow both ip: 0.0.0.0/0", "allow egress protocol: tcp, port: 7"} {
		with(rule)
		w.missesAll(rule, "web", own...)
		w.fails("web", "ping", "-c1", "-W0.4", lab.NodeAt)
		w.reaches(rule, "web", "tcp4", "", world7)
	}
	with("allow egress ip: 192.0.2.2, protocol: tcp, port: 7")
	w.reaches("the uplink's address, named", "web", "tcp4", "", own[0])
	w.misses("another protocol", "web", "udp4", "", own[0])
	w.misses("the gateway, not named", "web", "tcp4", "", own[1])
	with("allow egress ip: 10.1.0.1")
	w.reaches("the gateway, named", "web", "tcp4", "", own[1])
	w.misses("the uplink's address, not named", "web", "tcp4", "", own[0])
	with("drop egress protocol: tcp", "allow egress ip: 192.0.2.2")
	w.misses("a drop before it", "web", "tcp4", "", own[0])
	w.reaches("what the drop leaves", "web", "udp4", "", own[0])
	with("allow ingress ip: 192.0.2.2")
	w.misses("the wrong direction", "web", "tcp4", "", own[0])
}

func TestTheNodeReachesAnAppThatNamesIt(t *testing.T) {
	t.Parallel()
	w, nets := town(t)
	others := []string{onNet(2, 1, "client", ""), onNet(3, 2, "guest", "")}
	for rule, reached := range map[string]bool{
		"":                           false,
		"allow both":                 false,
		"allow both ip: 0.0.0.0/0":   false,
		"allow egress ip: 10.1.0.1":  false,
		"allow ingress ip: 10.1.0.1": true,
		"allow both ip: 10.1.0.0/24": true,
		"allow ingress ip: 10.1.0.1, protocol: tcp, localPort: 77": false,
	} {
		text := ""
		if rule != "" {
			text = acl(rule)
		}
		w.obey(nets, append([]string{onNet(1, 1, "web", text)}, others...)...)
		if reached {
			w.reaches(rule, "node", "tcp4", "", webIP+":7")
		} else {
			w.misses(rule, "node", "tcp4", "", webIP+":7")
		}
	}
}

func TestTheGatewayAlwaysServes(t *testing.T) {
	t.Parallel()
	w, nets := town(t)
	for _, rules := range []string{"", acl("drop both")} {
		w.obey(nets, onNet(1, 1, "web", rules), onNet(2, 1, "client", ""), onNet(3, 2, "guest", ""))
		w.in("web", "ping", "-c1", "-W5", "10.1.0.1")
		for _, how := range []string{"+notcp", "+tcp"} {
			if ip := w.in("web", "dig", "+short", "+time=5", "+tries=1", how, "@10.1.0.1", lab.WebName); ip != lab.WebAddr {
				t.Errorf("%s is %q over %s with the rules %q", lab.WebName, ip, how, rules)
			}
		}
		if l := w.lease("web"); l.IP.String() != webIP {
			t.Errorf("the lease is %s", l.IP)
		}
		w.missesAll("no rule", "web", world7, clientIP+":7", guestIP+":7", "10.1.0.1:7", lab.NodeAt+":7")
		w.fails("web", "ping", "-c1", "-W0.4", lab.WebAddr)
	}
}

func TestTheFirstRuleThatMatchesDecides(t *testing.T) {
	t.Parallel()
	w, nets := town(t)
	w.echo("isp", "tcp4", lab.WebAddr+":8")
	with := func(rules string) {
		w.Helper()
		w.obey(nets, onNet(1, 1, "web", rules), onNet(2, 1, "client", ""), onNet(3, 2, "guest", ""))
	}
	with(acl("drop egress ip: 198.51.100.80, protocol: tcp, port: 7", "allow egress"))
	w.misses("a drop first", "web", "tcp4", "", world7)
	w.reaches("another port", "web", "tcp4", "", lab.WebAddr+":8")
	w.reaches("another protocol", "web", "udp4", "", world7)
	with(acl("allow egress ip: 198.51.100.80, protocol: tcp, port: 7", "drop egress", "allow egress"))
	w.reaches("an allow first", "web", "tcp4", "", world7)
	w.misses("a drop second", "web", "tcp4", "", lab.WebAddr+":8")
	with("a: {order: 2, action: allow, direction: egress}, b: {order: 1, action: drop, direction: egress}")
	w.misses("order before name", "web", "tcp4", "", world7)
	with("a: {order: 1, action: allow, direction: egress}, b: {order: 2, action: drop, direction: egress}")
	w.reaches("order before name", "web", "tcp4", "", world7)
	with(acl("allow egress protocol: tcp, localPort: 40000-40009"))
	w.reaches("its own port", "web", "tcp4", "0.0.0.0:40003", world7)
	w.misses("another port of its own", "web", "tcp4", "0.0.0.0:40013", world7)
}

func TestBothEndsOfTwoAppsMustAllow(t *testing.T) {
	t.Parallel()
	w, nets := town(t)
	for _, c := range []struct {
		web, client string
		reached     bool
	}{
		{"", "", false},
		{acl("allow egress"), "", false},
		{"", acl("allow ingress"), false},
		{acl("allow ingress"), acl("allow egress"), false}, // in the wrong directions
		{acl("allow egress"), acl("allow ingress"), true},  // and the replies pass
		{acl("allow egress ip: 10.1.0.129"), acl("allow ingress ip: 10.1.0.128, protocol: tcp, localPort: 7"), true},
		{acl("allow egress ip: 10.1.0.129"), acl("allow ingress ip: 10.1.0.128, protocol: tcp, localPort: 8"), false},
		{acl("allow egress ip: 10.1.0.129"), acl("allow ingress ip: 10.1.0.130"), false},
	} {
		w.obey(nets, onNet(1, 1, "web", c.web), onNet(2, 1, "client", c.client), onNet(3, 2, "guest", ""))
		why := fmt.Sprintf("web {%s}, client {%s}", c.web, c.client)
		if c.reached {
			w.reaches(why, "web", "tcp4", "", clientIP+":7")
			w.misses(why+", the other way", "client", "tcp4", "", webIP+":7")
		} else {
			w.misses(why, "web", "tcp4", "", clientIP+":7")
		}
	}
}

func TestTheUplinkOpensNothingUnlessIngressAllows(t *testing.T) {
	t.Parallel()
	w, nets := town(t)
	w.in("isp", "ip", "route", "add", "10.1.0.0/24", "via", lab.NodeAt)
	for rules, reached := range map[string]bool{
		"":                                   false,
		acl("allow egress"):                  false,
		acl("allow ingress ip: 203.0.113.1"): false,
		acl("allow ingress ip: 192.0.2.1"):   true,
		acl("allow ingress"):                 true,
	} {
		w.obey(nets, onNet(1, 1, "web", rules), onNet(2, 1, "client", ""), onNet(3, 2, "guest", ""))
		if reached {
			w.reaches(rules, "isp", "tcp4", "", webIP+":7")
		} else {
			w.missesAll(rules, "isp", webIP+":7")
		}
	}
	w.misses("the gateway from outside", "isp", "tcp4", "", "10.1.0.1:53")
}

func TestARuleChangeEndsWhatItDeniesAndLosesNothingElse(t *testing.T) {
	t.Parallel()
	w, nets := town(t)
	w.in("isp", "ip", "addr", "add", "198.51.100.81/32", "dev", "lo")
	w.echo("isp", "udp4", "198.51.100.81:7")
	with := func(rules ...string) {
		w.Helper()
		w.obey(nets, onNet(1, 1, "web", acl(rules...)), onNet(2, 1, "client", acl("allow ingress")), onNet(3, 2, "guest", ""))
	}
	all := []string{"allow egress ip: 198.51.100.80", "allow egress ip: 198.51.100.81", "allow egress ip: 10.1.0.129"}
	with(all...)
	ping, err := w.PingLoop("web", netip.MustParseAddr(lab.WebAddr), 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := w.dial("web", "tcp4", "", world7, timeout)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	for round := range 5 {
		for _, to := range []string{"198.51.100.81:7", clientIP + ":7"} {
			for _, network := range []string{"tcp4", "udp4"} {
				c, err := w.dial("web", network, "", to, timeout)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := say(c, timeout); err != nil {
					t.Fatalf("round %d: %s to %s: %v", round, network, to, err)
				}
				with("drop egress ip: 198.51.100.81", "allow egress ip: 198.51.100.64/27") // .80 is covered by another rule
				if err := say(c, denial); err == nil {
					t.Errorf("round %d: the flow %s to %s goes on after its rule went", round, network, to)
				}
				if err := say(kept, timeout); err != nil {
					t.Fatalf("round %d: the flow that is allowed: %v", round, err)
				}
				with(all...)
			}
		}
	}
	flow(t, w, ping)
	if c := ping.Stop(); c.Lost+c.Wrong > 0 || c.Good < 200 {
		t.Errorf("pings that were allowed throughout: %v", c)
	}
}

func TestEveryDirectionOfADeniedFlowEnds(t *testing.T) {
	t.Parallel()
	w, nets := town(t)
	w.in("isp", "ip", "route", "add", "10.1.0.0/24", "via", lab.NodeAt)
	with := func(web, client string) {
		w.Helper()
		w.obey(nets, onNet(1, 1, "web", web), onNet(2, 1, "client", client), onNet(3, 2, "guest", ""))
	}
	for _, c := range []struct{ why, from, to, web, client string }{
		{"the sender's egress", "web", clientIP, acl("allow egress"), acl("allow ingress")},
		{"the receiver's ingress", "client", webIP, acl("allow ingress"), acl("allow egress")},
		{"from the uplink", "isp", webIP, acl("allow ingress"), ""},
		{"from the node", "node", webIP, acl("allow ingress ip: 10.1.0.1"), ""},
		{"to the node", "web", lab.NodeAt, acl("allow egress ip: 192.0.2.2"), ""},
		{"to the gateway", "web", "10.1.0.1", acl("allow egress ip: 10.1.0.1"), ""},
	} {
		with(c.web, c.client)
		conn, err := w.dial(c.from, "tcp4", "", c.to+":7", timeout)
		if err == nil {
			defer conn.Close()
			err = say(conn, timeout)
		}
		if err != nil {
			t.Errorf("%s: a flow that is allowed: %v", c.why, err)
			continue
		}
		with(acl("drop both"), c.client)
		if err := say(conn, denial); err == nil {
			t.Errorf("%s: the flow goes on after its rule went", c.why)
		}
	}
}
