package manager

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// macW is the MAC of the first adapter of appW on niA.
const macW = "02:47:27:37:73:12"

// learner is a manager of a switch network with one active adapter.
type learner struct {
	*testing.T
	m      *Manager
	n      uint64
	tok    uint64 // of the check of addresses
	mac    string
	leased string // last, by DHCP
}

func newLearner(t *testing.T) *learner {
	l := &learner{T: t, m: New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil),
		mac: macW}
	c := testNetwork(1)
	c.Type, c.Port, c.IPv4 = netinst.Switch, "", netinst.IPv4Config{}
	for _, e := range []Event{ApplierReady{}, PortsChanged{Ports: nil}, ConfigChanged{Config: c},
		AdapterChanged{testAdapter(appW, 1, true)}, AdaptersKnown{}} {
		l.m.Step(e)
	}
	l.step(Synchronized{}, "")
	l.applied("listen es1a1, addresses  of es1a1")
	return l
}

// step checks the links that are listened on and the addresses shown.
func (l *learner) step(e Event, want string) {
	l.Helper()
	var got []string
	for _, eff := range l.m.Step(e) {
		switch eff := eff.(type) {
		case Apply:
			l.n = eff.Seq.N
		case Listen:
			got = append(got, "listen "+strings.Join(eff.Links, ","))
		case PublishAdapter:
			u := eff.Status.Link
			got = append(got, "addresses "+u.Addresses+" of "+string(u.HostIfName))
			first, _, _ := strings.Cut(u.Addresses, ",")
			if l.leased != "" && strings.Contains(","+u.Addresses+",", ","+l.leased+",") {
				first = l.leased
			}
			if first != "" && first != u.IP.String() {
				l.Errorf("the address is %s of %s, want %s", u.IP, u.Addresses, first)
			}
		case Timer:
			if eff.After == addressCheckEvery {
				l.tok = eff.Token
			}
		}
	}
	if s := strings.Join(got, ", "); s != want {
		l.Fatalf("%T: %q, want %q", e, s, want)
	}
}

func (l *learner) applied(want string) { l.Helper(); l.step(applied(l.n), want) }

func (l *learner) see(at time.Duration, mac, addr, want string) {
	l.Helper()
	l.step(AddressObserved{netstate.ObservedAddress{Link: "es1a1", MAC: mac, IP: netip.MustParseAddr(addr)},
		time.Unix(0, 0).Add(at)},
		want)
}

// lease reports a lease of a DHCP server.
func (l *learner) lease(at time.Duration, addr, want string) {
	l.Helper()
	l.leased = addr
	l.step(AddressObserved{netstate.ObservedAddress{Link: "es1a1", MAC: l.mac, IP: netip.MustParseAddr(addr),
		Leased: true},
		time.Unix(0, 0).Add(at)},
		want)
}

func (l *learner) check(at time.Duration, want string) {
	l.Helper()
	l.step(TimerDue{l.tok, time.Unix(0, 0).Add(at)}, want)
}

func TestAddressesAreLearntAndForgottenAfterTenMinutes(t *testing.T) {
	l := newLearner(t)
	l.see(0, l.mac, "10.0.0.9", "addresses 10.0.0.9 of es1a1")
	l.see(0, l.mac, "10.0.0.7", "addresses 10.0.0.7,10.0.0.9 of es1a1")
	l.see(time.Minute, l.mac, "10.0.0.100", "addresses 10.0.0.7,10.0.0.9,10.0.0.100 of es1a1")
	l.see(5*time.Minute, l.mac, "10.0.0.9", "")
	l.see(5*time.Minute, "02:00:00:00:00:99", "10.0.0.66", "") // not the adapter's MAC
	l.check(10*time.Minute-time.Second, "")
	l.check(10*time.Minute, "addresses 10.0.0.9,10.0.0.100 of es1a1")
	l.check(11*time.Minute, "addresses 10.0.0.9 of es1a1")
	l.check(15*time.Minute, "addresses  of es1a1")
	last := l.tok
	l.check(16*time.Minute, "") // nothing is left to check
	l.see(17*time.Minute, l.mac, "10.0.0.9", "addresses 10.0.0.9 of es1a1")
	if l.tok == last {
		t.Error("what is learnt again is never checked")
	}
}

