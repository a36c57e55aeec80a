package scenario

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/platform/lab"
)

// observed is onNet for an app whose rules only count.
func observed(a, n int, ns, acl string) string {
	return strings.Replace(onNet(a, n, ns, acl), "0: {", "0: {observe: true, ", 1)
}

// shadow asks for what an app's rules would have denied, by rule and direction.
func (w *world) shadow(target string) map[string]nodeapi.RuleHits {
	w.Helper()
	rules := map[string]nodeapi.RuleHits{}
	for _, r := range w.appRules("shadow", target).Adapters[0].Rules {
		rules[r.Rule+" "+r.Direction] = r
	}
	return rules
}

// As an operator I let new rules watch an app: they deny nothing, I see what they would have denied, over IPv4 and IPv6,
// and when I enforce them they deny that, also what is under way.
func TestRulesThatObserveDenyNothing(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, env []string) {
		t.Parallel()
		w := newWorld6(t, "web", "client", "guest")
		nets := []string{network6(1, `subnet: "`+net6+`", nat: true`), network(2, "")}
		others := []string{onNet(2, 1, "client", allowAll), onNet(3, 2, "guest", allowAll)}
		rules := "no: {action: drop, match: {ip: 198.51.100.80, protocol: tcp}}, " + limitRule("slow", "egress", "2",
			"protocol: udp, port: 2003") + ", udp: {action: allow, match: {protocol: udp}}"
		w.start(doc(nets, append([]string{observed(1, 1, "web", rules)}, others...)...), env...)
		w.wait("ready", "app/"+app(1), "app/"+app(2), "app/"+app(3))
		web := w.lease("web").IP
		w.lease("client")
		w.lease("guest")
		web6 := w.slaac("web", net6)
		w.slaac("client", net6)
		for _, server := range []string{"isp", "web"} {
			w.echo(server, "tcp4", "0.0.0.0:7")
		}
		w.echo("node", "tcp4", "10.1.0.1:7")
		before := w.shadow("app/app1") // what the kernel counted until now has no time

		w.reaches("a drop", "web", "tcp4", "", lab.WebAddr+":7")
		w.reaches6("web", isp6Web) // no rule
		w.reaches("no rule, from another app", "client", "tcp4", "", web.String()+":7")
		w.reaches6("client", web6.String())
		w.sendUDP(lab.WebAddr, 2003, 3000, 9)
		w.sendUDP(lab.WebAddr, 2004, 3100, 9)
		w.eventually("the packets above the rate", func() bool { return w.shadow("app/app1")["slow egress"].Packets >= 6 })
		got := w.shadow("app/app1")
		for name, least := range map[string]uint64{"no egress": 1, "no ingress": 0, "slow egress": 6, " egress": 1,
			" ingress": 2} {
			r := got[name]
			r.Packets -= before[name].Packets
			// With a limit in the network, each packet of a connection counts.
			if r.Packets < least || r.Packets > least+8 || (least > 0) == r.LastHit.IsZero() ||
				least > 0 && time.Since(r.LastHit) > time.Minute {
				t.Errorf("%q: %+v, want %d", name, r, least)
			}
		}
		if len(got) != 5 {
			t.Errorf("%v, want 5 rules", got)
		}
		if out := w.cli("acl", "explain", "app/app1/0", "--to", lab.WebAddr, "--port", "7"); !strings.Contains(out,
			"allowed by observe; enforced, denied by rule no") {
			t.Error(out)
		}

		// What is no matter of rules is denied: another network, the node, another's address.
		w.misses("another network", "web", "tcp4", "", w.ip(app(3)).String()+":7")
		w.misses("the node", "web", "tcp4", "", "10.1.0.1:7")
		w.misses("from the node", "node", "tcp4", "", web.String()+":7")
		w.spoofs(t, web)

		flow, err := w.dial("web", "tcp4", "", lab.WebAddr+":7", timeout)
		if err != nil {
			t.Fatal(err)
		}
		incoming, err := w.dial("client", "tcp4", "", web.String()+":7", timeout)
		if err != nil {
			t.Fatal(err)
		}
		counted := w.shadow("app/app1")
		w.restartUnderPings("web", isp6Web, env...)
		for name, r := range w.shadow("app/app1") {
			if r.Packets < counted[name].Packets {
				t.Errorf("after a restart %q has %d packets, and had %d", name, r.Packets, counted[name].Packets)
			}
		}
		for _, c := range []net.Conn{flow, incoming} {
			if err := say(c, timeout); err != nil {
				t.Error("a connection before rules are enforced: ", err)
			}
		}
		w.enforceAndUndo(t)
		w.cli("acl", "enforce", "app/app1/0")
		w.wait("ready", "app/"+app(1))
		for _, c := range []net.Conn{flow, incoming} {
			if err := say(c, denial); err == nil {
				t.Errorf("a connection to %v goes on although rules deny it", c.RemoteAddr())
			}
		}
		w.misses("an enforced drop", "web", "tcp4", "", lab.WebAddr+":7")
		w.misses6("web", isp6Web)
		w.misses("no rule, from another app", "client", "tcp4", "", web.String()+":7")
		w.misses6("client", web6.String())
		if r, err := w.CLI(w.ctx, "acl", "shadow", "app/app1"); err != nil || r.Code != 0 ||
			!strings.Contains(r.Out+r.Err, "no adapter of app/app1 has observe") {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// enforceAndUndo enforces the rules of the app web until it takes that back.
func (w *world) enforceAndUndo(t *testing.T) {
	t.Helper()
	flow, err := w.dial("web", "tcp4", "", lab.WebAddr+":7", timeout)
	if err != nil {
		t.Fatal(err)
	}
	const dropped = `newly denied:  "app1" to outside (anywhere): icmp; tcp; other`
	if out := w.cli("acl", "enforce", "app/app1", "--dry-run"); !strings.Contains(out, dropped) ||
		strings.Contains(out, "newly allowed") {
		t.Errorf("%s\nwant %s", out, dropped)
	}
	w.reaches("a dry run", "web", "tcp4", "", lab.WebAddr+":7")
	if out := w.cli("acl", "enforce", "app/app1", "--confirm", "10m"); !strings.Contains(out, dropped) {
		t.Errorf("%s\nwant %s", out, dropped)
	}
	w.wait("ready", "app/"+app(1))
	if err := say(flow, denial); err == nil {
		t.Error("a connection goes on although rules deny it")
	}
	w.misses("an enforced drop", "web", "tcp4", "", lab.WebAddr+":7")
	w.cli("rollback")
	w.eventually("the undo", func() bool { return strings.Contains(w.cli("acl", "shadow", "app/app1"), "slow") })
	w.wait("ready", "app/"+app(1))
	w.reaches("after the undo", "web", "tcp4", "", lab.WebAddr+":7")
}

// spoofs sends from the app web what an app may not: nothing of it arrives.
func (w *world) spoofs(t *testing.T, web netip.Addr) {
	t.Helper()
	heard := w.sniff("isp", "node0", "forged", "honest")
	raw := w.raw("web")
	node, mac := w.mac("node", "es1"), w.mac("web", "eth0")
	to := netip.MustParseAddr(lab.WebAddr)
	forged := []netip.Addr{w.ip(app(2)), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("203.0.113.9")}
	for i, src := range append(forged, web) {
		mark := "forged"
		if src == web {
			mark = "honest"
		}
		if err := raw.send(ether(node, mac, etherIPv4, ipv4(src, to, 17, udp(uint16(4000+i), 2009, []byte(mark))))); err != nil {
			t.Fatal(err)
		}
	}
	w.eventually("an honest packet", func() bool { return heard.count("honest") > 0 })
	if n := heard.count("forged"); n > 0 {
		t.Errorf("%d forged packets left the node", n)
	}
}
