package scenario

import (
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// An apply that uses a subnet of the host is refused.
func TestAnApplyOfTheHostsOwnSubnetIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a")
	w.start(wan)
	w.in("node", "ip", "addr", "add", "10.3.0.5/32", "dev", "lo")
	clash := strings.NewReplacer("10.1.0.0/24", "192.0.2.0/25", "10.2.0.0/24",
		"10.3.0.0/24").Replace(doc([]string{network(1, ""), network(2, "")}))
	for _, command := range []string{"plan", "apply"} {
		var said string
		w.eventually(command+" is refused", func() bool { // the address of lo may not be known yet
			r, err := w.CLIWith(w.ctx, clash, command, "-f", "-")
			said = r.Err
			return err == nil && r.Code == 4 && strings.Contains(said, "10.3.0.5/32 on lo")
		})
		for n, what := range map[int]string{1: "192.0.2.2/24 on uplink0", 2: "10.3.0.5/32 on lo"} {
			if want := fmt.Sprintf("networkInstances.%s.ipv4.subnet: overlaps %s: must be", ni(n), what); !strings.Contains(said,
				want) {
				t.Errorf("%s says %q, want %q in it", command, said, want)
			}
		}
	}
	if out := w.cli("get", "ni", "-o", "name"); strings.TrimSpace(out) != "" {
		t.Errorf("there are networks: %s", out)
	}
	// A file is accepted: the node must not be without its config, and may have no lease yet.
	if err := w.WriteConfig([]byte(clash)); err != nil {
		t.Fatal(err)
	}
	if err := w.node.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	w.eventually("the networks of the file are withdrawn", func() bool {
		return strings.Count(w.cli("get", "ni", "-o", "json"), `"state": "WaitingForDependencies"`) == 2
	})
	// A network that is withdrawn already does not prevent other changes.
	w.apply(strings.Replace(clash, "displayName: net1", "displayName: first", 1))
}

// The uplink gets an address of a network's subnet, as by a DHCP lease. The uplink's neighbours must not notice the
// network, and the apps must not lose their links.
func TestAClashWithdrawsANetworkUntilItEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b")
	w.start(doc([]string{network(1, "")}, onNet(1, 1, "a", allowAll), onNet(2, 1, "b", allowAll)))
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	a, b := w.lease("a"), w.lease("b")
	links := w.in("a", "ip", "-o", "link", "show", "eth0") + w.in("node", "ip", "-o", "-br", "link", "show", "es1a1")
	web := netip.MustParseAddr(lab.WebAddr)
	out, err := w.PingLoop("a", web, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if err := out.WaitGood(w.ctx, 3); err != nil {
		t.Fatal(err)
	}

	w.noAnswerByARP("10.1.0.1") // even while the node has the address
	w.in("a", "ping", "-c", "1", "-W", "2", "10.1.0.1")

	// A host of the LAN that the node has not met yet, and the LAN's router on it.
	w.in("isp", "ip", "addr", "add", "10.1.0.9/24", "dev", "node0")
	neighbour, err := w.PingLoop("node", netip.MustParseAddr("10.1.0.9"), 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	w.in("node", "ip", "addr", "add", "10.1.0.77/24", "dev", "uplink0")
	if err := neighbour.WaitGood(w.ctx, 1); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("the neighbour is reached %v after the address came", took.Round(time.Millisecond))
	if took > scaled(2*time.Second) {
		t.Errorf("the subnet was released after %v", took)
	}
	before := neighbour.Count()
	const why = "subnet 10.1.0.0/24 overlaps 10.1.0.77/24 on uplink0"
	w.eventually("the network says what it clashes with", func() bool {
		s := w.status("ni", ni(1))
		return s["state"] == "WaitingForDependencies" && s["error"] == why
	})
	if events := w.cli("events"); !strings.Contains(events, why) {
		t.Errorf("no event tells of it:\n%s", events)
	}
	if r, err := w.CLI(w.ctx, "diff"); err != nil || r.Code != 0 {
		t.Errorf("diff: exit %d, %v: %s%s", r.Code, err, r.Out, r.Err)
	}
	w.noAnswerByARP("10.1.0.1")
	w.noAnswerByARP(a.IP.String())
	for _, c := range []string{"ip -o addr show dev es1", "ip rule show table 20001", "ip route show table 20001",
		"pgrep -f " + w.RunDir() + "/ni/1/"} {
		if r, err := w.Exec(w.ctx, "node", strings.Fields(c)...); err != nil || strings.Contains(r.Out, "10.1.0.") ||
			strings.HasPrefix(c, "pgrep") && r.Code == 0 {
			t.Errorf("%s: %v: %s", c, err, r.Out)
		}
	}
	w.in("a", "ping", "-c", "1", "-W", "2", b.IP.String()) // through the bridge only
	if after := neighbour.Stop(); after.Lost > before.Lost+before.Wrong+int(took/(20*time.Millisecond))+1 {
		t.Errorf("the neighbour is lost again: %v, before %v", after, before)
	}

	w.in("node", "ip", "addr", "del", "10.1.0.77/24", "dev", "uplink0")
	w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
	if err := out.WaitGood(w.ctx, 3); err != nil {
		t.Errorf("the app does not reach the web again: %v", err)
	}
	out.Stop()
	if now := w.in("a", "ip", "-o", "link", "show", "eth0") +
		w.in("node", "ip", "-o", "-br", "link", "show", "es1a1"); now != links {
		t.Errorf("links were %s, are %s", links, now)
	}
}

// noAnswerByARP requests an address from the uplink's neighbour and expects no answer.
func (w *world) noAnswerByARP(ip string) {
	w.Helper()
	w.in("isp", "ip", "neigh", "flush", "dev", "node0")
	w.in("isp", "ip", "route", "replace", ip+"/32", "dev", "node0")
	_, _ = w.Exec(w.ctx, "isp", "ping", "-c", "2", "-i", "0.3", "-W", "1", ip)
	if n := w.in("isp", "ip", "neigh", "show", ip); strings.Contains(n, "lladdr") {
		w.Errorf("somebody answers for %s: %s", ip, n)
	}
	w.in("isp", "ip", "route", "del", ip+"/32", "dev", "node0")
}
