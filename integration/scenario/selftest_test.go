package scenario

import (
	"strings"
	"testing"
)

// If the host's own firewall blocks a network's services, the status names them: Present means that the gateway's DNS
// and DHCP have answered.
func TestPresentMeansThatTheServicesAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	named := func(host, denied string) string {
		net := strings.Replace(network(1, ""), "{domain: n1.edge}", "{domain: n1.edge, hosts: {"+host+": 10.1.0.9}}", 1)
		return doc([]string{net}, onNet(1, 1, "web", "none: {order: 1, action: drop, match: {ip: "+denied+"}}, "+allowAll))
	}
	w.start(named("first", "198.51.100.1"))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	pid := w.dnsmasq()
	for _, c := range []struct{ name, denied, rule, want string }{
		{"dhcp", "198.51.100.2", "INPUT -i lo -p udp --dport 67 -j DROP",
			"self-test: DHCP of the gateway: 10.1.0.1 does not answer on es1"},
		{"dns", "198.51.100.3", "INPUT -i lo -p udp --dport 53 -j DROP", "self-test: DNS of the gateway: "},
	} {
		w.in("node", strings.Fields("iptables -I "+c.rule)...)
		w.apply(named("first", c.denied))
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
	w.apply(named("second", "198.51.100.1"))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1))
	w.lease("web")
	for name, want := range map[string]string{"first": "", "second": "10.1.0.9", "app1": "10.1.0.128"} {
		w.eventually(name+".n1.edge is "+want, func() bool {
			return w.in("web", "dig", "+short", "+tries=1", "@10.1.0.1", name+".n1.edge") == want
		})
	}
	// dnsmasq rereads its files on a signal and does not use inotify: the whole machine has 128 instances by default.
	if open := w.in("node", "sh", "-c", "ls -l /proc/"+pid+"/fd"); !strings.Contains(open, "leases") ||
		strings.Contains(open, "inotify") {
		t.Errorf("dnsmasq has an instance of inotify:\n%s", open)
	}
	if now := w.dnsmasq(); now != pid {
		t.Errorf("dnsmasq %s became %s, though it worked all the time", pid, now)
	}
}
