package netns_test

import (
	"strings"
	"testing"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// What others change of the bridge of a network whose subnet others may have is observed and repaired, and a network
// that no longer shares it gets the settings of new links.
func TestSettingsOfASharedSubnetAreRepaired(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	doc := func(net string) string {
		return "ports:\n" + wanDoc + "networkInstances:\n" + net + "appNetworks:\n" + appDoc(1, webACL, l.attach(1, "eth10"))
	}
	l.ns.Exec(t, "sysctl", "-qw", "net.ipv4.conf.default.rp_filter=1")
	own := l.desiredStates(doc(netDoc(1, 1400, "10.1.0.0/24", "edge")), desiredStates{})
	shared := l.desiredStates(doc(sharedDoc(1, "10.1.0.0/24")), own)
	l.turn(desiredStates{}, own)
	l.turn(own, shared)
	for _, change := range []string{
		"sysctl -qw net.ipv4.conf.es1.rp_filter=1", "sysctl -qw net.ipv4.conf.es1.rp_filter=0",
		"sysctl -qw net.ipv4.conf.es1.arp_announce=0", "sysctl -qw net.ipv4.conf.es1.forwarding=1",
		"ip addr del 169.254.0.1/32 dev es1", "ip addr del 10.1.0.1/24 dev es1",
		"ip addr del 10.1.0.1/24 dev es1; ip addr add 10.1.0.1/24 dev es1 noprefixroute", "ip rule del priority 15001",
		"ip rule del priority 16001", "ip rule del priority 22001", "iptables -t nat -F ES1-GW",
	} {
		l.ns.Exec(t, "sh", "-c", change)
		if len(netstate.Diff(l.observe(owner(1), true), shared.nets[1])) == 0 {
			t.Errorf("%s: nothing differs", change)
		}
		if fs := l.apply(t.Context(), owner(1), shared.nets[1]); len(fs) > 0 {
			t.Fatalf("%s: %v", change, fs)
		}
		l.holds(shared, shared)
	}
	// A daemon that was started with a config without the network knows only its number, and removes it.
	for _, u := range []turn{{hostOwner, netinst.HostState([]netinst.HostNetwork{{Number: 1}})}, {owner(1), nil},
		{hostOwner, nil}} {
		if fs := l.apply(t.Context(), u.owner, u.want); len(fs) > 0 {
			t.Fatalf("remove %s: %v", u.owner.Name, fs)
		}
	}
	l.turn(desiredStates{}, shared)
	l.turn(shared, own)
	if got := l.ns.Exec(t, "sysctl", "-n", "net.ipv4.conf.es1.rp_filter", "net.ipv4.conf.es1.forwarding"); got != "1\n1\n" {
		t.Errorf("rp_filter and forwarding are %q", got)
	}
}

// So is what leads packets back to a network behind NAT whose subnet others may have.
func TestTheWayBackToASharedSubnetIsRepaired(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nets := func(list ...string) string {
		return "ports:\n" + wanDoc + "networkInstances:\n" + strings.Join(list, "") + "appNetworks:\n" +
			appDoc(1, webACL, l.attach(1, "eth10"))
	}
	own := l.desiredStates(nets(sharedDoc(1, "10.1.0.0/24")), desiredStates{})
	shared := l.desiredStates(nets(natDoc(1, "10.1.0.0/24"), natDoc(2, "10.1.0.0/24")), own)
	l.turn(desiredStates{}, own)
	l.turn(own, shared)
	for _, change := range []string{
		"sysctl -qw net.ipv4.conf.es1.forwarding=0", "ip rule del priority 15001 iif es1",
		"ip rule del priority 15001 to 10.1.0.0/24", "ip rule del priority 15001 oif es1",
		"ip rule del priority 15001 iif es1; ip rule add priority 15001 iif es2 lookup 20001",
	} {
		l.ns.Exec(t, "sh", "-c", change)
		if len(netstate.Diff(l.observe(owner(1), true), shared.nets[1])) == 0 {
			t.Errorf("%s: nothing differs", change)
		}
		if fs := l.apply(t.Context(), owner(1), shared.nets[1]); len(fs) > 0 {
			t.Fatalf("%s: %v", change, fs)
		}
		l.holds(shared, shared)
	}
	listed := l.ns.Exec(t, "nft", "list", "table", "inet", "edgespan") // other people's tools can read it
	for _, want := range []string{"ct original zone set 20001", "ct original zone != 20001 drop", "20002 : jump ES2-BACK",
		"ct original zone vmap @returns"} {
		if !strings.Contains(listed, want) {
			t.Errorf("nft does not list %q:\n%s", want, listed)
		}
	}
	l.turn(shared, own)
}