func TestALeaseTakesThePlaceOfTheOneBefore(t *testing.T) {
	l := newLearner(t)
	l.see(0, l.mac, "10.0.0.5", "addresses 10.0.0.5 of es1a1")
	l.lease(0, "10.0.0.7", "addresses 10.0.0.5,10.0.0.7 of es1a1")
	l.lease(time.Second, "10.0.0.7", "") // renewed
	// An acknowledgement without an address changes nothing.
	l.step(AddressObserved{netstate.ObservedAddress{Link: "es1a1", MAC: l.mac, IP: netip.MustParseAddr("0.0.0.0"),
		Leased: true},
		time.Unix(2, 0)}, "")
	l.step(AddressObserved{netstate.ObservedAddress{Link: "es1a1", MAC: l.mac, Leased: true}, time.Unix(2, 0)}, "")
	l.lease(3*time.Second, "10.0.0.9", "addresses 10.0.0.5,10.0.0.9 of es1a1")
	l.see(4*time.Second, l.mac, "10.0.0.7", "addresses 10.0.0.5,10.0.0.7,10.0.0.9 of es1a1") // the guest uses it itself
	// An address seen before becomes the primary one.
	l.lease(5*time.Second, "10.0.0.7", "addresses 10.0.0.5,10.0.0.7 of es1a1")
	l.lease(6*time.Second, "10.0.0.5", "addresses 10.0.0.5 of es1a1")
	l.see(7*time.Second, l.mac, "10.0.0.1", "addresses 10.0.0.1,10.0.0.5 of es1a1")
	// The lease is no longer the lowest only because another is.
	l.lease(8*time.Second, "10.0.0.1", "addresses 10.0.0.1 of es1a1")
	l.check(9*time.Minute, "")
	l.check(11*time.Minute, "addresses  of es1a1")
}

func TestALeaseHasRoomAmongTooManyAddresses(t *testing.T) {
	l := newLearner(t)
	for i := range 2 * maxAddresses {
		l.m.Step(AddressObserved{netstate.ObservedAddress{Link: "es1a1", MAC: l.mac,
			IP: netip.MustParseAddr(fmt.Sprintf("10.0.1.%d", i))},
			time.Unix(0, 0)})
	}
	a := l.m.adapters[netinst.AdapterKey{AppUUID: appW, Index: 0}]
	for i := range 2 * maxAddresses {
		leased := netip.MustParseAddr(fmt.Sprintf("10.0.2.%d", i))
		l.m.Step(AddressObserved{netstate.ObservedAddress{Link: "es1a1", MAC: l.mac, IP: leased, Leased: true},
			time.Unix(0, 0)})
		if got := a.published.Link.IP; got != leased || len(a.addresses) > maxAddresses+1 {
			t.Fatalf("lease %s: the address is %s of %d", leased, got, len(a.addresses))
		}
	}
}

func TestAnAdapterHasABoundedNumberOfAddresses(t *testing.T) {
	l := newLearner(t)
	for i := range 40 {
		l.m.Step(AddressObserved{netstate.ObservedAddress{Link: "es1a1", MAC: l.mac,
			IP: netip.MustParseAddr(fmt.Sprintf("10.0.1.%d", i))},
			time.Unix(0, 0)})
	}
	if n := len(l.m.adapters[netinst.AdapterKey{AppUUID: appW, Index: 0}].addresses); n > maxAddresses {
		t.Errorf("%d addresses are kept", n)
	}
}

