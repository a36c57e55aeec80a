package netns_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/platform/vpn/wireguard/helper"
)

func TestAPeerRoams(t *testing.T) {
	t.Parallel()
	l := newWGLab(t, 1)
	v := l.vpn(1)
	l.put(v)
	p := l.peers[0]
	reached(t, l.node, p.inside)
	p.ns.Exec(t, "ip", "addr", "add", wgUnder(77).String()+"/24", "dev", "u0")
	p.ns.Exec(t, "ip", "addr", "del", p.under.String()+"/24", "dev", "u0")
	p.ns.Exec(t, "ip", "addr", "replace", wgUnder(77).String()+"/24", "dev", "u0") // the last one takes all with it
	until(t, "the peer speaks from its new address", func() bool {
		_ = ping(t, p.ns, wgInside(1), 1, "1")
		return l.status().Peers[0].Endpoint == wgUnder(77).String()+":51820"
	})
	if lost := ping(t, l.node, p.inside, 20, "0.01"); lost > 0 {
		t.Errorf("%d of 20 packets to its new address are lost", lost)
	}
	l.asDesired(v)
	v.Generation, v.MTU = 2, 1400
	l.put(v) // leaves it where it is
	if got := l.status().Peers[0].Endpoint; got != wgUnder(77).String()+":51820" {
		t.Errorf("a change of something else moves it to %s", got)
	}
}

// The node's choice of an uplink changes the routes of the tunnel's mark, and nothing else.
func TestATunnelLeavesByTheRouteOfItsMark(t *testing.T) {
	t.Parallel()
	for name, six := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testRouteOfMark(t, six)
		})
	}
}

func testRouteOfMark(t *testing.T, six bool) {
	t.Helper()
	l := newWGLab(t, 1)
	p := l.peers[0]
	l.under.Exec(t, "ip", "link", "add", "p1b", "type", "veth", "peer", "name", "u1", "netns", l.node.Name)
	l.under.Exec(t, "ip", "link", "set", "p1b", "master", "sw", "up")
	ip, to, from := "-4", p.under.String(), []string{"198.18.0.1", "198.18.0.101"}
	if six {
		ip, to, from = "-6", wgUnder6(2).String(), []string{wgUnder6(1).String(), wgUnder6(101).String()}
	}
	l.node.Exec(t, "ip", "link", "set", "u1", "addrgenmode", "none", "up")
	l.node.Exec(t, "ip", "addr", "add", "198.18.0.101/24", "dev", "u1")
	l.node.Exec(t, "ip", "addr", "add", wgUnder6(101).String()+"/64", "dev", "u1", "nodad")
	l.node.Exec(t, "ip", ip, "rule", "add", "fwmark", "0xe50003/0xffffff", "lookup", "50003", "priority", "14003")
	route := func(i int) {
		t.Helper()
		l.node.Exec(t, "ip", ip, "route", "replace", to, "dev", "u"+strconv.Itoa(i), "src", from[i], "table", "50003")
	}
	route(0)
	l.node.Exec(t, "ip", ip, "route", "add", "unreachable", "default", "table", "50003", "metric", "4278198272")
	v := l.vpn(1)
	v.WireGuard.Peers[0].Endpoint = net.JoinHostPort(to, "51820")
	l.put(v)
	reached(t, l.node, p.inside)
	seen := func() string {
		t.Helper()
		text, err := p.ask("get=1\n\n")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(text, "\nendpoint=")
		line, _, _ := strings.Cut(rest, "\n")
		return line
	}
	if got, want := seen(), net.JoinHostPort(from[0], "51820"); got != want {
		t.Fatalf("the peer hears it at %s, not %s", got, want)
	}
	for i := range 10 {
		at := (i + 1) % 2
		route(at)
		l.under.Exec(t, "ip", "link", "set", []string{"p1", "p1b"}[1-at], "down") // the old one leads nowhere
		// From here on: a command takes a second on a virtual machine.
		begin := time.Now()
		reached(t, l.node, p.inside)
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("switch %d took %v", i, took)
		}
		if got, want := seen(), net.JoinHostPort(from[at], "51820"); got != want {
			t.Errorf("the peer hears it at %s, not %s", got, want)
		}
		l.under.Exec(t, "ip", "link", "set", []string{"p1", "p1b"}[1-at], "up")
		wgUntil(t, 5*time.Second, "the old one is up again", func() bool {
			return !strings.Contains(l.node.Exec(t, "ip", "link", "show", "u"+strconv.Itoa(1-at)), "LOWERLAYERDOWN") &&
				!strings.Contains(l.node.Exec(t, "ip", "link", "show", "u"+strconv.Itoa(1-at)), "NO-CARRIER")
		})
	}
	// Without a route, it leaves by no other one.
	l.node.Exec(t, "ip", ip, "route", "del", to, "table", "50003")
	if lost := ping(t, l.node, p.inside, 5, "0.1"); lost != 5 {
		t.Errorf("%d packets pass without a route", 5-lost)
	}
	if _, err := l.node.Try("ping", "-c", "1", "-W", "2", to); err != nil {
		t.Errorf("the node itself does not reach the peer: %v", err)
	}
}

