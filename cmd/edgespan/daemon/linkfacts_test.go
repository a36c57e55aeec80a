package daemon

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// The addresses of controllers are those given and those of their names, which are bounded; only another one is told.
func TestTheAddressesOfControllersAreKnown(t *testing.T) {
	l := newLinkFacts("hq.example.org:8444, 192.0.2.9:8444,[2001:db8::9]:8444")
	told := 0
	l.Watch(func() { told++ })
	is := func(want string) {
		t.Helper()
		if got := fmt.Sprint(l.Controllers()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	is("[192.0.2.9 2001:db8::9]")
	l.dial(netip.MustParseAddr("::ffff:198.51.100.7"))
	l.dial(netip.MustParseAddr("198.51.100.7"))
	l.dial(netip.MustParseAddr("192.0.2.9"))
	is("[192.0.2.9 198.51.100.7 2001:db8::9]")
	if told != 2 {
		t.Errorf("%d changes are told", told)
	}
	for i := range 100 { // a resolver that always says something else; one of them stays in use
		l.dial(netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}))
		l.dial(netip.MustParseAddr("198.51.100.7"))
	}
	all := l.Controllers()
	if len(all) > maxDialed+2 {
		t.Errorf("%d addresses are kept", len(all))
	}
	is(fmt.Sprint(append(append([]netip.Addr{}, netip.MustParseAddr("192.0.2.9"), netip.MustParseAddr("198.51.100.7")),
		all[2:]...)))
}

func TestWhetherAMemberIsSilenced(t *testing.T) {
	since := time.Unix(1e9, 0)
	heard := netstate.TunnelPeer{LastHandshake: since.Add(time.Second)}
	silent := netstate.TunnelPeer{LastHandshake: since.Add(-time.Second)}
	away := netstate.TunnelPeer{LastHandshake: since.Add(-upFor)}
	networks := map[string]netinst.NetworkInstanceConfig{"vpn": {Type: netinst.VPN},
		"cluster": {Type: netinst.Switch, Tunnels: []netinst.Tunnel{{Encrypted: &netinst.TunnelKey{}}}}}
	for name, c := range map[string]struct {
		of    string
		peers []netstate.TunnelPeer
		want  bool
	}{
		"no member":                    {"cluster", nil, false},
		"all are silent":               {"cluster", []netstate.TunnelPeer{silent, {}}, true},
		"all answer":                   {"cluster", []netstate.TunnelPeer{heard, heard}, false},
		"one answers, who may be evil": {"cluster", []netstate.TunnelPeer{heard, silent}, true},
		"one was away before":          {"cluster", []netstate.TunnelPeer{heard, away, {}}, false},
		"the peers of a VPN":           {"vpn", []netstate.TunnelPeer{silent}, false},
		"it is not known who was up":   {"cluster", []netstate.TunnelPeer{{}, {}}, true},
		"one answers, others unknown":  {"cluster", []netstate.TunnelPeer{{}, heard}, false},
		"of a network that is gone":    {"other", []netstate.TunnelPeer{silent}, false},
	} {
		if got := silenced(map[string]netstate.TunnelStatus{c.of: {Peers: c.peers}}, networks, since); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
