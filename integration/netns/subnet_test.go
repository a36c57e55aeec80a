package netns_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
)

// Two networks never have the same subnet at the same time: the second one waits.
func TestAnAddressWaitsForTheNetworkThatHasItsSubnet(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	address := func(n int, prefix string) netstate.State {
		br := fmt.Sprintf("es%d", n)
		return netstate.NewState(
			netstate.Link{Name: br, Type: netstate.Bridge, MAC: "02:16:3e:00:00:01", MTU: 1500, Alias: "edgespan ni " +
				owner(n).Name},
			netstate.Port{Link: br}, netstate.Address{Link: br, Prefix: prefix},
		)
	}
	l.ns.Exec(t, "ip", "addr", "add", "10.1.0.9/24", "dev", "eth0") // a foreign address does not matter here
	l.must(owner(1), address(1, "10.1.0.1/24"))
	for _, prefix := range []string{"10.1.0.1/24", "10.1.0.7/24", "10.1.0.129/25", "10.1.255.1/16"} {
		fs := l.apply(t.Context(), owner(2), address(2, prefix))
		if len(fs) != 1 || !fs[0].Waiting || !strings.Contains(fs[0].Err, "es1 still has 10.1.0.1/24") {
			t.Errorf("%s beside it: failures %+v, want one that waits", prefix, fs)
		}
	}
	l.must(owner(3), address(3, "10.2.0.1/24"))
	l.must(owner(1), address(1, "10.1.0.2/24")) // its own subnet does not block it
	l.must(owner(1), netstate.State{})
	l.must(owner(2), address(2, "10.1.0.1/24"))
	l.must(owner(2), netstate.State{})
	l.must(owner(3), netstate.State{})
}

func TestAGatewayMovesWithinItsSubnet(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(hostOwner, root())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, gateway := range []string{"", "gateway: 10.1.0.254, ", "gateway: 10.1.0.7, ", ""} {
		config := strings.Replace(l.networkDoc(1), "subnet: 10.1.0.0/24", gateway+
			"subnet: 10.1.0.0/24, dhcpRange: 10.1.0.100-10.1.0.200", 1)
		want := l.desiredStates(config, desiredStates{}).nets[1]
		if fs := l.apply(ctx, owner(1), want); len(fs) > 0 {
			t.Fatalf("%s: %+v", gateway, fs)
		}
		l.equal(owner(1), want)
	}
}

// All forms of prefixes that a subnet may overlap are read: addresses of lo, and routes without a gateway, with one,
// with several, and with an IPv6 one.
func TestTheHostsOwnPrefixes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, cmd := range []string{
		"ip addr add 10.8.0.1/32 dev lo",
		"ip addr add 10.9.0.1/24 dev eth0",
		"ip route add 10.10.0.0/16 dev eth0",
		"ip route add 10.11.0.0/16 via 10.9.0.9",
		"ip route add 10.12.0.0/16 nexthop via 10.9.0.9 nexthop via 10.9.0.8",
		"ip route add 10.13.0.0/16 via inet6 fe80::1 dev eth0",
		"ip route add blackhole 10.14.0.0/16",
		"ip route add 10.15.0.0/16 dev eth0 table 555",
	} {
		l.ns.Exec(t, strings.Fields(cmd)...)
	}
	l.must(owner(1), netstate.NewState(
		netstate.Link{Name: "es1", Type: netstate.Bridge, MAC: "02:16:3e:00:00:01", MTU: 1500, Alias: "edgespan ni " +
			owner(1).Name},
		netstate.Port{Link: "es1"}, netstate.Address{Link: "es1", Prefix: "10.16.0.1/24"},
	))
	var got []string
	for _, p := range overlap.HostPrefixes(l.interfaces()) {
		if strings.HasPrefix(p.Prefix.String(), "10.") {
			got = append(got, p.String())
		}
	}
	slices.Sort(got)
	want := []string{
		"10.8.0.1/32 on lo", "10.9.0.1/24 on eth0", "route 10.10.0.0/16 on eth0", "route 10.11.0.0/16 via 10.9.0.9 on eth0",
		"route 10.12.0.0/16 via 10.9.0.8 on eth0", "route 10.12.0.0/16 via 10.9.0.9 on eth0",
		"route 10.13.0.0/16 via fe80::1 on eth0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	l.must(owner(1), netstate.State{})
}
