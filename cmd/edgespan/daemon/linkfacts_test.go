package daemon

import (
	"fmt"
	"net/netip"
	"testing"
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
