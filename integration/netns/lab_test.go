package netns_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"
	"edgespan/platform/host"

	"github.com/google/go-cmp/cmp"
)

// lab is a host in a namespace of its own with an uplink and an application's
// namespace.
type lab struct {
	t    *testing.T
	ns   *netns.NS
	app  *netns.NS
	dir  string
	host *host.Host
}

var ground = netstate.Owner{Name: netstate.HostOwner}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, ns: netns.New(t), app: netns.New(t)}
	// dnsmasq reads as nobody: every folder above must be open to it.
	dir, err := os.MkdirTemp("", "est")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l.dir = filepath.Join(dir, "run")
	l.ns.Exec(t, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "far0")
	for _, link := range []string{"eth0", "far0"} { // no addresses that come by themselves, later
		l.ns.Exec(t, "ip", "link", "set", link, "addrgenmode", "none")
	}
	l.ns.Exec(t, "ip", "addr", "add", "192.0.2.2/24", "dev", "eth0")
	l.ns.Exec(t, "ip", "link", "set", "eth0", "up")
	l.ns.Exec(t, "ip", "link", "set", "far0", "up")
	l.ns.Exec(t, "ip", "route", "add", "default", "via", "192.0.2.1")
	until(t, "uplink has carrier", func() bool { return !strings.Contains(l.ns.Exec(t, "ip", "link", "show"), "LOWERLAYERDOWN") })
	l.open()
	return l
}

func (l *lab) open() {
	l.t.Helper()
	h, err := host.New(host.Config{RunDir: l.dir, NetnsPath: l.ns.Path})
	if err != nil {
		l.t.Fatal(err)
	}
	l.host = h
	l.t.Cleanup(func() { _ = h.Close() })
}

func owner(n int) netstate.Owner {
	return netstate.Owner{Name: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Number: n}
}

// root is the ground that every network stands on.
func root() netstate.State {
	chain := func(table, name, parent string, rules ...string) netstate.Chain {
		return netstate.Chain{Family: netstate.IPv4, Table: table, Name: name, Rules: rules, Hooks: []netstate.Hook{{Parent: parent}}}
	}
	base := chain("filter", "ES-BASE", "ES-FORWARD", "-i es1 -j DROP", "-o es1 -j DROP")
	base.Hooks[0].Last = true
	return netstate.NewState(
		netstate.Sysctl{Key: "net/ipv4/ip_forward", Value: "1"},
		chain("filter", "ES-FORWARD", "FORWARD"), chain("filter", "ES-INPUT", "INPUT"),
		chain("nat", "ES-POSTROUTING", "POSTROUTING"), base)
}

// network is a network instance with one adapter, of every kind of object.
func (l *lab) network(n int) netstate.State {
	own := owner(n)
	br, link := fmt.Sprintf("es%d", n), fmt.Sprintf("es%da1", n)
	conf := fmt.Sprintf("ni/%d/conf", n)
	ip := fmt.Sprintf("10.%d.0", n)
	fwd, eg, in, post := fmt.Sprintf("ES%d-FWD", n), fmt.Sprintf("ES%d-1E", n), fmt.Sprintf("ES%d-IN", n), fmt.Sprintf("ES%d-POST", n)
	hook := func(parent, match string) netstate.Hook { return netstate.Hook{Parent: parent, Match: match} }
	chain := func(table, name string, hooks []netstate.Hook, rules ...string) netstate.Chain {
		return netstate.Chain{Family: netstate.IPv4, Table: table, Name: name, Rules: rules, Hooks: hooks}
	}
	text := strings.Join([]string{
		"no-resolv", "no-hosts", "bind-interfaces", "interface=" + br, "except-interface=lo",
		"hostsdir=" + filepath.Join(l.dir, conf, "hosts"), "dhcp-hostsdir=" + filepath.Join(l.dir, conf, "dhcp"),
		"dhcp-range=" + ip + ".128," + ip + ".254,255.255.255.0,1h", "dhcp-leasefile=" + filepath.Join(l.dir, fmt.Sprintf("ni/%d/dnsmasq/leases", n)),
		"local=/edge/", "pid-file=",
	}, "\n") + "\n"
	return netstate.NewState(
		netstate.File{Path: conf, Dir: true}, netstate.File{Path: conf + "/hosts", Dir: true}, netstate.File{Path: conf + "/dhcp", Dir: true},
		netstate.File{Path: conf + "/dnsmasq.conf", Content: text},
		netstate.File{Path: conf + "/hosts/gateway", Content: ip + ".1 gateway.edge\n"},
		netstate.Link{Name: br, Type: netstate.Bridge, MAC: fmt.Sprintf("02:16:3e:00:00:%02x", n), MTU: 1400, Alias: "edgespan ni " + own.Name},
		l.veth(n, l.app.Name),
		netstate.Port{Link: br}, netstate.Port{Link: link, Master: br},
		netstate.Address{Link: br, Prefix: ip + ".1/24"},
		netstate.Route{Table: 20000 + n, Dst: ip + ".0/24", Type: netstate.Unicast, Dev: br, Src: ip + ".1"},
		netstate.Route{Table: 20000 + n, Dst: "0.0.0.0/0", Type: netstate.Unicast, Dev: "eth0", Via: "192.0.2.1"},
		netstate.Route{Table: 20000 + n, Dst: "0.0.0.0/0", Type: netstate.Unreachable, Metric: 4278198272},
		netstate.Route{Table: 20000 + n, Dst: "203.0.113.0/24", Type: netstate.Unicast, Dev: "eth0", Via: "192.0.2.9", Metric: 10},
		netstate.Rule{Priority: 20000 + n, From: ip + ".0/24", Table: 20000 + n},
		netstate.Rule{Priority: 21000 + n, To: ip + ".0/24", Table: 20000 + n},
		chain("filter", fwd, []netstate.Hook{hook("ES-FORWARD", "-i "+br), hook("ES-FORWARD", "-o "+br)},
			"-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", "-m physdev --physdev-in "+link+" -j "+eg, "-j DROP"),
		chain("filter", eg, nil, "-s "+ip+".2/32 -p tcp -m multiport --dports 80,443 -j RETURN",
			"-p udp -m udp --dport 53 -d 192.0.2.53 -j ACCEPT", `-m comment --comment "a word -j b" -j DROP`),
		chain("filter", in, []netstate.Hook{hook("ES-INPUT", "-i "+br)}, "-p udp --dport 67 -j ACCEPT", "-p udp --dport 53 -j ACCEPT", "-j DROP"),
		chain("nat", post, []netstate.Hook{hook("ES-POSTROUTING", "-s "+ip+".0/24")}, "-s "+ip+".0/24 -o eth0 -j MASQUERADE"),
		netstate.Chain{Family: netstate.BridgeFamily, Name: br, Rules: []string{
			"chain forward {", "type filter hook forward priority -300; policy accept;",
			"iifname \"" + link + "\" ether type != ip drop", "}",
		}},
		netstate.Process{
			Name:   fmt.Sprintf("ni/%d/dnsmasq", n),
			Argv:   []string{"dnsmasq", "--keep-in-foreground", "--conf-file=" + filepath.Join(l.dir, conf, "dnsmasq.conf")},
			Digest: "one", Reload: "one", Probe: netstate.Probe{Addr: ip + ".1:53", Name: "gateway.edge."},
		},
	)
}

