package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

// Apps keep their links, addresses and flows whatever an uplink does, and DHCP announces the MTU of the way out.
func TestAppsLiveOnWhenUplinksOfOtherMTUsComeAndGo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, second int }{{1400, 0}, {1500, 1420}, {9000, 1492}} {
		t.Run(fmt.Sprintf("%d and %d", c.first, c.second), func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, lab.Options{Apps: []string{"web", "db"}, Second: c.second != 0, MTU: c.first, MTU2: c.second})
			d := doc([]string{strings.Replace(network(1, ""), "port: wan", "port: uplink", 1)}, onNet(1, 1, "web", allowAll),
				onNet(2, 1, "db", allowAll))
			if c.second != 0 {
				d = strings.Replace(d, wan, wan+"  lte: {ifName: uplink1, uplink: true, cost: 10, dnsServers: 198.51.100.53}\n", 1)
			}
			w.start(d)
			w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
			if got := w.lease("web").MTU; got != strconv.Itoa(c.first) {
				t.Errorf("DHCP told an MTU of %s, want %d", got, c.first)
			}
			w.lease("db")
			// An app may rename its side.
			w.in("db", "ip", "link", "set", "eth0", "name", "lan0")
			links, helpers := w.links("db", "lan0")+w.links("web", "eth0"), w.dnsmasq()
			ping, err := w.PingLoop("web", netip.MustParseAddr("10.1.0.129"), 5*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			w.mtus(c.first)

			w.in("isp", "ip", "link", "set", "node0", "down")
			if c.second != 0 {
				w.eventually("the other uplink", func() bool { return w.status("ni", ni(1))["port"] == "lte" })
				w.mtus(c.second)
				w.in("isp2", "ip", "link", "set", "node1", "down")
			}
			w.eventually("no uplink", func() bool { return w.status("ni", ni(1))["state"] == "WaitingForDependencies" })
			last := cmp.Or(c.second, c.first)
			w.mtus(last)
			flow(t, w, ping)
			// A daemon that starts while there is no uplink keeps the MTU of the links.
			if err := w.node.Kill(); err != nil {
				t.Fatal(err)
			}
			w.restart()
			w.eventually("no uplink", func() bool { return w.status("ni", ni(1))["state"] == "WaitingForDependencies" })
			w.mtus(last)

			w.in("isp", "ip", "link", "set", "node0", "up")
			w.wait("ready", "ni/"+ni(1), "app/"+app(1), "app/"+app(2))
			w.mtus(c.first)
			flow(t, w, ping)
			n := ping.Stop()
			t.Logf("pings between the apps: %v", n)
			if n.Lost+n.Wrong > 0 || n.Good < 100 {
				t.Errorf("pings between the apps: %v, want none lost", n)
			}
			if now := w.links("db", "lan0") + w.links("web", "eth0"); now != links {
				t.Errorf("the apps' links were\n%s\nand are\n%s", links, now)
			}
			if now := w.dnsmasq(); now != helpers {
				t.Errorf("dnsmasq was %q and is %q", helpers, now)
			}
		})
	}
}

// links returns an app's interface without its MTU: its index, which a recreated one would not have, and its
// addresses.
func (w *world) links(app, dev string) string {
	w.Helper()
	number, _, _ := strings.Cut(w.in(app, "ip", "-o", "link", "show", dev), ":")
	return number + " " + w.in(app, "ip", "-br", "-4", "addr", "show", dev) + "\n"
}

// mtus waits until the bridge, both adapters' links, the apps' sides and DHCP have the same MTU.
func (w *world) mtus(want int) {
	w.Helper()
	mtu := func(ns, dev string) string {
		_, rest, _ := strings.Cut(w.in(ns, "ip", "-o", "link", "show", dev), " mtu ")
		return strings.Fields(rest)[0]
	}
	var got string
	w.eventually(fmt.Sprintf("an MTU of %d", want), func() bool {
		opts := w.in("node", "cat", w.RunDir()+"/ni/1/conf/opts")
		_, reported, _ := strings.Cut(opts, "option:mtu,")
		got = strings.Join([]string{mtu("node", "es1"), mtu("node", "es1a1"), mtu("node", "es1a2"), mtu("web", "eth0"),
			mtu("db", "lan0"), strings.Fields(reported)[0]}, " ")
		return got == strings.TrimSpace(strings.Repeat(strconv.Itoa(want)+" ", 6))
	})
}

// As an operator I have an uplink with a small MTU, on which ICMP messages get lost: TCP connections work all the same,
// in both directions and both families, also those of a guest that has not taken its MTU from DHCP.
func TestConnectionsFitASmallUplinkWithoutICMP(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ network, port string }{
		"the network's MTU is larger": {network: "    mtu: 1500\n"}, "the guest's MTU is larger": {},
		"only the path's is small": {port: ", mtu: 1280"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld6(t, "web")
			peer := w.Provider(0).Peer
			w.in("isp", "ip", "link", "set", peer, "gso_max_segs", "1")
			if c.port == "" { // the provider sends full packets, and the node's end of the link drops them without a word
				w.in("node", "ip", "link", "set", lab.Uplink, "mtu", "1280")
			} else {
				w.in("isp", "nft", "add table inet path; add chain inet path in { type filter hook prerouting priority -300; }; "+
					"add chain inet path out { type filter hook output priority -300; }; "+
					"add rule inet path in iifname "+peer+" meta length > 1280 drop; add rule inet path out meta length > 1280 drop")
			}
			w.start(strings.Replace(doc([]string{network6(1, `subnet: "`+net6+`", nat: true`) + c.network},
				onNet(1, 1, "web", allowAll)), "uplink: true", "uplink: true"+c.port, 1))
			w.wait("ready", "ni/"+ni(1), "app/"+app(1))
			w.slaac("web", net6)
			w.lease("web")
			w.in("web", "ip", "link", "set", "eth0", "mtu", "1500", "gso_max_segs", "1")
			w.in("web", "nft", "add table inet deaf; add chain inet deaf in { type filter hook input priority 0; }; "+
				"add rule inet deaf in icmp type destination-unreachable drop; add rule inet deaf in icmpv6 type packet-too-big drop")
			for _, at := range []string{lab.WebAddr + ":7", "[" + isp6Web + "]:7"} {
				w.echo("isp", "tcp", at)
				c, err := w.dial("web", "tcp", "", at, timeout)
				if err != nil {
					t.Fatalf("%s: %v", at, err)
				}
				if err := carries(c, 1<<20, timeout); err != nil {
					t.Errorf("a megabyte to %s and back: %v", at, err)
				}
				_ = c.Close()
			}
		})
	}
}

// carries sends n octets over a connection to an echo server, and waits until all have come back.
func carries(c net.Conn, n int64, within time.Duration) error {
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(make([]byte, n))
		sent <- err
	}()
	got, err := io.CopyN(io.Discard, c, n)
	if err != nil {
		return fmt.Errorf("%d of %d octets came back: %w", got, n, errors.Join(err, <-sent))
	}
	return <-sent
}