func TestWhatWasLearntGoesWithTheAdapter(t *testing.T) {
	l := newLearner(t)
	l.see(0, l.mac, "10.0.0.9", "addresses 10.0.0.9 of es1a1")
	l.step(HostTouched{}, "")
	l.applied("") // an apply that changes nothing keeps it
	l.step(AdapterChanged{testAdapter(appW, 2, false)}, "")
	l.applied("listen , addresses  of ")
	l.see(0, l.mac, "10.0.0.9", "")
	l.step(AdapterChanged{testAdapter(appW, 3, true)}, "")
	l.applied("listen es1a1, addresses  of es1a1")
	l.see(0, l.mac, "10.0.0.8", "addresses 10.0.0.8 of es1a1")
	c := l.m.config
	c.Inactive = true
	l.step(ConfigChanged{Config: c}, "")
	l.applied("listen , addresses  of ")
	l.step(ConfigGone{}, "")
	l.applied("addresses  of ")

	l = newLearner(t) // a manager without an answer yet shows nothing
	l.see(0, l.mac, "10.0.0.9", "addresses 10.0.0.9 of es1a1")
	l.step(AdapterChanged{testAdapter(appX, 1, true)}, "")
	l.check(10*time.Minute, "addresses  of es1a1")

	l = newLearner(t) // a manager without a lease has no link to listen on
	twin := testAdapter(appX, 1, true)
	twin.Spec.MAC = l.mac
	l.step(AdapterChanged{twin}, "")
	l.applied("addresses  of ")
	l.step(ConfigGone{}, "")
	l.applied("listen , addresses  of , addresses  of ")
}

func TestALocalNetworkLearnsNoAddresses(t *testing.T) {
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
	for _, s := range begun(managerStep{AdapterChanged{testAdapter(appW, 1, true)}, ""}, managerStep{applied(2), ""}) {
		for _, e := range m.Step(s.event) {
			if x, ok := e.(Listen); ok && len(x.Links) > 0 {
				t.Errorf("a local network listens for addresses: %v", x)
			}
		}
	}
	seen := AddressObserved{netstate.ObservedAddress{Link: "es1a1", MAC: macW, IP: netip.MustParseAddr("10.9.9.9")},
		time.Unix(0, 0)}
	if effs := m.Step(seen); len(effs) > 0 {
		t.Errorf("and learns: %v", effs)
	}
}

// TestMessagesOfActiveAdaptersAreWatched: on a local network by its bridge, and their leases show in the status.
func TestMessagesOfActiveAdaptersAreWatched(t *testing.T) {
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
	lease := func(word string) LeaseObserved { return LeaseObserved{testAdapter(appW, 1, true).Key(), word} }
	step := func(e Event) (said []string) {
		for _, eff := range m.Step(e) {
			switch x := eff.(type) {
			case Listen:
				said = append(said, fmt.Sprint("watch ", len(x.Watched)))
				for _, w := range x.Watched {
					said = append(said, fmt.Sprintf("%s on %s, %v", w.MAC, w.Link, w.IP))
				}
			case PublishAdapter:
				said = append(said, fmt.Sprintf("lease %q", x.Status.Link.Lease))
			}
		}
		return said
	}
	var last []string
	for _, s := range begun(managerStep{AdapterChanged{testAdapter(appW, 1, true)}, ""}, managerStep{applied(2), ""}) {
		last = step(s.event)
	}
	l := m.adapters[testAdapter(appW, 1, true).Key()].lease
	for _, x := range []struct {
		e    Event
		want []string
	}{
		{nil, []string{"watch 1", fmt.Sprintf("%s on es1, %v", l.MAC, l.IP), `lease ""`}},
		{lease("assigned"), []string{`lease "assigned"`}},
		{lease("assigned"), nil},
		{LeaseObserved{testAdapter(appX, 1, true).Key(), "assigned"}, nil},
		{AdapterChanged{testAdapter(appW, 2, false)}, nil},
		{applied(3), []string{"watch 0", `lease ""`}},
		{lease("assigned"), nil},
	} {
		if x.e != nil {
			last = step(x.e)
		}
		if fmt.Sprint(last) != fmt.Sprint(x.want) {
			t.Errorf("%T: %q, want %q", x.e, last, x.want)
		}
	}
}

func TestASwitchIsWatchedByTheLinksOfItsAdapters(t *testing.T) {
	l := newLearner(t)
	want := fmt.Sprintf("[{%v es1a1 %s invalid IP}]", testAdapter(appW, 1, true).Key(), l.mac)
	if got := fmt.Sprint(l.m.listening.Watched); got != want {
		t.Errorf("%s is watched, want %s", got, want)
	}
	l.see(0, l.mac, "10.0.0.9", "addresses 10.0.0.9 of es1a1")
	l.step(LeaseObserved{testAdapter(appW, 1, true).Key(), "assigned"}, "addresses 10.0.0.9 of es1a1")
}
