package netns_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"

	"github.com/google/go-cmp/cmp"
)

func TestTheSameOpTwiceLeavesTheSame(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	l.must(owner(1), l.network(1))
	before := picture(t, l.ns)
	for _, o := range []netstate.Owner{hostOwner, owner(1)} { // same order as before
		want := root()
		if o != hostOwner {
			want = l.network(1)
		}
		for _, op := range netstate.Diff(netstate.State{}, want) {
			if op.Kind == netstate.KindLink || op.Kind == netstate.KindProcess {
				continue // recreated by a reload
			}
			if err := l.do(t.Context(), o, op); err != nil {
				t.Fatalf("again: %v", err)
			}
		}
	}
	if d := cmp.Diff(before, picture(t, l.ns)); d != "" {
		t.Errorf("done twice (-once +twice):\n%s", d)
	}
	l.equal(owner(1), l.network(1))
}

// A full observation finds each drift, and the plan repairs it.
func TestWhatOthersChangeIsFoundAndRepaired(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	for n := 1; n <= 2; n++ {
		l.must(owner(n), l.network(n))
	}
	before := picture(t, l.ns)
	for _, cmd := range []string{
		"iptables -F ES1-FWD",
		"iptables -A ES1-1E -j ACCEPT",
		"iptables -D ES-NETS-FROM-1 -i es1 -j ES1-FWD",
		"iptables -I ES-NETS-FWD 1 -i es1 -j ES1-FWD",
		"iptables -D ES-NETS-FROM -i es1+ -j ES-NETS-FROM-1",
		"iptables -I ES-NETS-TO-1 1 -j ACCEPT",
		"iptables -F ES-NETS-FWD",
		"iptables -I ES-FORWARD 1 -i es1 -j ES1-FWD",
		"iptables -I FORWARD 1 -j ES-FORWARD",
		"iptables -I FORWARD 1 -o es+ -j ES-LINKS-FWD",
		"iptables -D FORWARD -i es+ -j ES-LINKS-FWD",
		"iptables -t nat -F ES-POST-10.1.0.0-20",
		"iptables -t nat -D ES-POSTROUTING -s 10.0.0.0/8 -j ES-POST-10.0.0.0-8",
		"iptables -F FORWARD",
		"iptables -D ES-LINKS-FWD -j ES-BASE",
		"iptables -F ES-NETS-IN",
		"iptables -F ES-NETS-IN-1",
		"iptables -A ES-FORWARD -j ACCEPT",
		"iptables -I ES-FORWARD 1 -s 198.51.100.9 -j ACCEPT",
		"iptables -F ES-BASE",
		"iptables -t nat -F ES1-POST",
		"nft delete table bridge edgespan",
		"nft flush table bridge edgespan",
		"nft delete table bridge edgespan ; add table bridge edgespan",
		"nft delete table bridge edgespan ; add table bridge edgespan ; " +
			"add chain bridge edgespan frames { type filter hook input priority 0 ; }",
		"nft flush chain bridge edgespan frames ; delete chain bridge edgespan frames ; " +
			"add chain bridge edgespan frames { type filter hook input priority 0 ; }",
		"nft flush chain bridge edgespan leaving ; flush map bridge edgespan apps ; delete map bridge edgespan apps ; " +
			"add map bridge edgespan apps { type ipv4_addr : verdict ; }",
		"nft add rule bridge edgespan frames accept",
		"nft insert rule bridge edgespan ES1-1F accept",
		"nft flush chain bridge edgespan ES1-1F",
		"nft add chain bridge edgespan ES1-9F",
		"nft add chain bridge edgespan stray",
		`nft delete element bridge edgespan ports { "es1a1" }`,
		`nft delete element bridge edgespan ports { "es1a1" }; add element bridge edgespan ports { "es1a1" : accept }`,
		`nft add element bridge edgespan ports { "es1a9" : goto ES1-1F }`,
		`nft add element bridge edgespan ports { "eth0" : drop }`,
		"ip link set es1a1 nomaster",
		"ip link set es1a1 down",
		"ip link set es1 mtu 1300",
		"ip link set es1 address 02:00:00:00:00:01",
		"ip link del es1a1",
		"ip link del es1",
		"ip addr del 10.1.0.1/24 dev es1",
		"ip addr add 10.77.0.1/24 dev es1 noprefixroute",
		"ip route del default via 192.0.2.1 table 20001",
		"ip route replace default via 192.0.2.77 table 20001 protocol 101",
		"ip rule del priority 20001",
		"ip rule add priority 20001 from 10.99.0.0/24 lookup 20001 protocol 101",
		"rm " + l.dir + "/ni/1/conf/hosts/app1",
		"chmod 600 " + l.dir + "/ni/1/conf/dnsmasq.conf",
		"rm -r " + l.dir + "/ni/1/conf",
		"rm " + l.dir + "/ni/1/chains.json " + l.dir + "/host/chains.json",
		"rm " + l.dir + "/ni/1/dnsmasq/process.json",
		"sysctl -q net.ipv4.conf.es1.forwarding=0",
		"sysctl -q net.ipv4.conf.eth0.forwarding=0",
	} {
		t.Run(cmd, func(t *testing.T) {
			l.t = t
			l.close() // nftables protects our tables from others while our socket is open
			until(t, cmd, func() bool {
				out, err := l.ns.Try(strings.Fields(cmd)...)
				if err != nil && strings.Contains(out+err.Error(), "not permitted") {
					return false // a program that starts just now has the socket until its exec
				}
				if err != nil {
					t.Fatalf("%s: %v: %s", cmd, err, out)
				}
				return true
			})
			l.open() // the state in memory must not matter
			l.must(hostOwner, root())
			for n := 1; n <= 2; n++ {
				l.must(owner(n), l.network(n))
			}
			if d := cmp.Diff(sorted(before), sorted(picture(t, l.ns))); d != "" {
				t.Errorf("not repaired (-before +after):\n%s", d)
			}
		})
	}
}

