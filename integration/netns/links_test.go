package netns_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"edgespan/integration/netns"
	"edgespan/netinst/netstate"
)

// given returns network 1 whose adapter's veth has an MTU and the peer's MAC 02:16:3e:01:00:<mac>.
func (l *lab) given(app string, mtu, mac int) netstate.State {
	v := l.veth(1, app)
	v.MTU, v.Peer.MTU, v.Peer.MAC = mtu, mtu, fmt.Sprintf("02:16:3e:01:00:%02x", mac)
	v.Alias = netstate.VethMark{
		NI: owner(1).Name, Adapter: "a/0", Netns: app, Peer: v.Peer.Name, MAC: v.Peer.MAC, MTU: mtu,
	}.String()
	return netstate.NewState(
		netstate.Link{Name: "es1", Type: netstate.Bridge, MAC: "02:16:3e:00:00:01", MTU: mtu, Alias: "edgespan ni " +
			owner(1).Name}, v)
}

// Beside the line, ip tells of other namespaces that are being removed just then.
var linkLine = regexp.MustCompile(`(?m)^(\d+): \S+?(@if\d+|@NONE)?: .* mtu (\d+) .*link/ether (\S+)`)

// shown returns a link's and its peer's index, which a recreated link would not have, its MTU and its MAC.
func shown(t *testing.T, ns *netns.NS, link string) (index, mtu, mac string) {
	t.Helper()
	m := linkLine.FindStringSubmatch(ns.Exec(t, "ip", "-o", "link", "show", link))
	if m == nil {
		t.Fatalf("no link %s: %q", link, ns.Exec(t, "ip", "-o", "link", "show", link))
	}
	return m[1] + m[2], m[3], m[4]
}

func indexOf(t *testing.T, ns *netns.NS, link string) string {
	t.Helper()
	index, _, _ := shown(t, ns, link)
	return index
}

func TestAnAdaptersLinkIsChangedInPlaceOnBothSides(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(owner(1), l.given(l.app.Name, 1500, 1))
	// The app configures its side and renames it.
	l.app.Exec(t, "ip", "link", "set", "eth1", "name", "lan0")
	l.app.Exec(t, "ip", "addr", "add", "10.1.0.9/24", "dev", "lan0")
	l.app.Exec(t, "ip", "link", "set", "lan0", "up")
	host, app := indexOf(t, l.ns, "es1a1"), indexOf(t, l.app, "lan0")
	side := func(want string) {
		t.Helper()
		a, mtu, mac := shown(t, l.app, "lan0")
		if s := mtu + " " + mac; s != want {
			t.Errorf("the app's side has %q, want %q", s, want)
		}
		if h := indexOf(t, l.ns, "es1a1"); h != host || a != app {
			t.Errorf("links %s and %s, which were %s and %s", h, a, host, app)
		}
		if addr := l.app.Exec(t, "ip", "-br", "addr", "show", "lan0"); !strings.Contains(addr, "10.1.0.9/24") {
			t.Errorf("the app's address went: %s", addr)
		}
	}
	for _, c := range []struct {
		mtu, mac int
		want     string
	}{
		{1400, 1, "1400 02:16:3e:01:00:01"}, {9000, 1, "9000 02:16:3e:01:00:01"}, {9000, 2, "9000 02:16:3e:01:00:02"},
		{1420, 3, "1420 02:16:3e:01:00:03"},
	} {
		l.must(owner(1), l.given(l.app.Name, c.mtu, c.mac))
		side(c.want)
	}
	// An MTU that the app chose is kept as long as it fits.
	l.app.Exec(t, "ip", "link", "set", "lan0", "mtu", "1300")
	for _, mtu := range []int{1500, 1400} {
		l.must(owner(1), l.given(l.app.Name, mtu, 3))
		side("1300 02:16:3e:01:00:03")
	}
	l.app.Exec(t, "ip", "link", "set", "lan0", "mtu", "2000")
	l.must(owner(1), l.given(l.app.Name, 1500, 3))
	side("1500 02:16:3e:01:00:03")
	// Changes of the host's side by others are repaired in place, and the app's side is left alone.
	for _, words := range []string{"mtu 1280", "address 02:00:00:00:00:77", "alias nobody"} {
		l.must(owner(1), l.given(l.app.Name, 1500, 3)) // it is in no bridge, so the test sets it up
		l.ns.Exec(t, append([]string{"ip", "link", "set", "es1a1", "up"}, strings.Fields(words)...)...)
		want := l.given(l.app.Name, 1500, 3)
		want.Add(netstate.Port{Link: "es1a1"})
		l.must(owner(1), want)
		side("1500 02:16:3e:01:00:03")
	}
}