// WireGuard makes new keys every 120 s.
func TestNewKeysUnderTrafficLoseNoPacket(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 130 s")
	}
	t.Parallel()
	l := newWGLab(t, 1)
	l.put(l.vpn(1))
	reached(t, l.node, l.peers[0].inside)
	first := l.status().Peers[0]
	var from int
	to := during(t, l.node, l.peers[0].inside, func() {
		from = during(t, l.peers[0].ns, wgInside(1), func() {
			wgUntil(t, 140*time.Second, "new keys", func() bool {
				return l.status().Peers[0].LastHandshake.After(first.LastHandshake)
			})
		})
	})
	if to+from > 0 {
		t.Errorf("%d packets to the peer and %d from it are lost", to, from)
	}
	if now := l.status().Peers[0]; now.Rekeys != 1 {
		t.Errorf("%d rekeys are counted", now.Rekeys)
	}
}

func TestFiftyTunnelsOfANode(t *testing.T) {
	t.Parallel()
	const tunnels = 50
	l := newWGLab(t, 1)
	of := func(n int) netstate.VPN {
		v := l.vpn(1)
		v.Name, v.Link, v.Mark = fmt.Sprintf("ni/%d/vpn", n), fmt.Sprintf("evpn%d", n), 0xe50000|uint32(n)
		v.WireGuard.ListenPort, v.WireGuard.PrivateKey, v.WireGuard.Identity = 0, "", fmt.Sprintf("n%d", n)
		return v
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	took := make([]time.Duration, tunnels)
	all := func(what string, f func(i int) error) {
		t.Helper()
		var together errgroup
		begin := time.Now()
		for i := range tunnels {
			together.run(func() error { return f(i) })
		}
		if err := together.wait(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		t.Logf("%s: %v", what, time.Since(begin))
	}
	all("put", func(i int) error {
		begin := time.Now()
		defer func() { took[i] = time.Since(begin) }()
		return l.tunnels.Put(ctx, of(i+1))
	})
	t.Logf("the slowest: %v", slices.Max(took))
	keys := map[string]bool{}
	for i := range tunnels {
		v := of(i + 1)
		got, found, err := l.tunnels.Observe(ctx, i+1)
		if err != nil || !found || got.Text() != v.Text() {
			t.Errorf("tunnel %d: %s, %v", i+1, got.Text(), err)
		}
		s, err := l.tunnels.Status(ctx, i+1)
		if err != nil {
			t.Errorf("tunnel %d: %v", i+1, err)
		}
		keys[s.PublicKey] = true
	}
	if len(keys) != tunnels {
		t.Errorf("%d keys", len(keys))
	}
	all("remove", func(i int) error { return l.tunnels.Remove(ctx, of(i+1)) })
	if out := l.node.Exec(t, "ip", "-br", "link"); strings.Contains(out, "evpn") {
		t.Errorf("left:\n%s", out)
	}
	if out, err := exec.Command("pgrep", "-f", helper.Command+" "+l.run+"/").Output(); err == nil {
		t.Errorf("processes are left: %s", out)
	}
}

// errgroup runs functions together and joins their errors.
type errgroup struct {
	sync.WaitGroup
	mu  sync.Mutex
	err error
}

func (g *errgroup) run(f func() error) {
	g.Go(func() {
		if err := f(); err != nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.err = errors.Join(g.err, err)
		}
	})
}

func (g *errgroup) wait() error {
	g.Wait()
	return g.err
}
