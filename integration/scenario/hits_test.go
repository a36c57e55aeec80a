package scenario

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/platform/lab"
)

// appRules asks edgespan acl show or shadow for the rules of an app.
func (w *world) appRules(command, target string) (x nodeapi.AppRules) {
	w.Helper()
	out := w.cli("acl", command, target, "-o", "json")
	if err := json.Unmarshal([]byte(out), &x); err != nil || len(x.Adapters) == 0 || x.Error != "" {
		w.Fatalf("acl %s %s: %v: %s", command, target, err, out)
	}
	return x
}

// rules are those of an app's first adapter, by name.
func (w *world) rules(target string) map[string]nodeapi.RuleHits {
	w.Helper()
	rules := map[string]nodeapi.RuleHits{}
	for _, r := range w.appRules("show", target).Adapters[0].Rules {
		if r.Rule == "" {
			r.Rule = "no rule, " + r.Direction
		}
		rules[r.Rule] = r
	}
	return rules
}

// sendUDP sends packets of 29 octets from the app web, each of a flow of its own.
func (w *world) sendUDP(addr string, port, from, n uint16) {
	w.Helper()
	web, gate, own, ip := w.raw("web"), w.mac("node", "es1"), w.mac("web", "eth0"), w.ip(app(1))
	for i := range n {
		frame := ether(gate, own, etherIPv4, ipv4(ip, netip.MustParseAddr(addr), 17, udp(from+i, port, []byte("x"))))
		if err := web.send(frame); err != nil {
			w.Fatal(err)
		}
	}
}

// As an operator I see how often each rule was hit, and a change of the rules forgets nothing.
func TestEachRuleCountsItsHits(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, env []string) {
		t.Parallel()
		w := newWorld(t, "web")
		nets := []string{network(1, "")}
		const rules = "open: {action: allow, match: {protocol: udp, port: \"2000,2010-2012\"}}, " +
			"shut: {action: drop, match: {protocol: udp, port: 2001}}, unused: {action: allow, match: {ip: 203.0.113.1}}"
		w.start(doc(nets, onNet(1, 1, "web", rules)), env...)
		w.wait("ready", "app/"+app(1))
		w.lease("web")
		expect := func(why string, want map[string]uint64) {
			t.Helper()
			var got map[string]nodeapi.RuleHits
			w.eventually(why, func() bool {
				got = w.rules("app/app1")
				for name, n := range want {
					if got[name].Packets < n {
						return false
					}
				}
				return true
			})
			for name, n := range want {
				if r := got[name]; r.Packets != n || r.Bytes != 29*n || r.LastHit.IsZero() != (n == 0) ||
					n > 0 && time.Since(r.LastHit) > time.Minute {
					t.Errorf("%s: %s: %+v, want %d packets", why, name, r, n)
				}
			}
		}
		// The first reading takes what the kernel counted before, at an unknown time.
		expect("before any packet", map[string]uint64{"open": 0, "shut": 0, "unused": 0})
		w.sendUDP(lab.WebAddr, 2000, 3000, 7)
		w.sendUDP(lab.WebAddr, 2011, 3100, 3)
		w.sendUDP(lab.WebAddr, 2001, 3200, 5)
		w.sendUDP(lab.WebAddr, 2002, 3300, 4)
		expect("packets", map[string]uint64{"open": 10, "shut": 5, "unused": 0, "no rule, egress": 4, "no rule, ingress": 0})

		if out := w.cli("explain", "app/app1/0"); !strings.Contains(out, "shut (drop, both): 5 packets, last ") ||
			!strings.Contains(out, "they denied 9 packets") || strings.Contains(out, "unused") {
			t.Error(out)
		}

		w.obey(nets, onNet(1, 1, "web", "first: {action: allow, match: {protocol: udp, port: 2009}}, "+rules))
		w.sendUDP(lab.WebAddr, 2000, 4000, 20)
		w.sendUDP(lab.WebAddr, 2009, 4100, 2)
		expect("packets after a change of the rules", map[string]uint64{"first": 2, "open": 30, "shut": 5,
			"no rule, egress": 4})

		w.obey(nets, onNet(1, 1, "web", limitRule("slow", "egress", "5", "protocol: udp, port: 2003")))
		w.sendUDP(lab.WebAddr, 2003, 5000, 9)
		expect("packets above a rate", map[string]uint64{"slow": 9})
		if r := w.rules("app/" + app(1) + "/0")["slow"]; r.Dropped < 3 || r.Dropped > 4 { // a minute may end meanwhile
			t.Errorf("%+v, want 4 dropped", r)
		}
	})
}

func TestEachRuleCountsItsHitsOfIPv6(t *testing.T) {
	t.Parallel()
	w := newWorld6(t, "web", "client")
	nets := []string{network6(1, `subnet: "`+net6+`", nat: true`)}
	w.start(doc(nets, onNet(1, 1, "web", "echo: {action: allow, match: {protocol: icmp}}"), onNet(2, 1, "client", allowAll)))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.slaac("web", net6)
	client := w.slaac("client", net6)
	before := w.rules("app/app1")
	w.reaches6("web", client.String())
	w.fails("web", "curl", "-6", "-m", "1", "http://["+isp6Web+"]/")
	const denied = "no rule, egress"
	after := w.rules("app/app1")
	if after["echo"].Packets != before["echo"].Packets+1 || after["echo"].LastHit.IsZero() ||
		after[denied].Packets <= before[denied].Packets || after[denied].LastHit.IsZero() {
		t.Errorf("%+v\n%+v", before, after)
	}
}
