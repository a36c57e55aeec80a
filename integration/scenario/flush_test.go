package scenario

import (
	"context"
	"flag"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/platform/lab"
)

var (
	flushRuns = flag.Int("flush-runs", 1, "how often TestAFlushByOthersOpensNothingAndIsRepaired flushes in each way")
	flushOnly = flag.String("flush-only", "", "the one way in which it flushes, by name")
)

// soon is the bar: a flush by another program is repaired within it (issue 14).
const soon = 2 * time.Second

const anAccept = "an accept before all of ours"

// flushes returns the commands with which other programs flush the packet filter.
func (w *world) flushes() map[string][]string {
	w.Helper()
	file := func(name, text string) string {
		path := filepath.Join(w.Dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			w.Fatal(err)
		}
		return path
	}
	// Debian's /etc/nftables.conf, which nftables.service loads on start and on reload.
	conf := file("nftables.conf",
		"flush ruleset\n\ntable inet filter {\n\tchain input {\n\t\ttype filter hook input priority filter;\n\t}\n\tchain "+
			"forward {\n\t\ttype filter hook forward priority filter;\n\t}\n\tchain output {\n\t\ttype filter hook output "+
			"priority filter;\n\t}\n}\n")
	saved := file("rules.v4",
		"*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n*nat\n:PREROUTING ACCEPT "+
			"[0:0]\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n")
	return map[string][]string{
		"iptables -F FORWARD":           {"iptables", "-F", "FORWARD"},
		"iptables -F":                   {"iptables", "-F"},
		"iptables -t nat -F":            {"iptables", "-t", "nat", "-F"},
		"iptables-restore of its own":   {"iptables-restore", saved},
		"nft flush ruleset":             {"nft", "flush", "ruleset"},
		"reload of nftables.service":    {"nft", "-f", conf},
		anAccept:                        {"iptables", "-I", "FORWARD", "-j", "ACCEPT"},
		"the table of filters is gone":  {"nft", "delete", "table", "ip", "filter"},
		"the table of NAT is gone":      {"nft", "delete", "table", "ip", "nat"},
		"a network's chain without all": {"iptables", "-F", "ES1-FWD"},
	}
}

// ours returns edgespan's rules in the iptables tables, and the first rules of the built-in chains.
func (w *world) ours() string {
	w.Helper()
	var out []string
	seen := map[string]bool{}
	for line := range strings.Lines(w.in("node", "iptables-save")) {
		fields := strings.Fields(line)
		switch {
		case len(fields) < 2 || fields[0] != "-A":
			if strings.HasPrefix(line, "*") {
				clear(seen)
				out = append(out, strings.TrimSpace(line))
			}
		case strings.HasPrefix(fields[1], "ES") || !seen[fields[1]]: // only the first rule of a built-in chain
			out = append(out, strings.TrimSpace(line))
		}
		if len(fields) > 1 {
			seen[fields[1]] = true
		}
	}
	tables := w.in("node", "nft", "list", "tables")
	for _, table := range []string{"inet edgespan", "arp edgespan", "bridge edgespan"} {
		if strings.Contains(tables, "table "+table) {
			out = append(out, table)
		}
	}
	slices.Sort(out) // a rewritten jump precedes edgespan's others
	return strings.Join(out, "\n")
}

// Whatever is flushed, no denied packet passes at any time, no packet leaves the node untranslated, and the flushed
// rules are back in time.
func TestAFlushByOthersOpensNothingAndIsRepaired(t *testing.T) {
	t.Parallel()
	w, nets := town(t, "lan")
	w.obey(nets, onNet(1, 1, "web", everything), onNet(2, 1, "client", ""), onNet(3, 2, "guest", everything))
	w.in("isp", "ip", "route", "add", "10.1.0.0/24", "via", lab.NodeAt)
	uplink := w.sniff("isp", "node0", string(netip.MustParseAddr(webIP).AsSlice()))
	// The uplink forwards for apps only. Packets to the LAN get no answer in either case, so the test listens there.
	w.lanHost("lan")
	const lanIP = "203.0.113.2"
	transit := string(netip.MustParseAddr("192.0.2.1").AsSlice()) + string(netip.MustParseAddr(lanIP).AsSlice())
	atLAN := w.sniff("lan", "eth0", transit)
	var denied []*lab.Loop
	for _, way := range [][2]string{{"web", clientIP}, {"web", guestIP}, {"node", clientIP}, {"isp", clientIP},
		{"client", lab.WebAddr}, {"isp", lanIP}} {
		l, err := w.PingLoop(way[0], netip.MustParseAddr(way[1]), 2*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		denied = append(denied, l)
	}
	before := w.ours()
	allowed, err := w.PingLoop("web", netip.MustParseAddr(lab.WebAddr), 5*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	passes := func(when string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(w.ctx, scaled(soon))
		defer cancel()
		if err := allowed.WaitGood(ctx, 1); err != nil {
			t.Errorf("%s: what is allowed does not pass: %v", when, err)
		}
	}
	var took []time.Duration
	for name, argv := range w.flushes() {
		if *flushOnly != "" && name != *flushOnly {
			continue
		}
		for range *flushRuns {
			passes("before " + name)
			w.in("node", argv...)
			begin := time.Now()
			w.dials("web", lab.WebAddr+":9") // new flows must not leave untranslated
			w.eventually(name+": what is ours is back", func() bool { return w.ours() == before })
			took = append(took, time.Since(begin))
			passes("after " + name)
			if name == anAccept {
				w.in("node", "iptables", "-D", "FORWARD", "-j", "ACCEPT")
			}
			t.Logf("%s: back after %v", name, took[len(took)-1].Round(time.Millisecond))
		}
	}
	allowed.Stop()
	w.wait("ready", "ni/"+ni(1), "ni/"+ni(2), "app/"+app(1), "app/"+app(2))
	for i, l := range denied {
		if c := l.Stop(); c.Good > 0 || c.Sent < 100 {
			t.Errorf("denied pings %d: %+v", i, c)
		}
	}
	if n := uplink.count(string(netip.MustParseAddr(webIP).AsSlice())); n > 0 {
		t.Errorf("%d packets left the node untranslated", n)
	}
	if n := atLAN.count(transit); n > 0 {
		t.Errorf("%d packets of the uplink were forwarded to the LAN", n)
	}
	// The sniffer would have seen them:
	w.in("node", "sysctl", "-qw", "net.ipv4.ip_forward=1")
	r, err := w.PingLoop("isp", netip.MustParseAddr(lanIP), 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("what the host forwards by itself reaches the LAN", func() bool { return atLAN.count(transit) > 0 })
	r.Stop()
	slices.Sort(took)
	p99 := took[(len(took)*99+99)/100-1]
	t.Logf("back of %d flushes: median %v, p99 %v, longest %v", len(took), took[len(took)/2], p99, took[len(took)-1])
	if p99 > scaled(soon) {
		t.Errorf("p99 of what was flushed being back is %v, more than %v", p99, scaled(soon))
	}
}

// dials sends datagrams, each of a new flow.
func (w *world) dials(short, to string) {
	w.Helper()
	err := w.inside(short, func() error {
		for range 20 {
			c, err := net.Dial("udp4", to)
			if err != nil {
				return err
			}
			_, _ = c.Write([]byte("x")) // refused if a rule of the app's host says so
			c.Close()
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
}
