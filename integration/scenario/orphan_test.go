package scenario

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// settled returns the dump of the node once duplicate address detection has ended.
func (w *world) settled() string {
	w.Helper()
	w.eventually("no tentative address",
		func() bool { return !strings.Contains(w.in("node", "ip", "-6", "addr"), "tentative") })
	return w.dump("node")
}

// forgets ends the daemon and removes its state folder and its config file: only the host still has its networks.
func (w *world) forgets() {
	w.Helper()
	if err := w.node.Kill(); err != nil {
		w.Fatal(err)
	}
	if err := os.Remove(w.ConfigFile()); err != nil && !os.IsNotExist(err) {
		w.Fatal(err)
	}
	left, err := os.ReadDir(w.StateDir())
	if err != nil || len(left) == 0 {
		w.Fatalf("the state folder holds %v, %v", left, err)
	}
	for _, e := range left {
		if err := os.RemoveAll(filepath.Join(w.StateDir(), e.Name())); err != nil {
			w.Fatal(err)
		}
	}
}

// unclaimed waits until a daemon without a config reports networks as found, and checks that the host is unchanged.
func (w *world) unclaimed(before, pids string, ids ...string) {
	w.Helper()
	for _, id := range ids {
		w.eventually("ni/"+id+" unclaimed", func() bool {
			r, err := w.CLI(w.ctx, "get", "ni", id, "-o", "json")
			return err == nil && r.Code == 0 && w.status("ni", id)["state"] == "Unclaimed"
		})
	}
	if now := w.dump("node"); now != before {
		w.Errorf("with nobody to claim its networks the host changed:\n%s", changed(before, now))
	}
	if now := w.dnsmasq(); now != pids {
		w.Errorf("the dnsmasq were %q and are %q", pids, now)
	}
}

func TestNetworksOfALostStateStayUntilAConfigClaimsOrDeniesThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a", "b", "c")
	empty := w.settled()
	one, two := onNet(1, 1, "a", allowAll), onNet(2, 2, "b", allowAll)
	w.start(doc([]string{network(1, ""), network(2, "")}, one, two))
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
	w.lease("a")
	w.lease("b")
	before, pids, ip := w.dump("node"), w.dnsmasq(), w.ip(app(1))
	ping, err := w.PingLoop("a", netip.MustParseAddr(lab.WebAddr), 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	ask, err := w.DNSLoop("a", netip.MustParseAddr("10.1.0.1"), "app1.n1.edge", ip, 2*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	w.forgets()
	for range 2 { // a restart in between claims nothing
		w.restart()
		w.unclaimed(before, pids, ni(1), ni(2))
		if err := w.node.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	w.restart()
	// A refused config claims nothing and removes nothing.
	for _, bad := range []string{"", "null", "networkInstances: {x: {}}"} {
		if r, err := w.CLIWith(w.ctx, bad, "apply", "-f", "-"); err != nil || r.Code == 0 {
			t.Fatalf("apply %q: exit %d, %v: %s", bad, r.Code, err, r.Err)
		}
	}
	w.unclaimed(before, pids, ni(1), ni(2))

	// The config claims the first network with its app and not the second, which is removed; a third uses the subnet of
	// the second.
	third := onNet(3, 3, "c", allowAll)
	claim := doc([]string{network(1, ""), onSubnet(3, 2)}, one, third)
	w.apply(claim)
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(3), "app/"+app(1), "app/"+app(3))
	w.wait("absent", "ni/"+ni(2))
	w.without("b", "eth0")
	w.serves(3, 3, 2, "c")
	w.holds(claim, 2)
	flow(t, w, ping, ask)
	for name, l := range map[string]*lab.Loop{"pings": ping, "answers": ask} {
		if c := l.Stop(); c.Lost+c.Wrong > 0 || c.Good < 200 {
			t.Errorf("of the claimed network: %s: %v", name, c)
		}
	}
	// A config without any of them removes them all.
	w.forgets()
	w.restart()
	w.unclaimed(w.dump("node"), w.dnsmasq(), ni(1), ni(3))
	w.apply("{}")
	w.wait("absent", "ni/"+ni(1), "ni/"+ni(3))
	w.eventually("the host as it was before", func() bool { return w.dump("node") == empty })
	if now := w.dnsmasq(); now != "" {
		t.Errorf("dnsmasq %s is left", now)
	}
}

// Partial leftovers of a network after a crash or a careless deletion are found and removed.
func TestRestsOfANetworkAreFoundWhateverIsLeftOfIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "a")
	empty := w.settled()
	for name, harm := range map[string][]string{
		"without its bridge":     {"ip", "link", "del", "es1"},
		"without its dnsmasq":    {"sh", "-c", `kill -9 $1`, "kill", "PIDS"},
		"without its run folder": {"rm", "-rf", filepath.Join(w.RunDir(), "ni")},
		"without its chains":     {"sh", "-c", "iptables -F; iptables -t nat -F; iptables -X; iptables -t nat -X"},
		"with its chains alone": {"sh", "-c", `ip link del es1; kill -9 $1; rm -rf ` + filepath.Join(w.RunDir(), "ni"),
			"kill", "PIDS"},
	} {
		config := doc([]string{network(1, "")}, onNet(1, 1, "a", allowAll))
		w.start(config)
		w.apply(config)
		w.wait("ready", "ni/"+ni(1), "app/"+app(1))
		w.forgets()
		argv := append([]string(nil), harm...)
		for i, a := range argv {
			if a == "PIDS" {
				argv[i] = w.dnsmasq()
			}
		}
		w.in("node", argv...)
		w.restart()
		w.eventually(name+": something unclaimed", func() bool { return w.cli("get", "ni", "-o", "name") != "" })
		w.apply("{}")
		w.eventually(name+": nothing", func() bool { return w.cli("get", "ni", "-o", "name") == "" })
		w.eventually(name+": the host as it was before", func() bool { return w.dump("node") == empty })
		if now := w.dnsmasq(); now != "" {
			t.Errorf("%s: dnsmasq %s is left", name, now)
		}
		if err := w.node.Kill(); err != nil {
			t.Fatal(err)
		}
	}
}
