package netns_test

import (
	"os"
	"testing"

	"edgespan/netinst/netstate"

	"github.com/google/go-cmp/cmp"
)

func TestEveryKindOfObjectComesBackAsItWasWanted(t *testing.T) {
	l := newLab(t)
	l.must(ground, root())
	l.must(owner(1), l.network(1))
	if p := netstate.Diff(l.observe(owner(1), true), l.network(1)); len(p) > 0 {
		t.Errorf("a second plan has ops: %v", p)
	}
	owners, err := l.host.Owners(t.Context())
	if d := cmp.Diff([]netstate.Owner{owner(1)}, owners); err != nil || d != "" {
		t.Errorf("owners: %v (-want +got):\n%s", err, d)
	}
	// Another process, which has only the run folder and the kernel.
	l.open()
	l.equal(owner(1), l.network(1))
	l.equal(ground, root())
}

func TestDeletingLeavesNothing(t *testing.T) {
	t.Run("on a bare host", func(t *testing.T) { deleteLeavesNothing(t, newLab(t)) })
	t.Run("beside another firewall", func(t *testing.T) {
		l := newLab(t)
		foreign(t, l)
		deleteLeavesNothing(t, l)
	})
}

// foreign puts things of others beside ours, some with names that are almost ours.
func foreign(t *testing.T, l *lab) {
	l.ns.Exec(t, "iptables", "-A", "FORWARD", "-s", "198.51.100.1", "-j", "DROP")
	l.ns.Exec(t, "iptables", "-t", "nat", "-A", "POSTROUTING", "-o", "eth0", "-s", "198.51.100.0/24", "-j", "MASQUERADE")
	for _, chain := range []string{"ESX-FWD", "ES1000-FWD", "ES01-FWD", "DOCKER"} {
		l.ns.Exec(t, "iptables", "-N", chain)
		l.ns.Exec(t, "iptables", "-A", chain, "-s", "198.51.100.7", "-j", "DROP")
	}
	l.ns.Exec(t, "nft", "add", "table", "bridge", "es1x")
	for _, name := range []string{"es1000", "es01", "esx", "es1b2", "es-doomedx"} {
		l.ns.Exec(t, "ip", "link", "add", name, "type", "bridge")
	}
	l.ns.Exec(t, "ip", "link", "set", "es1000", "group", "20101") // the number that we use for doomed links
	l.ns.Exec(t, "ip", "rule", "add", "priority", "20001", "from", "198.51.100.0/24", "lookup", "main")
	l.ns.Exec(t, "ip", "rule", "add", "priority", "19000", "from", "198.51.100.0/24", "lookup", "20001", "protocol", "101")
	l.ns.Exec(t, "ip", "route", "add", "198.51.100.0/24", "via", "192.0.2.1", "table", "20001", "protocol", "static")
	l.ns.Exec(t, "ip", "route", "add", "198.51.100.0/24", "via", "192.0.2.1", "protocol", "101")
}

func deleteLeavesNothing(t *testing.T, l *lab) {
	before, appBefore := picture(t, l.ns), picture(t, l.app)
	l.must(ground, root())
	for n := 1; n <= 2; n++ {
		l.must(owner(n), l.network(n))
	}
	for n := 1; n <= 2; n++ {
		l.must(owner(n), netstate.State{})
	}
	l.must(ground, netstate.State{})
	if d := cmp.Diff(before, picture(t, l.ns)); d != "" {
		t.Errorf("host differs (-before +after):\n%s", d)
	}
	if d := cmp.Diff(appBefore, picture(t, l.app)); d != "" {
		t.Errorf("application's namespace differs (-before +after):\n%s", d)
	}
	if entries, err := os.ReadDir(l.dir); err != nil || len(entries) > 0 {
		t.Errorf("run directory holds %v, err %v", entries, err)
	}
}
