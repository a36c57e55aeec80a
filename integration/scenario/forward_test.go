package scenario

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"edgespan/platform/lab"
)

// lanHost gives the node a LAN that no config names, and the uplink's side a route to it.
func (w *world) lanHost(short string) {
	w.Helper()
	w.in("node", "ip", "link", "add", "lan0", "type", "veth", "peer", "name", "eth0", "netns", w.NS(short))
	w.in("node", "ip", "link", "set", "lan0", "addrgenmode", "none") // duplicate detection would end with a change
	w.in("node", "ip", "addr", "add", "203.0.113.1/24", "dev", "lan0")
	w.in("node", "ip", "link", "set", "lan0", "up")
	w.in(short, "ip", "addr", "add", "203.0.113.2/24", "dev", "eth0")
	w.in(short, "ip", "link", "set", "eth0", "up")
	w.in(short, "ip", "route", "add", "default", "via", "203.0.113.1")
	w.in("isp", "ip", "route", "add", "203.0.113.0/24", "via", lab.NodeAt)
}

// noTransit checks that no packet passes between the LAN and the uplink. The third direction has the packets of
// answers and floods, which get no answer.
func (w *world) noTransit(when string) {
	w.Helper()
	for _, way := range [][2]string{{"lan", "192.0.2.1"}, {"isp", "203.0.113.2"}} {
		if r, err := w.Exec(w.ctx, way[0], "ping", "-c", "1", "-W", "1", way[1]); err != nil || r.Code == 0 {
			w.Errorf("%s: %s reaches %s: %v", when, way[0], way[1], err)
		}
	}
}

func (w *world) forwarding(links ...string) string {
	w.Helper()
	var values []string
	for _, l := range links {
		values = append(values, l+"="+w.in("node", "cat", "/proc/sys/net/ipv4/conf/"+l+"/forwarding"))
	}
	return strings.Join(values, " ")
}

// edgespan opens forwarding for apps only, and leaves the host's own forwarding alone.
func TestForwardingIsOpenedForAppsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "lan")
	w.lanHost("lan")
	w.start(wan)
	before := w.dump("node")
	w.noTransit("with an empty config")
	w.apply(doc([]string{network(1, "")}, onNet(1, 1, "a", allowAll)))
	w.wait("ready", "app/"+app(1))
	w.lease("a")
	out, err := w.PingLoop("a", netip.MustParseAddr(lab.WebAddr), 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := out.WaitGood(w.ctx, 3); err != nil {
		t.Fatal(err)
	}
	if got, want := w.forwarding("all", "default", "uplink0", "lan0", "es1"),
		"all=0 default=0 uplink0=1 lan0=0 es1=1"; got != want {
		t.Errorf("forwarding is %s, want %s", got, want)
	}
	heard := w.sniff("lan", "eth0", "from the uplink")
	w.noTransit("with a network")
	w.in("isp", "sh", "-c",
		"printf 'from the uplink' | socat - UDP-SENDTO:203.0.113.2:9 || printf 'from the uplink' | busybox nc -u -w 1 "+
			"203.0.113.2 9 || true")
	if n := heard.count("from the uplink"); n > 0 {
		t.Errorf("%d frames of the uplink reached the LAN", n)
	}

	w.in("node", "sysctl", "-qw", "net.ipv4.ip_forward=1") // as Docker does
	w.eventually("the host forwards as it wants", func() bool {
		one, err := w.Exec(w.ctx, "lan", "ping", "-c", "1", "-W", "1", "192.0.2.1")
		two, err2 := w.Exec(w.ctx, "isp", "ping", "-c", "1", "-W", "1", "203.0.113.2")
		return err == nil && err2 == nil && one.Code == 0 && two.Code == 0
	})
	if err := out.WaitGood(w.ctx, 3); err != nil {
		t.Error(err)
	}

	w.in("node", "sysctl", "-qw", "net.ipv4.ip_forward=0")
	began := time.Now()
	w.eventually("the links of apps forward again",
		func() bool { return w.forwarding("uplink0", "es1") == "uplink0=1 es1=1" })
	t.Logf("apps forward again %v after ip_forward=0", time.Since(began).Round(time.Millisecond))
	if took := time.Since(began); took > scaled(2*time.Second) {
		t.Errorf("apps were cut off for %v", took)
	}
	if err := out.WaitGood(w.ctx, 3); err != nil {
		t.Error(err)
	}
	w.noTransit("after ip_forward=0")

	// The host opens its links after edgespan opened the port: that is its decision.
	w.in("node", "sysctl", "-qw", "net.ipv4.conf.lan0.forwarding=1")
	w.eventually("the LAN is forwarded", func() bool {
		r, err := w.Exec(w.ctx, "lan", "ping", "-c", "1", "-W", "1", "192.0.2.1")
		return err == nil && r.Code == 0
	})
	w.in("node", "sysctl", "-qw", "net.ipv4.conf.lan0.forwarding=0")
	out.Stop()

	w.apply("{}")
	w.wait("absent", "ni/"+ni(1))
	if after := w.dump("node"); after != before {
		t.Errorf("the host is not as it was found (-before +after):\n%s", cmp.Diff(before, after))
	}
	w.noTransit("after an empty config")
}

// A release that turned on forwarding for the whole host leaves that, with a record. It is kept while networks exist,
// since turning it off closes every link for a moment, and turned off with the last network unless another program
// relies on it.
func TestForwardingOfAFormerReleaseIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "lan")
	w.lanHost("lan")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "a", allowAll)))
	w.wait("ready", "app/"+app(1))
	w.lease("a")
	record := filepath.Join(w.RunDir(), "host", "sysctl.json")
	former := func() {
		t.Helper()
		if err := w.node.Kill(); err != nil {
			t.Fatal(err)
		}
		w.in("node", "sysctl", "-qw", "net.ipv4.ip_forward=1")
		if err := os.WriteFile(record, []byte(`{"net/ipv4/ip_forward":{"old":"0","ours":"1"}}`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	former()
	out, err := w.PingLoop("a", netip.MustParseAddr(lab.WebAddr), 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.wait("ready", "app/"+app(1))
	if got := w.forwarding("all", "es1"); got != "all=1 es1=1" {
		t.Errorf("after the upgrade forwarding is %s", got)
	}
	if c := out.Stop(); c.Lost > 0 {
		t.Errorf("the upgrade lost packets of an app: %s", c)
	}
	w.apply("{}")
	w.wait("absent", "ni/"+ni(1))
	w.eventually("the host forwards no more", func() bool {
		return w.forwarding("all", "uplink0", "lan0") == "all=0 uplink0=0 lan0=0"
	})
	w.apply(doc([]string{network(1, "")}, onNet(1, 1, "a", allowAll)))
	w.wait("ready", "app/"+app(1))
	w.noTransit("after the upgrade")

	former()
	w.in("node", "iptables", "-N", "DOCKER-USER")
	w.in("node", "iptables", "-A", "FORWARD", "-j", "DOCKER-USER")
	w.restart()
	w.wait("ready", "app/"+app(1))
	if got := w.forwarding("all", "lan0"); got != "all=1 lan0=1" {
		t.Errorf("other programs rely on it, and forwarding is %s", got)
	}
	w.apply("{}")
	w.wait("absent", "ni/"+ni(1))
	if got := w.forwarding("all", "uplink0", "lan0"); got != "all=1 uplink0=1 lan0=1" {
		t.Errorf("other programs rely on it, and after an empty config forwarding is %s", got)
	}
}
