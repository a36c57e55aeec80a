package overlap

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"edgespan/netinst/netstate"
)

func TestWhatOverlapsASubnet(t *testing.T) {
	eth0 := func(i netstate.Interface) netstate.Interface { i.Name = "eth0"; return i }
	addrs := func(as ...string) (out []netip.Prefix) {
		for _, a := range as {
			out = append(out, netip.MustParsePrefix(a))
		}
		return out
	}
	route := func(dst, via string) netstate.HostRoute {
		r := netstate.HostRoute{Dst: netip.MustParsePrefix(dst), Dev: "eth0"}
		if via != "" {
			r.Via = netip.MustParseAddr(via)
		}
		return r
	}
	for name, c := range map[string]struct {
		host                  netstate.Interface
		wantClash, wantHidden string
	}{
		"nothing there":        {},
		"an address beside it": {host: eth0(netstate.Interface{Addresses: addrs("10.2.0.1/24")})},
		"an address of the same subnet": {host: eth0(netstate.Interface{Addresses: addrs("10.1.0.9/24")}),
			wantClash: "10.1.0.9/24 on eth0"},
		"an address whose subnet contains it": {host: eth0(netstate.Interface{Addresses: addrs("10.9.0.1/8")}),
			wantClash: "10.9.0.1/8 on eth0"},
		"an address whose subnet is a part of it": {host: eth0(netstate.Interface{Addresses: addrs("10.1.0.129/25")}),
			wantClash: "10.1.0.129/25 on eth0"},
		"a host address in it": {host: netstate.Interface{Name: "lo",
			Addresses: addrs("127.0.0.1/8", "10.1.0.5/32")}, wantClash: "10.1.0.5/32 on lo"},
		"a host address outside of it": {host: netstate.Interface{Name: "lo",
			Addresses: addrs("127.0.0.1/8", "10.9.0.5/32")}},
		"link-local": {host: eth0(netstate.Interface{Addresses: addrs("169.254.1.1/16",
			"fe80::1/64")})},
		"a VPN as wide as it": {host: eth0(netstate.Interface{PointToPoint: true,
			Routes: []netstate.HostRoute{route("10.1.0.0/24", "")}}), wantClash: "route 10.1.0.0/24 on eth0"},
		"four are all named": {host: eth0(netstate.Interface{Addresses: addrs("10.1.0.5/32",
			"10.1.0.3/32", "10.1.0.6/32", "10.1.0.4/32")}),
			wantClash: "10.1.0.3/32 on eth0, 10.1.0.4/32 on eth0, 10.1.0.5/32 on eth0, 10.1.0.6/32 on eth0"},
		"an address of everything is its own alone": {host: eth0(netstate.Interface{Addresses: addrs("10.1.0.1/0")}),
			wantClash: "10.1.0.1/32 on eth0"},
		"a connected route": {host: eth0(netstate.Interface{Routes: []netstate.HostRoute{route("10.1.0.0/16", "")}}),
			wantClash: "route 10.1.0.0/16 on eth0"},
		"the route of an address is told once": {host: eth0(netstate.Interface{Addresses: addrs("10.1.0.9/24"),
			Routes: []netstate.HostRoute{route("10.1.0.0/24", "")}}), wantClash: "10.1.0.9/24 on eth0"},
		"a route by a gateway": {host: eth0(netstate.Interface{Routes: []netstate.HostRoute{route("10.1.0.0/25",
			"192.0.2.1")}}), wantHidden: "route 10.1.0.0/25 via 192.0.2.1 on eth0"},
		"the world in halves": {host: eth0(netstate.Interface{Routes: []netstate.HostRoute{route("0.0.0.0/1", ""),
			route("0.0.0.0/1", "192.0.2.1")}})},
		"all of a VPN's addresses": {host: eth0(netstate.Interface{PointToPoint: true,
			Routes: []netstate.HostRoute{route("10.0.0.0/8", "")}}), wantHidden: "route 10.0.0.0/8 on eth0"},
		"the other end of a VPN is in it": {host: eth0(netstate.Interface{PointToPoint: true,
			Routes: []netstate.HostRoute{route("10.1.0.7/32", "")}}), wantClash: "route 10.1.0.7/32 on eth0"},
		"the address of a VPN's end is in the subnet": {host: eth0(netstate.Interface{PointToPoint: true,
			Addresses: addrs("10.1.0.7/8")}), wantClash: "10.1.0.7/8 on eth0"},
		"addresses come first, few are named": {
			host: eth0(netstate.Interface{
				Addresses: addrs("10.1.0.6/32", "10.1.0.5/32", "10.1.0.4/32", "10.1.0.3/32"),
				Routes:    []netstate.HostRoute{route("10.1.0.1/32", ""), route("10.1.0.2/32", "")},
			}),
			wantClash: "10.1.0.3/32 on eth0, 10.1.0.4/32 on eth0, 10.1.0.5/32 on eth0, 10.1.0.6/32 on eth0 and 2 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := Overlap{Subnet: netip.MustParsePrefix("10.1.0.0/24"), Clash: c.wantClash, Hidden: c.wantHidden}
			if got := With(want.Subnet, HostPrefixes([]netstate.Interface{c.host})); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// Addresses that no network can have are not searched for each network.
func TestWhatNoNetworkCanOverlapIsNoneOfTheHosts(t *testing.T) {
	seen := []netstate.Interface{{Name: "lo",
		Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("169.254.3.4/16"),
			netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fe80::1/64"), netip.MustParsePrefix("2001:db8::1/64"),
			netip.MustParsePrefix("10.9.0.5/32")}}}
	if got := HostPrefixes(seen); len(got) != 2 || got[0].Prefix != netip.MustParsePrefix("2001:db8::1/64") ||
		got[1].Prefix != netip.MustParsePrefix("10.9.0.5/32") {
		t.Errorf("%v", got)
	}
	two := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24"), netip.MustParsePrefix("10.2.0.0/24")}
	host := []HostPrefix{{Prefix: netip.MustParsePrefix("10.1.0.0/24"), Link: "eth0"},
		{Prefix: netip.MustParsePrefix("10.2.0.7/32"), Link: "eth1", Address: true},
		{Prefix: netip.MustParsePrefix("10.2.0.0/16"), Link: "eth2", Via: netip.MustParseAddr("192.0.2.1")}}
	for i, got := range compare(two, host) {
		if want := With(two[i], host); got != want || got.Clash == "" {
			t.Errorf("%+v, alone %+v", got, want)
		}
	}
}

// Checking many subnets at once gives the same results as checking each alone.
func TestManySubnetsAtOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 14))
	random := func(from int) netip.Prefix {
		a := netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), byte(r.IntN(8)), byte(r.IntN(256))})
		return netip.PrefixFrom(a, from+r.IntN(33-from))
	}
	for range 300 {
		var host []HostPrefix
		for i := range r.IntN(30) {
			p := HostPrefix{Prefix: random(8), Link: fmt.Sprint("l", i), Address: r.IntN(2) == 0}
			if !p.Address {
				p.Prefix, p.Wide = p.Prefix.Masked(), r.IntN(2) == 0
			}
			if !p.Address && r.IntN(2) == 0 {
				p.Via = netip.MustParseAddr("192.0.2.1")
			}
			host = append(host, p)
		}
		subnets := []netip.Prefix{{}}
		for range 20 {
			subnets = append(subnets, random(8).Masked())
		}
		for i, got := range compare(subnets, host) {
			if want := With(subnets[i], slices.Clone(host)); got != want {
				t.Fatalf("%s: %+v, want %+v", subnets[i], got, want)
			}
		}
	}
}

