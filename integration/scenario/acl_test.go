package scenario

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// Exit codes of curl: an answer, and a server that never answers. A refused connection is 7.
const fetched, timedOut = 0, 28

// fetch returns curl's exit code.
func (w *world) fetch(app, port string, within time.Duration) int {
	w.Helper()
	r, err := w.Exec(w.ctx, app, "curl", "-s", "-o", "/dev/null", "--max-time", fmt.Sprint(within.Seconds()), "http://"+
		lab.WebAddr+":"+port+"/")
	if err != nil {
		w.Fatal(err)
	}
	return r.Code
}

// gets checks which ports of the provider's web server an app can reach, and which are silent.
func (w *world) gets(why, app string, open, silent string) {
	w.Helper()
	if open != "" {
		if code := w.fetch(app, open, timeout); code != fetched {
			w.Errorf("%s: curl of %s to port %s ends with %d", why, app, open, code)
		}
	}
	if silent != "" {
		if code := w.fetch(app, silent, denial); code != timedOut {
			w.Errorf("%s: curl of %s to port %s ends with %d, want %d", why, app, silent, code, timedOut)
		}
	}
}

func TestEachAppHasItsOwnRulesAndTheyChangeWhileItRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web", "client")
	nets := []string{network(1, "")}
	const plain = "ip: 198.51.100.80, protocol: tcp, port: 80"
	const secure = "ip: 198.51.100.80, protocol: tcp, port: 443"
	web := onNet(1, 1, "web", acl("allow egress "+plain, "allow egress ip: 198.51.100.80, protocol: icmp"))
	w.start(doc(nets, web, onNet(2, 1, "client", acl("allow egress "+secure))))
	w.wait("ready", "app/"+app(1), "app/"+app(2))
	l := w.lease("web")
	w.lease("client")
	standing := func() string {
		return w.dnsmasq() + w.in("web", "cat", "/sys/class/net/eth0/ifindex") +
			w.in("client", "ip", "-4", "-o", "addr", "show", "dev", "eth0")
	}
	apart := func(why string) {
		w.Helper()
		w.fails("web", "ping", "-c1", "-W0.4", w.ip(app(2)).String())
		w.fails("client", "ping", "-c1", "-W0.4", l.IP.String())
		w.in("web", "ping", "-c1", "-W5", lab.WebAddr)
		w.fails("client", "ping", "-c1", "-W0.4", lab.WebAddr)
		w.gets(why, "web", "80", "443")
	}
	w.gets("at first", "client", "443", "80")
	apart("at first")
	before := standing()
	w.obey(nets, web, onNet(2, 1, "client", acl("allow egress "+secure, "allow egress "+plain)))
	w.gets("with one rule more", "client", "80", "")
	w.gets("with one rule more", "client", "443", "")
	apart("with one rule more of the other")
	w.obey(nets, web, onNet(2, 1, "client", acl("allow egress "+plain)))
	w.gets("with the first rule gone", "client", "80", "443")
	apart("with one rule less of the other")
	if now := standing(); now != before {
		t.Errorf("the rules changed more than themselves:\n%s", changed(before, now))
	}
}

func TestADropBeforeAnAllowTakesOneHostAlone(t *testing.T) {
	t.Parallel()
	const other = "198.51.100.81"
	w, nets := town(t)
	w.in("isp", "ip", "addr", "add", other+"/32", "dev", "lo")
	w.echo("isp", "udp4", other+":7")
	w.obey(nets, onNet(1, 1, "web", acl("drop both ip: 198.51.100.80", "allow both")), onNet(2, 1, "client", allowAll),
		onNet(3, 2, "guest", ""))
	w.missesAll("the host that is dropped", "web", world7)
	w.fails("web", "ping", "-c1", "-W0.4", lab.WebAddr)
	for _, network := range []string{"tcp4", "udp4"} {
		w.reaches("another host", "web", network, "", other+":7")
		w.reaches("another app", "web", network, "", clientIP+":7")
	}
	w.reaches("the same host from another app", "client", "tcp4", "", world7)
	w.reaches("from another app", "client", "tcp4", "", webIP+":7")
}

// The frames of a switch never pass the node's IP layer; the rules apply all the same.
func TestTheRulesOfASwitchHoldAddressAndPort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "lan", "a", "b", "c")
	w.segment()
	w.in("lan", "ip", "addr", "add", "10.77.0.2/24", "dev", "eth0")
	nets := []string{switchNetwork(1, "lan")}
	a := onNet(1, 1, "a", acl("allow egress ip: 10.77.0.1, protocol: tcp, port: 80"))
	c := onNet(3, 1, "c", acl("drop both ip: 10.77.0.2", "allow both"))
	w.start(lanDoc(nets, a, onNet(2, 1, "b", ""), c))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2), "app/"+app(3))
	at := map[string]string{}
	for _, who := range []string{"a", "b", "c"} { // including b, which has no rule
		at[who] = w.lease(who).IP.String()
		w.echo(who, "tcp4", "0.0.0.0:80")
	}
	for _, addr := range []string{"0.0.0.0:80", "0.0.0.0:81"} {
		w.echo("lan", "tcp4", addr)
	}
	const first, second = "10.77.0.1:", "10.77.0.2:"
	misses := func(why, from string, to ...string) {
		w.Helper()
		var asking sync.WaitGroup
		for _, addr := range to {
			asking.Go(func() { w.misses(why, from, "tcp4", "", addr) })
		}
		asking.Wait()
	}
	standing := func() string { return w.in("node", "ip", "-o", "link", "show", "master", "es1") }
	apart := func() {
		w.Helper()
		w.reaches("an address and a port", "a", "tcp4", "", first+"80")
		misses("another port, another address", "a", first+"81", second+"80")
		w.fails("a", "ping", "-c1", "-W0.4", "10.77.0.1")
		w.reaches("all but one", "c", "tcp4", "", first+"81")
		w.in("c", "ping", "-c1", "-W5", "10.77.0.1")
		misses("the one that is dropped", "c", second+"80")
		w.fails("lan", "ping", "-c1", "-W0.4", "-I", "10.77.0.2", at["c"])
		w.in("lan", "ping", "-c1", "-W5", at["c"])
		misses("an app that allows nothing in", "c", at["a"]+":80", at["b"]+":80")
		misses("an app of which no rule speaks", "a", at["b"]+":80", at["c"]+":80")
	}
	apart()
	misses("no rule", "b", first+"80", second+"80", at["c"]+":80")
	w.fails("b", "ping", "-c1", "-W0.4", "10.77.0.1")
	before := standing()
	w.apply(lanDoc(nets, a, onNet(2, 1, "b", acl("allow egress ip: 10.77.0.2, protocol: tcp, port: 81")), c))
	w.wait("ready", "app/"+app(2))
	w.reaches("a rule that came", "b", "tcp4", "", second+"81")
	misses("what it does not name", "b", second+"80", first+"81")
	apart()
	if now := standing(); now != before {
		t.Errorf("the rules changed more than themselves:\n%s", changed(before, now))
	}
}
