package scenario

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/platform/lab"
)

// flowLog returns lines of the flow log, as edgespan flows selects them.
func (w *world) flowLog(args ...string) (list []nodeapi.FlowRecord) {
	w.Helper()
	out := w.cli(append([]string{"flows", "-n", "0", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		w.Fatalf("flows: %v: %s", err, out)
	}
	return list
}

// endFlows ends all tracked flows of an address.
func (w *world) endFlows(from string) { w.in("node", "conntrack", "-D", "-s", from) }

const logged = "    flowLog: true\n"

// As an operator I see who talked to whom, how much, and by which rule, also over a crash of the daemon; and without
// the log nothing of it is left on the host.
func TestTheFlowLogSaysWhoTalkedToWhom(t *testing.T) {
	t.Parallel()
	backends(t, func(t *testing.T, env []string) {
		t.Parallel()
		w := newWorld(t, "web", "mate")
		w.echoes(1, lab.WebAddr)
		nets := func(more string) []string { return []string{network(1, more), network(2, "")} }
		const rules = "tcp: {action: allow, direction: egress, match: {protocol: tcp}}, " +
			"udp: {action: allow, direction: egress, match: {protocol: udp, port: 2000}}, " +
			"shut: {action: drop, direction: both, match: {protocol: udp, port: 2002}}"
		config := func(more string) string {
			return doc(nets(more), onNet(1, 1, "web", rules), onNet(2, 2, "mate", allowAll))
		}
		counting := func() string { return w.in("node", "sysctl", "-n", "net.netfilter.nf_conntrack_acct") }
		w.start(config(""), env...)
		w.wait("ready", "app/"+app(1), "app/"+app(2))
		was := counting()
		w.apply(config(logged))
		w.eventually("the kernel counts flows", func() bool { return counting() == "1" })
		w.lease("web")
		w.lease("mate")
		ip := w.ip(app(1)).String()

		w.sendUDP(lab.WebAddr, 2000, 4000, 3) // three flows of one packet
		s := w.flowBy(0)
		for range 5 {
			if err := s.round(5 * time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.node.Kill(); err != nil {
			t.Fatal(err)
		}
		w.restart(env...)
		w.wait("ready", "app/"+app(1))
		if err := s.round(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		local := s.LocalAddr().String()
		_ = s.Close()
		w.eventually("both ends have closed the connection", func() bool {
			return strings.Contains(w.in("node", "conntrack", "-L", "-p", "tcp", "-s", ip), "TIME_WAIT")
		})
		w.listensToFlows()
		w.endFlows(ip)
		defer func() {
			if t.Failed() {
				t.Log(w.cli("flows", "-o", "wide"))
			}
		}()
		var tcp nodeapi.FlowRecord
		w.eventually("the flows are in the log", func() bool {
			tcp = nodeapi.FlowRecord{}
			udp := 0
			for _, r := range w.flowLog("--app", "app1") {
				switch {
				case r.Local == local:
					tcp = r
				case strings.Contains(r.Local, ":400") && r.Protocol == "udp" && r.Rule == "udp" && r.PacketsOut == 1 && r.BytesOut == 29 && r.BytesIn == 0:
					udp++
				}
			}
			return tcp.Rule == "tcp" && udp == 3
		})
		// Six rounds of 2,000 octets or more each way, in packets with headers.
		if tcp.Remote != lab.WebAddr+":"+echoPort || tcp.NAT == "" || tcp.NAT == tcp.Local || tcp.Direction != "egress" ||
			tcp.BytesOut < 12000 || tcp.BytesOut > 24000 || tcp.BytesIn < 12000 || tcp.PacketsOut < 10 ||
			tcp.End.Sub(tcp.Start) <= 0 || tcp.End.Sub(tcp.Start) > 2*time.Minute || tcp.Name != "app1" {
			t.Errorf("the connection in the log: %+v", tcp)
		}
		w.sendUDP(lab.WebAddr, 2001, 7000, 1)
		w.sendUDP(lab.WebAddr, 2002, 7001, 1)
		w.eventually("what was denied is in the log", func() bool {
			rules := map[string]string{}
			for _, r := range w.flowLog("app/app1", "--denied") {
				if r.Kind == nodeapi.FlowDenied && r.Direction == "egress" && r.PacketsOut == 1 && r.BytesOut == 29 {
					rules[r.Local+" > "+r.Remote] = r.Rule + r.BuiltIn
				}
			}
			return rules[ip+":7000 > "+lab.WebAddr+":2001"] == "implicit-drop" &&
				rules[ip+":7001 > "+lab.WebAddr+":2002"] == "shut"
		})
		if rest := w.flowLog("--app", "app2"); len(rest) != 0 {
			t.Errorf("of an app whose network has no log: %+v", rest)
		}
		if out := w.cli("flows"); !strings.Contains(out, lab.WebAddr+":"+echoPort) {
			t.Error(out)
		}
		w.apply(config(""))
		w.eventually("the kernel's setting is as before", func() bool { return counting() == was })
	})
}

// listensToFlows waits until the daemon records flows: a flow that ends is in the log.
func (w *world) listensToFlows() {
	w.Helper()
	ip, n := w.ip(app(1)).String(), uint16(0)
	w.eventually("the daemon records flows", func() bool {
		n++
		w.sendUDP(lab.WebAddr, 2000, 60000+n, 1)
		w.in("node", "sh", "-c", fmt.Sprintf("conntrack -D -s %s -p udp --orig-port-src %d || true", ip, 60000+n))
		for _, r := range w.flowLog("--app", "app1") {
			if netip.MustParseAddrPort(r.Local).Port() > 60000 {
				return true
			}
		}
		return false
	})
}

// An app opens thousands of flows, which all end at once. Each is in the log or counted as lost, none of the few flows
// of another network is lost, and the log keeps its size.
func TestThousandsOfFlowsThatEndAtOnceAreAllCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "mate")
	const rules = "udp: {action: allow, direction: egress, match: {protocol: udp, port: 2000}}"
	w.start(doc([]string{network(1, logged), network(2, logged)}, onNet(1, 1, "web", rules), onNet(2, 2, "mate", allowAll)))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	w.lease("web")
	w.lease("mate")
	w.listensToFlows()
	begun := time.Now()
	const many, few = 6000, 5
	w.sendUDP(lab.WebAddr, 2000, 10000, many)
	for range few {
		w.in("mate", "ping", "-c", "1", "-W", "5", lab.WebAddr)
	}
	if w.number("/proc/sys/net/netfilter/nf_conntrack_count") < many {
		t.Fatalf("the kernel tracks %d flows", w.number("/proc/sys/net/netfilter/nf_conntrack_count"))
	}
	w.in("node", "conntrack", "-F")
	w.eventually("each flow is recorded or counted", func() bool {
		web, mate, lost := 0, 0, uint64(0)
		for _, r := range w.flowLog() {
			switch {
			case r.Time.Before(begun):
			case r.Kind == nodeapi.FlowsLost:
				lost += r.Lost
			case r.Name == "app1":
				web++
			case r.Name == "app2" && r.Protocol == "icmp":
				mate++
			}
		}
		t.Logf("%d of app1, %d of app2, %d lost", web, mate, lost)
		return web+int(lost) >= many && mate == few
	})
}

// The log has flows of IPv6 with NAT, and those of a switch network, whose apps have addresses that they chose.
func TestTheFlowLogHasIPv6AndSwitchNetworks(t *testing.T) {
	t.Parallel()
	w := newWorld6(t, "web", "left", "right")
	sw := strings.Replace(switchNetwork(2, ""), "type: switch", "type: switch, flowLog: true", 1)
	const rules = "ping: {action: allow, direction: egress, match: {protocol: icmp}}"
	w.start(doc([]string{network6(1, `subnet: "`+net6+`", nat: true`) + logged, sw}, onNet(1, 1, "web", rules),
		onNet(2, 2, "left", allowAll), onNet(3, 2, "right", "ping: {action: allow, match: {protocol: icmp}}")))
	w.wait("ready", "app/"+app(1), "app/"+app(2), "app/"+app(3))
	from := w.slaac("web", net6).String()
	for short, addr := range map[string]string{"left": "10.5.0.1/24", "right": "10.5.0.2/24"} {
		w.in(short, "ip", "addr", "add", addr, "dev", "eth0")
		w.in(short, "ip", "link", "set", "eth0", "up")
	}
	sent := map[string]bool{}
	defer func() {
		if t.Failed() {
			t.Log(w.cli("flows", "-o", "wide"))
		}
	}()
	w.eventually("flows of IPv6 and of the switch, allowed and denied, are in the log", func() bool {
		w.reaches6("web", isp6Web)
		w.in("left", "ping", "-c", "1", "-W", "5", "10.5.0.2")
		w.in("web", "bash", "-c", "echo x > /dev/udp/"+isp6Web+"/2000")
		w.in("left", "bash", "-c", "echo x > /dev/udp/10.5.0.2/2000")
		w.in("node", "conntrack", "-F", "-f", "ipv6")
		w.in("node", "conntrack", "-F")
		for _, r := range w.flowLog() {
			sent[fmt.Sprintf("%s %s %s %s %s > %s by %s%s nat %t", r.Name, r.Kind, r.Direction, r.Protocol, host(r.Local),
				r.Remote, r.Rule, r.BuiltIn, r.NAT != "")] = true
		}
		for _, want := range []string{
			"app1 end egress icmp " + from + " > " + isp6Web + " by ping nat true",
			"app1 denied egress udp " + from + " > [" + isp6Web + "]:2000 by implicit-drop nat false",
			"app2 end egress icmp 10.5.0.1 > 10.5.0.2 by all nat false",
			"app3 end ingress icmp 10.5.0.2 > 10.5.0.1 by ping nat false",
			"app3 denied ingress udp 10.5.0.2 > 10.5.0.1:",
		} {
			found := false
			for line := range sent {
				found = found || strings.HasPrefix(line, want)
			}
			if !found {
				return false
			}
		}
		return true
	})
}

// host is an end of a flow without its port.
func host(end string) string {
	if a, err := netip.ParseAddrPort(end); err == nil {
		return a.Addr().String()
	}
	return end
}

// Apps with one address talk to one server from one port, each by its own network: the log says of each flow whose it
// was, and as which address and port the server saw it.
func TestTheFlowLogTellsNetworksOfOneSubnetApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a1", "b1", "a2", "b2", "a3", "b3", "a4", "b4")
	nets, apps := natOf("wan", "wan", "wan")
	for i := range nets {
		nets[i] += logged
	}
	w.start(doc(nets, apps...))
	for n := 1; n <= 4; n++ {
		w.wait("ready", "ni/"+ni(n), "app/"+app(2*n))
		w.lease(fmt.Sprint("b", n))
	}
	w.mirrors(w.Provider(0).Short)
	w.eventually("each network's flow is in the log, with its translation", func() bool {
		var want []string
		for n, c := range w.opens("udp4", "4200", lab.WebAddr+":"+mirrorPort, 1, 2, 3, 4) {
			seen, err := echoed(c, fmt.Sprint("network ", n))
			_ = c.Close()
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("ni/%s adapter/%s/0 as %s", ni(n), app(2*n), seen))
		}
		w.in("node", "conntrack", "-F")
		var got []string
		for _, r := range w.flowLog() {
			if r.Local == "10.7.0.6:4200" && r.Remote == lab.WebAddr+":"+mirrorPort && r.PacketsIn == 1 && !r.Denied {
				got = append(got, fmt.Sprintf("%s %s as %s", r.Network, r.Adapter, r.NAT))
			}
		}
		for _, line := range want {
			if !slices.Contains(got, line) {
				t.Logf("%q is not among %q", line, got)
				return false
			}
		}
		return true
	})
}
