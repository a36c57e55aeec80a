package scenario

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/platform/lab"
)

// status reads the status of one resource.
func status[T any](w *world, kind, id string) (s T) {
	w.Helper()
	out := w.cli("get", kind, id, "-o", "json")
	r := struct{ Status *T }{&s}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		w.Fatalf("get %s %s: %v: %s", kind, id, err, out)
	}
	return s
}

func (w *world) leaseOf(id string) nodeapi.LeaseStatus {
	return status[nodeapi.LeaseStatus](w, "lease", id)
}
func (w *world) dnsOf(id string) nodeapi.DNSStatus { return status[nodeapi.DNSStatus](w, "dns", id) }

// answerTo is the answer of an app to a question.
func (w *world) answerTo(id, name, kind string) nodeapi.DNSAnswer {
	w.Helper()
	s := w.dnsOf(id)
	i := slices.IndexFunc(s.Recent, func(a nodeapi.DNSAnswer) bool { return a.Name == name && a.Type == kind })
	if i < 0 {
		return nodeapi.DNSAnswer{}
	}
	return s.Recent[i]
}

// asksDHCP sends a DHCPREQUEST of an app for an address.
func (w *world) asksDHCP(short string, addr netip.Addr) {
	w.Helper()
	w.sendDHCP(short, netip.IPv4Unspecified(), append([]byte{53, 1, 3, 50, 4}, addr.AsSlice()...)...)
}

// releases sends the DHCPRELEASE of an app that has an address of the first network.
func (w *world) releases(short string, addr netip.Addr) {
	w.Helper()
	w.sendDHCP(short, addr, 53, 1, 7, 54, 4, 10, 1, 0, 1)
}

// sendDHCP sends a message of an app with an address, or without one.
func (w *world) sendDHCP(short string, addr netip.Addr, options ...byte) {
	w.Helper()
	mac := w.mac(short, "eth0")
	p := make([]byte, 236)
	copy(p, []byte{1, 1, 6, 0, 7, 7, 7, 7})
	copy(p[12:], addr.AsSlice())
	copy(p[28:], mac)
	p = append(append(append(p, 99, 130, 83, 99), options...), 255)
	all := netip.MustParseAddr("255.255.255.255")
	frame := ether([]byte{255, 255, 255, 255, 255, 255}, mac, etherIPv4, ipv4(addr, all, 17, udp(68, 67, p)))
	if err := w.raw(short).send(frame); err != nil {
		w.Fatal(err)
	}
}

// As an operator I see which app has which lease, what it asked DNS servers, and the name of what it talks to, also
// after a restart of the daemon.
func TestLeasesAndDNSAnswersAreWatched(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	w.echoes(1, lab.WebAddr)
	w.start(doc([]string{network(1, logged)}, onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll)))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	defer func() {
		if t.Failed() {
			t.Log(w.cli("get", "lease", "-o", "wide"), w.cli("get", "dns", "-o", "wide"), w.cli("events"))
		}
	}()
	if l := w.leaseOf("app1/0"); l.State != nodeapi.NoLease {
		t.Errorf("before a lease: %+v", l)
	}
	ip := w.ip(app(1))
	leased := func(state string) {
		t.Helper()
		w.eventually("the lease is "+state, func() bool { return w.leaseOf("app1/0").State == state })
	}
	lease := func(app string) func() bool {
		return func() bool { w.lease(app); return w.leaseOf("app1/0").State != nodeapi.NoLease }
	}
	w.eventually("the lease is observed", lease("web")) // the daemon may begin to watch after the app is ready
	l := w.leaseOf("app1/0")
	if l.Address != ip || l.Expected != ip || l.Name != "app1" || l.Server.String() != "10.1.0.1" || l.Until.IsZero() {
		t.Errorf("%+v", l)
	}
	w.lease("web")
	leased("renewed")
	shown := func(word string) {
		t.Helper()
		w.eventually("the adapter's status says "+word, func() bool {
			return status[nodeapi.AdapterStatus](w, "adapter", "app1/0").Lease == word
		})
	}
	shown("assigned")
	w.asksDHCP("web", netip.MustParseAddr("10.1.0.77"))
	leased("refused")
	shown("refused")
	w.lease("web")
	leased("assigned")
	if out := w.cli("events", "--kind", "lease"); !strings.Contains(out, "lease refused") {
		t.Error(out)
	}

	for _, by := range []string{"+notcp", "+tcp"} {
		w.eventually("an answer is kept "+by, func() bool {
			w.in("web", "dig", by, "@10.1.0.1", lab.WebName)
			a := w.answerTo("app1/0", lab.WebName, "A")
			return len(a.Addresses) == 1 && a.Addresses[0].String() == lab.WebAddr && a.RCode == "NOERROR" &&
				a.TCP == (by == "+tcp") && a.Server.String() == "10.1.0.1"
		})
	}
	w.in("web", "dig", "@10.1.0.1", "Nothing.n1.edge")
	w.eventually("a refusal is kept", func() bool { return w.answerTo("app1/0", "nothing.n1.edge", "A").RCode == "NXDOMAIN" })
	w.in("web", "dig", "@"+lab.DNSAddr, lab.WebName, "AAAA") // not by the network's own server
	w.eventually("an answer of another server is kept", func() bool {
		return w.answerTo("app1/0", lab.WebName, "AAAA").Server.String() == lab.DNSAddr
	})
	if s := w.dnsOf("app1/0"); s.Queries < 4 || s.Answers["NOERROR"] < 2 || s.Answers["NXDOMAIN"] < 1 || s.Name != "app1" {
		t.Errorf("%+v", s)
	}
	if s := w.dnsOf("app2/0"); s.Queries != 0 || len(s.Recent) != 0 {
		t.Errorf("of an app that asked nothing: %+v", s)
	}
	if out := w.cli("get", "dns", "app1/0"); !strings.Contains(out, lab.WebName) || !strings.Contains(out, lab.WebAddr) {
		t.Error(out)
	}
	if out := w.cli("metrics"); !strings.Contains(out, `edgespan_network_dns_answers_total{network="`+ni(1)+`",rcode="nxdomain"}`) {
		t.Error("the metrics lack DNS answers")
	}

	w.listensToFlows()
	if !slices.ContainsFunc(w.flowLog("--app", "app1"), func(r nodeapi.FlowRecord) bool { return r.RemoteName == lab.WebName }) {
		t.Errorf("the flow log has no name: %+v", w.flowLog())
	}

	if err := w.node.Kill(); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wait("ready", "app/"+app(1))
	w.eventually("the recorded lease is taken over", func() bool {
		l := w.leaseOf("app1/0")
		return l.State == "assigned" && l.Recorded && l.Address == ip
	})
	w.releases("web", ip)
	leased("released")
	shown("released")
}