// veth is an adapter of network n whose application lives in a namespace.
func (l *lab) veth(n int, app string) netstate.Link {
	peer := fmt.Sprintf("eth%d", n)
	alias := fmt.Sprintf("edgespan ni %s adapter a/0 netns=%s peer=%s mac=02:16:3e:01:00:%02x mtu=1400", owner(n).Name, app, peer, n)
	return netstate.Link{
		Name: fmt.Sprintf("es%da1", n), Type: netstate.Veth, MAC: fmt.Sprintf("02:16:3e:02:00:%02x", n), MTU: 1400, Alias: alias,
		Peer: &netstate.Peer{Netns: app, Name: peer, MAC: fmt.Sprintf("02:16:3e:01:00:%02x", n), MTU: 1400},
	}
}

func (l *lab) observe(o netstate.Owner, full bool) netstate.State {
	l.t.Helper()
	s, err := l.host.Observe(l.t.Context(), o, full)
	if err != nil {
		l.t.Fatal(err)
	}
	return s
}

// apply does the plan to the wish and returns the failures.
func (l *lab) apply(ctx context.Context, o netstate.Owner, want netstate.State) []netstate.Failure {
	l.t.Helper()
	r := netstate.NewRun(netstate.Diff(l.observe(o, true), want))
	for op, ok := r.Next(); ok; op, ok = r.Next() {
		r.Done(op, l.host.Do(ctx, o, op))
	}
	return r.Failures()
}

// must applies a wish and holds law 11: what is observed is what was wanted.
func (l *lab) must(o netstate.Owner, want netstate.State) {
	l.t.Helper()
	if fs := l.apply(l.t.Context(), o, want); len(fs) > 0 {
		l.t.Fatalf("apply %s: %+v", o.Name, fs)
	}
	l.equal(o, want)
}

func (l *lab) equal(o netstate.Owner, want netstate.State) {
	l.t.Helper()
	for _, full := range []bool{false, true} {
		if d := cmp.Diff(want.String(), l.observe(o, full).String()); d != "" {
			l.t.Fatalf("observe %s, full %v (-want +got):\n%s", o.Name, full, d)
		}
	}
}

var (
	counters = regexp.MustCompile(`state (UP|DOWN|UNKNOWN|LOWERLAYERDOWN)|\w+_timer +[\d.]+|\[\d+:\d+\]|packets \d+ bytes \d+|valid_lft \S+ preferred_lft \S+|(?m)^#.*$`)
	indexes  = regexp.MustCompile(`(?m)^\d+: |@if\d+| link-netnsid \d+`)
)

// picture is the whole network state of a namespace as its tools show it.
func picture(t *testing.T, ns *netns.NS) string {
	t.Helper()
	var b strings.Builder
	for _, argv := range [][]string{
		{"ip", "-d", "link"},
		{"ip", "addr"},
		{"ip", "rule"},
		{"ip", "route", "show", "table", "all"},
		{"iptables-save"},
		{"nft", "list", "ruleset"},
		{"sysctl", "-a", "--pattern", "ip_forward|bridge-nf"},
	} {
		fmt.Fprintf(&b, "$ %s\n%s", strings.Join(argv, " "), counters.ReplaceAllString(ns.Exec(t, argv...), ""))
	}
	return indexes.ReplaceAllString(b.String(), "")
}

// until waits for a condition.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}