// While an app's namespace has no name, its side can't be reached. The link is kept on both sides, and only that
// adapter waits.
func TestAnAppWithoutANamespaceKeepsItsMTU(t *testing.T) {
	l := newLab(t)
	app := netns.Named(t, l.app.Name+"x")
	l.must(owner(1), l.given(app.Name, 1500, 1))
	host := indexOf(t, l.ns, "es1a1")
	old := app.Path + "-old"
	l.ns.Exec(t, "touch", old)
	l.ns.Exec(t, "mount", "--bind", app.Path, old)
	defer func() { l.ns.Exec(t, "umount", old); l.ns.Exec(t, "rm", old) }()
	app.Delete(t)
	fs := l.apply(t.Context(), owner(1), l.given(app.Name, 1400, 1))
	if len(fs) != 1 || !fs[0].Waiting || fs[0].ID.Name != "es1a1" {
		t.Errorf("failures: %+v", fs)
	}
	if _, mtu, _ := shown(t, l.ns, "es1a1"); mtu != "1500" {
		t.Errorf("the host's side has MTU %s: what the app sends would be dropped", mtu)
	}
	l.ns.Exec(t, "touch", app.Path)
	l.ns.Exec(t, "mount", "--bind", old, app.Path)
	defer func() { l.ns.Exec(t, "umount", app.Path); l.ns.Exec(t, "rm", app.Path) }()
	l.must(owner(1), l.given(app.Name, 1400, 1))
	if now := indexOf(t, l.ns, "es1a1"); now != host {
		t.Errorf("link %s was %s", now, host)
	}
}

func TestAttributesOfABridgeAreRepaired(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	want := netstate.NewState(
		netstate.Link{Name: "es1", Type: netstate.Bridge, MAC: "02:16:3e:00:00:01", MTU: 1500, Alias: "edgespan ni " +
			owner(1).Name})
	l.must(owner(1), want)
	index, mended := indexOf(t, l.ns, "es1"), 0
	for name := range netstate.BridgeAttrs() {
		value := "0"
		switch name {
		case "nf_call_arptables", "stp_state", "vlan_filtering":
			value = "1"
		case "vlan_default_pvid", "fdb_max_learned": // a kernel without it takes any value
			if !strings.Contains(l.ns.Exec(t, "ip", "-d", "link", "show", "es1"), name) {
				continue
			}
		case "group_fwd_mask":
			value = "8"
		case "priority":
			value = "4096"
		}
		if out, err := l.ns.Try("ip", "link", "set", "es1", "type", "bridge", name, value); err != nil {
			t.Logf("%s: not in this kernel: %s", name, strings.TrimSpace(out))
			continue
		}
		mended++
		if p := netstate.Diff(l.observe(owner(1), false), want); len(p) != 1 || p[0].String() != "change link es1" {
			t.Errorf("with %s %s the plan is %v", name, value, p)
		}
		l.must(owner(1), want)
	}
	if mended < 5 {
		t.Errorf("only %d attributes could be changed", mended)
	}
	if now := indexOf(t, l.ns, "es1"); now != index {
		t.Errorf("the bridge is %s and was %s", now, index)
	}
}

// The namespace of an app must not be the node's own, nor one given by a process ID.
func TestANamespaceThatIsNoAppsIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	before := picture(t, l.ns)
	fifo := filepath.Join(filepath.Dir(l.dir), "fifo")
	link := filepath.Join(filepath.Dir(l.dir), "link")
	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(l.ns.Path, link); err != nil {
		t.Fatal(err)
	}
	for name, why := range map[string]string{
		l.ns.Name: "the node's own network namespace", l.ns.Path: "the node's own network namespace",
		link: "the node's own network namespace",
		fmt.Sprintf("/proc/%d/ns/net", os.Getpid()): "leads through /proc", fifo: "not a network namespace",
	} {
		began := time.Now()
		fs := l.apply(t.Context(), owner(1), netstate.NewState(l.veth(1, name)))
		if len(fs) != 1 || fs[0].Waiting || !strings.Contains(fs[0].Err, why) {
			t.Errorf("%s: %+v, want %q", name, fs, why)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("%s: it took %v to find out", name, took)
		}
	}
	if after := picture(t, l.ns); after != before {
		t.Errorf("host differs:\n%s\nbefore:\n%s", after, before)
	}
}