// An app floods the DNS of its network with random names, the port of a server with what is no DNS, and gives back its
// lease all the time. What is kept of it is bounded and its own; the lease and the answers of its neighbour and of an app
// of another network stay, new ones come, and the daemon is well.
func TestAFloodOfDNSHidesNothingOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client", "mate")
	w.start(doc([]string{network(1, ""), network(2, "")}, onNet(1, 1, "web", allowAll), onNet(2, 1, "client", allowAll),
		onNet(3, 2, "mate", allowAll)))
	w.wait("ready", "app/"+app(1), "app/"+app(2), "app/"+app(3))
	ask := func(of, server, id, name string) {
		t.Helper()
		w.eventually("an answer of "+of+" is kept", func() bool {
			w.in(of, "dig", "+tries=3", "@"+server, name)
			return w.answerTo(id, name, "A").Count > 0
		})
	}
	for _, a := range []string{"web", "client", "mate"} {
		w.lease(a)
	}
	ask("client", "10.1.0.1", "app2/0", "before."+lab.WebName)
	ask("mate", "10.2.0.1", "app3/0", "before."+lab.WebName)
	before := w.daemonMemory()

	web, gate, own, ip := w.raw("web"), w.mac("node", "es1"), w.mac("web", "eth0"), w.ip(app(1))
	gateway, server := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr(lab.DNSAddr)
	send := func(to netip.Addr, payload []byte) {
		if err := web.send(ether(gate, own, etherIPv4, ipv4(ip, to, 17, udp(uint16(1024+rand.N(60000)), 53, payload)))); err != nil {
			t.Error(err)
		}
	}
	const turns = 20000
	for n := range turns {
		q, err := new(dns.Msg).SetQuestion(fmt.Sprintf("n%d.n1.edge.", n), dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		send(gateway, q)
		send(server, q[:rand.N(len(q))])
		loop := append(slices.Clone(q[:12]), 63)
		send(server, append(append(loop, strings.Repeat("\x1b", 63)...), 0xc0, 12, 0, 1, 0, 1))
		if n%1000 == 500 {
			w.asksDHCP("web", netip.MustParseAddr("10.1.0.77"))
			ask("mate", "10.2.0.1", "app3/0", fmt.Sprintf("during%d.%s", n, lab.WebName))
		}
	}
	s := w.dnsOf("app1/0")
	if len(s.Recent) > 8192 || s.Queries == 0 {
		t.Errorf("%d answers are kept of %d queries", len(s.Recent), s.Queries)
	}
	out := w.cli("metrics")
	count := func(name string) (n int) {
		for _, line := range strings.Split(out, "\n") {
			if rest, ok := strings.CutPrefix(line, name); ok {
				if _, err := fmt.Sscan(strings.TrimSpace(rest), &n); err != nil {
					t.Fatal(err)
				}
			}
		}
		return n
	}
	of := `{network="` + ni(1) + `"`
	read, bad, unread := count("edgespan_network_dns_queries_total"+of+"}"), count("edgespan_network_watched_malformed_total"+of+"}"),
		count("edgespan_network_watched_unread_total"+of+`,protocol="dns"}`)
	t.Logf("of %d packets: %d queries and %d malformed ones read, %d unread; the daemon's memory rose by %d KiB", 3*turns, read,
		bad, unread, w.daemonMemory()-before)
	if bad == 0 || read+bad+unread < turns/2 {
		t.Error("most are not counted")
	}
	if grown := w.daemonMemory() - before; grown > 48<<10 {
		t.Errorf("the daemon has grown by %d KiB", grown)
	}
	for _, id := range []string{"app2/0", "app3/0"} {
		if w.answerTo(id, "before."+lab.WebName, "A").Count == 0 {
			t.Errorf("the answers of %s are lost", id)
		}
	}
	ask("client", "10.1.0.1", "app2/0", "after."+lab.WebName)
	if l := w.leaseOf("app2/0"); l.State != "assigned" && l.State != "renewed" {
		t.Errorf("the lease of the neighbour: %+v", l)
	}
	w.lease("web")
	w.eventually("the lease of the app itself is seen", func() bool { return w.leaseOf("app1/0").State == "assigned" })
	if n := strings.Count(w.cli("events", "--kind", "lease", "-n", "0"), "lease refused"); n > 10 {
		t.Errorf("%d events of one app", n)
	}
	w.wait("ready", "app/"+app(1), "app/"+app(2), "app/"+app(3))
}
