package scenario

import (
	"strings"
	"testing"
)

// What the host's own firewall takes from a network's services is told, and by name:
// Present means that the gateway's DNS and DHCP were asked and have answered.
func TestPresentMeansThatTheServicesAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	named := func(name string) string {
		return doc([]string{strings.Replace(network(1, ""), "{domain: n1.edge}", "{domain: n1.edge, hosts: {"+name+": 10.1.0.9}}", 1)}, onNet(1, 1, "web", allowAll))
	}
	w.start(named("first"))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	pid := w.dnsmasq()
	for _, c := range []struct{ name, rule, want string }{
		{"dhcp", "INPUT -i lo -p udp --dport 67 -j DROP", "self-test: DHCP of the gateway: 10.1.0.1 does not answer on es1"},
		{"dns", "INPUT -i lo -p udp --dport 53 -j DROP", "self-test: DNS of the gateway: "},
	} {
		w.in("node", strings.Fields("iptables -I "+c.rule)...)
		w.apply(named(c.name))
		w.eventually("what "+c.name+" is told of", func() bool {
			st := w.status("ni", ni(1))
			why, _ := st["error"].(string)
			return strings.HasSuffix(st["state"].(string), "Failed") && strings.Contains(why, c.want)
		})
		if r, err := w.CLI(w.ctx, "wait", "ni/"+ni(1), "--for", "ready", "--timeout", "100ms"); err != nil || r.Code != 3 {
			t.Errorf("wait: exit %d, %v", r.Code, err)
		}
		w.in("node", strings.Fields("iptables -D "+c.rule)...)
		w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	}
	if now := w.dnsmasq(); now != pid {
		t.Errorf("dnsmasq %s became %s, though it worked all the time", pid, now)
	}
}