// sorted removes the order of networks in host's chain, and of recreated links.
func sorted(picture string) []string {
	lines := strings.Split(picture, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	return sortedLines(lines)
}

func TestAHungHelperIsReplaced(t *testing.T) {
	l := newLab(t)
	l.must(hostOwner, root())
	l.must(owner(1), l.network(1))
	b, err := os.ReadFile(filepath.Join(l.dir, "ni/1/dnsmasq/process.json"))
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimLeft(strings.Split(strings.Split(string(b), `"pid":`)[1], ",")[0], " ")
	l.ns.Exec(t, "kill", "-STOP", pid)
	l.must(owner(1), l.network(1))
	if out := l.ns.Exec(t, "dig", "+short", "@10.1.0.1", "gateway.edge"); strings.TrimSpace(out) != "10.1.0.1" {
		t.Errorf("dig: %q", out)
	}
}

func TestAnAdapterWaitsForItsNamespaceAndFollowsIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	want := netstate.NewState(
		netstate.Link{Name: "es1", Type: netstate.Bridge, MAC: "02:16:3e:00:00:01", MTU: 1500, Alias: "edgespan ni " +
			owner(1).Name},
		l.veth(1, l.app.Name+"x"))
	fs := l.apply(t.Context(), owner(1), want)
	if len(fs) != 1 || !fs[0].Waiting || fs[0].ID.Name != "es1a1" {
		t.Fatalf("missing namespace: %+v", fs)
	}
	app := netns.Named(t, l.app.Name+"x")
	l.must(owner(1), want)
	first := app.Exec(t, "ip", "-br", "link", "show", "eth1")
	if !strings.Contains(first, "02:16:3e:01:00:01") {
		t.Errorf("peer: %s", first)
	}
	// The app renames and configures its side: that is no drift.
	app.Exec(t, "ip", "link", "set", "eth1", "name", "wan0")
	app.Exec(t, "ip", "link", "set", "wan0", "up", "mtu", "1300")
	l.equal(owner(1), want)
	// The name now refers to another namespace, while a process keeps the old one alive.
	old := app.Path + "-old"
	run := func(argv ...string) { l.ns.Exec(t, argv...) }
	run("touch", old)
	run("mount", "--bind", app.Path, old)
	defer func() { run("umount", old); run("rm", old) }()
	app.Delete(t)
	l.equal(owner(1), want) // the old one is alive: no op yet
	app = netns.Named(t, l.app.Name+"x")
	if p := netstate.Diff(l.observe(owner(1), false), want); len(p) != 2 {
		t.Errorf("plan after the namespace was replaced: %v", p)
	}
	l.must(owner(1), want)
	app.Exec(t, "ip", "link", "show", "eth1")
}

func TestARouteWaitsForAnInterfaceOfOthers(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	fs := l.apply(t.Context(), owner(1), netstate.NewState(
		netstate.Route{Table: 20001, Dst: "0.0.0.0/0", Type: netstate.Unicast, Dev: "wwan0"}))
	if len(fs) != 1 || !fs[0].Waiting {
		t.Errorf("failures: %+v", fs)
	}
}

func TestATakenNameIsAClearErrorAndLeavesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.app.Exec(t, "ip", "link", "add", "eth1", "type", "bridge")
	before := picture(t, l.ns)
	fs := l.apply(t.Context(), owner(1), netstate.NewState(l.veth(1, l.app.Name)))
	if len(fs) != 1 || fs[0].Waiting ||
		!strings.Contains(fs[0].Err, "interface name eth1 is in use in namespace "+l.app.Name) {
		t.Errorf("failures: %+v", fs)
	}
	if d := cmp.Diff(before, picture(t, l.ns)); d != "" {
		t.Errorf("host differs (-before +after):\n%s", d)
	}
	// A link of the host's own namespace with the name of a peer is left alone.
	v := l.veth(2, l.app.Name)
	v.Peer.Name = "eth0"
	if fs := l.apply(t.Context(), owner(2), netstate.NewState(v)); len(fs) > 0 {
		t.Errorf("peer named eth0: %+v", fs)
	}
}

func TestAnObjectOfAnotherOwnerIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	l.must(owner(2), l.network(2))
	before := picture(t, l.ns)
	for _, op := range netstate.Diff(netstate.State{}, l.network(2)) {
		if err := l.do(t.Context(), owner(1), op); err == nil {
			t.Errorf("%s was done for another owner", op)
		}
	}
	for _, op := range netstate.Diff(l.network(2), netstate.State{}) {
		if err := l.do(t.Context(), owner(1), op); err == nil {
			t.Errorf("%s was done for another owner", op)
		}
	}
	for _, path := range []string{"ni/1/conf/../../2/conf/x", "/etc/passwd", "ni/1/owner", "host/sysctl.json"} {
		op := netstate.Op{Verb: netstate.Add, Kind: netstate.KindFile,
			Items: []netstate.Item{{Want: netstate.File{Path: path}}}}
		if err := l.do(t.Context(), owner(1), op); err == nil {
			t.Errorf("wrote %s", path)
		}
	}
	if d := cmp.Diff(before, picture(t, l.ns)); d != "" {
		t.Errorf("host differs (-before +after):\n%s", d)
	}
}

func TestLinksThatGoTogetherGoInOneDeletion(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const many = 20
	for n := 1; n <= many; n++ {
		l.must(owner(n), netstate.NewState(netstate.Link{
			Name: fmt.Sprintf("es%d", n), Type: netstate.Bridge,
			MAC: fmt.Sprintf("02:16:3e:00:00:%02x", n), MTU: 1500, Alias: "edgespan ni " + owner(n).Name,
		}))
	}
	// One link that a crash left doomed, and one that it left half doomed.
	l.ns.Exec(t, "ip", "link", "add", "es-doomedzz", "type", "bridge")
	l.ns.Exec(t, "ip", "link", "set", "es-doomedzz", "alias", "edgespan ni x")
	began := time.Now()
	errs := make(chan error, many)
	for n := 1; n <= many; n++ {
		op := netstate.Op{Verb: netstate.Remove, Kind: netstate.KindLink,
			Items: []netstate.Item{{Have: netstate.Link{Name: fmt.Sprintf("es%d", n)}}}}
		go func() { errs <- l.do(t.Context(), owner(n), op) }()
	}
	for range many {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d bridges in %v", many, time.Since(began))
	if out := l.ns.Exec(t, "ip", "link"); strings.Contains(out, " es") {
		t.Errorf("links are left: %s", out)
	}
	owners, err := l.host.Owners(t.Context())
	if err != nil || len(owners) > 0 {
		t.Errorf("owners %v err %v", owners, err)
	}
}

func TestDoomedLinksOfAnEarlierLifeAreReaped(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.ns.Exec(t, "ip", "link", "add", "es-doomed5k", "type", "bridge")
	l.ns.Exec(t, "ip", "link", "set", "es-doomed5k", "alias", "edgespan ni x", "group", "20101")
	l.ns.Exec(t, "ip", "link", "add", "es-doomed5l", "type", "bridge") // no mark: not edgespan's
	l.open()
	out := l.ns.Exec(t, "ip", "link")
	if strings.Contains(out, "es-doomed5k") || !strings.Contains(out, "es-doomed5l") {
		t.Errorf("links: %s", out)
	}
}

// wrap puts a script before a tool in PATH; it hangs, or kills the tool half way.
func wrap(t *testing.T, tool, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, tool), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestACrashHalfWayConverges(t *testing.T) {
	for name, script := range map[string]string{
		"restore is killed before it reads":   "kill -9 $$\n",
		"restore is killed after it has read": "cat >/dev/null; kill -9 $$\n",
		"restore works and then is killed":    "/usr/sbin/iptables-restore \"$@\"; kill -9 $$\n",
		"restore commits filter and not nat": "awk '{print} /COMMIT/{exit}' | /usr/sbin/iptables-restore \"$@\"; kill -9 " +
			"$$\n",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			path := os.Getenv("PATH")
			l.must(hostOwner, root())
			wrap(t, "iptables-restore", script)
			fs := l.apply(t.Context(), owner(1), l.network(1))
			if len(fs) == 0 || !strings.Contains(fs[0].Err, "iptables-restore") {
				t.Fatalf("failures: %+v", fs)
			}
			t.Setenv("PATH", path)
			l.open()
			l.must(owner(1), l.network(1))
			changed := l.network(1)
			for _, id := range changed.IDs() {
				if c, ok := changed[id].(netstate.Chain); ok && c.Family == netstate.IPv4 {
					c.Rules = append(slices.Clone(c.Rules), "-s 198.51.100.99/32 -j RETURN")
					changed.Add(c)
				}
			}
			wrap(t, "iptables-restore", script)
			if fs := l.apply(t.Context(), owner(1), changed); len(fs) == 0 {
				t.Error("the change did not fail")
			}
			t.Setenv("PATH", path)
			l.open()
			l.must(owner(1), changed)
			l.must(owner(1), netstate.State{})
		})
	}
}
