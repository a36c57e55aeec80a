package kernel

import (
	"net/netip"
	"testing"

	"edgespan/netinst/netstate"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestLinkNumber(t *testing.T) {
	for name, want := range map[string]int{
		"es1": 1, "es999": 999, "es12a3": 12, "es1a0": 1, "es1a9999": 1, "es999v16777215": 999, "es1v256": 1,
		"es0": 0, "es1000": 0, "es01": 0, "es": 0, "es1a": 0, "es1a01": 0, "es1a10000": 0, "es1b2": 0, "eth1": 0,
		"es-doomed1": 0, "es1a1a1": 0, "es+1": 0, "es1v": 0, "es1v01": 0, "es1v16777216": 0, "es1v1a1": 0, "es1a1v1": 0,
		"evpn1": 1, "evpn999": 999, "evpn1000": 0, "evpn0": 0, "evpn": 0, "evpn01": 0, "evpn1a1": 0,
	} {
		n, ok := LinkNumber(name)
		if n != want && ok || ok != (want > 0) {
			t.Errorf("%s: %d %v, want %d", name, n, ok, want)
		}
	}
}

func TestTableAndPriorityNumbers(t *testing.T) {
	for table, want := range map[int]bool{20000: false, 20001: true, 20999: true, 21000: false, 254: false,
		30000: false, 30015: false, 30016: false, 30017: true, 30031: true, 30032: false, 45999: true, 46000: false,
		46001: false, 50000: false, 50001: true, 50999: true, 51000: false} {
		if _, ok := TableNumber(table); ok != want {
			t.Errorf("table %d: %v", table, ok)
		}
	}
	for prio, want := range map[int]int{20001: 1, 21002: 2, 22999: 999, 21000: 0, 23000: 0, 32766: 0, 19000: 0, 22000: 0,
		18000: 0, 18001: 1, 18999: 999, 17999: 0, 15001: 1, 15999: 999, 16001: 1, 16999: 999, 15000: 0, 14000: 0, 14001: 1, 14999: 999,
		13999: 0, 17001: 0} {
		if n, _ := PriorityNumber(prio); n != want {
			t.Errorf("priority %d: %d, want %d", prio, n, want)
		}
	}
}

func TestDoomedNamesFitTheKernel(t *testing.T) {
	if n := doomedName(1<<31-1, 0); len(n) > 15 {
		t.Errorf("%s has %d octets", n, len(n))
	}
}

func TestDefaultRoutesAreOrderedByMetric(t *testing.T) {
	gw := netip.MustParseAddr
	all := netip.MustParsePrefix("0.0.0.0/0")
	got := defaultsByLink([]route{
		{dst: all, kind: unix.RTN_UNICAST, oif: 2, gw: gw("192.0.2.9"), metric: 100, flags: unix.RTNH_F_ONLINK},
		{dst: all, kind: unix.RTN_UNICAST, oif: 2, gw: gw("192.0.2.1")},
		{dst: all, kind: unix.RTN_UNREACHABLE, oif: 2, gw: gw("192.0.2.3")},
		{dst: netip.MustParsePrefix("10.0.0.0/8"), kind: unix.RTN_UNICAST, oif: 3, gw: gw("192.0.2.4")},
		{dst: all, kind: unix.RTN_UNICAST, metric: 200, more: []nexthop{
			{oif: 2, gw: gw("192.0.2.1")}, {oif: 4, gw: gw("192.0.2.5")}, {oif: 6},
			{oif: 7, gw: gw("192.0.2.7"), flags: unix.RTNH_F_DEAD},
		}},
		{dst: all, kind: unix.RTN_UNICAST, oif: 5, metric: 50},
		{dst: netip.MustParsePrefix("::/0"), kind: unix.RTN_UNICAST, oif: 5, metric: 1024},
		{dst: all, kind: unix.RTN_UNICAST, oif: 8, gw: gw("fe80::1")},
	})
	want := map[int][]netstate.DefaultRoute{
		2: {{Gateway: gw("192.0.2.1")}, {Gateway: gw("192.0.2.9"), OnLink: true, Metric: 100}},
		4: {{Gateway: gw("192.0.2.5"), Metric: 200}},
		5: {{Metric: 50}, {IPv6: true, Metric: 1024}},
		6: {{Metric: 200}},
		8: {{Gateway: gw("fe80::1")}},
	}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