// BenchmarkOverlaps has 999 networks on a host with 1,000 foreign addresses.
func BenchmarkOverlaps(b *testing.B) {
	var host []HostPrefix
	var subnets []netip.Prefix
	for i := range 1000 {
		host = append(host, HostPrefix{Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16 + byte(i>>8), byte(i), 1}),
			24), Link: fmt.Sprint("br", i), Address: true})
		subnets = append(subnets, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24))
	}
	for b.Loop() {
		compare(subnets[:999], host)
	}
}

func TestWhatOverlapsASubnetOfIPv6(t *testing.T) {
	subnets := func(four, six string) (s Subnets) {
		s.IPv4 = netip.MustParsePrefix(four)
		if six != "" {
			s.IPv6 = netip.MustParsePrefix(six)
		}
		return s
	}
	host := HostPrefixes([]netstate.Interface{{Name: "eth0", Addresses: []netip.Prefix{netip.MustParsePrefix("10.2.0.9/24"),
		netip.MustParsePrefix("fd00:2::9/64"), netip.MustParsePrefix("fe80::9/64")}},
		{Name: "lo", Addresses: []netip.Prefix{netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fd00:3::5/128")}}})
	got := Of([]Subnets{subnets("10.1.0.0/24", "fd00:1::/64"), subnets("10.2.0.0/24", "fd00:2::/64"),
		subnets("10.3.0.0/24", "fd00:3::/64"), subnets("10.4.0.0/24", "")}, host)
	for i, want := range []struct{ withdrawn, warning string }{
		{}, {"subnet 10.2.0.0/24 overlaps 10.2.0.9/24 on eth0", "subnet fd00:2::/64 hides fd00:2::9/64 on eth0"},
		{"", "subnet fd00:3::/64 hides fd00:3::5/128 on lo"}, {},
	} {
		if got[i].Withdrawn() != want.withdrawn || got[i].Warning() != want.warning {
			t.Errorf("%d: %q, %q, want %q", i, got[i].Withdrawn(), got[i].Warning(), want)
		}
	}
}
