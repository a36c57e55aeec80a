package manager

import (
	"net/netip"
	"testing"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// What is found of a network on the host yields its leases.
func TestTheHostShowsWhatTheJournalLost(t *testing.T) {
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, map[netinst.AdapterKey]netinst.Lease{
		{AppUUID: appW}: {Number: 7, IP: netip.MustParseAddr("10.1.0.77"), MAC: "02:00:00:00:00:07"},
	})
	var want netstate.State
	for _, e := range []Event{
		ApplierReady{}, PortsChanged{Ports: testPort()}, ConfigChanged{Config: testNetwork(1)}, AdapterChanged{testAdapter(appW, 1, true)},
		AdaptersKnown{}, Synchronized{},
	} {
		for _, eff := range m.Step(e) {
			if a, ok := eff.(Apply); ok {
				want = a.Want
			}
		}
	}
	held := m.held
	found := netinst.FoundLeases(1, want)
	if len(found) != 1 || found[netinst.AdapterKey{AppUUID: appW}] != held[netinst.AdapterKey{AppUUID: appW}] {
		t.Fatalf("found %+v, held are %+v", found, held)
	}
	if other := netinst.FoundLeases(2, want); len(other) > 0 {
		t.Errorf("another network has %+v", other)
	}
	// A start without the journal desires exactly the same, and journals it.
	next := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 8, nil)
	next.Adopt(found, true)
	remembered := false
	for _, e := range []Event{
		ApplierReady{}, PortsChanged{Ports: testPort()}, ConfigChanged{Config: testNetwork(1)}, AdapterChanged{testAdapter(appW, 1, true)},
		AdaptersKnown{}, Synchronized{},
	} {
		for _, eff := range next.Step(e) {
			switch eff := eff.(type) {
			case JournalLeases:
				remembered = true
			case Apply:
				if plan := netstate.Diff(want, eff.Want); len(plan) > 0 {
					t.Errorf("the host is to be changed: %v", plan)
				}
			}
		}
	}
	if !remembered {
		t.Error("what was found is not journalled")
	}
}

// What is found on the host wins over the journal; what the host does not show is kept from the journal.
func TestWhatIsAdopted(t *testing.T) {
	k := netinst.AdapterKey{AppUUID: appW}
	for _, c := range []struct{ held, found, want netinst.Lease }{
		{netinst.Lease{}, netinst.Lease{Number: 3, MAC: "a", IP: netip.MustParseAddr("10.1.0.7")},
			netinst.Lease{Number: 3, MAC: "a", IP: netip.MustParseAddr("10.1.0.7")}},
		{netinst.Lease{Number: 3, MAC: "a", FixedMAC: true, IP: netip.MustParseAddr("10.1.0.7"), Gone: 5}, netinst.Lease{},
			netinst.Lease{Number: 3, MAC: "a", FixedMAC: true, IP: netip.MustParseAddr("10.1.0.7")}},
		{netinst.Lease{MAC: "a", FixedMAC: true}, netinst.Lease{MAC: "a"}, netinst.Lease{MAC: "a", FixedMAC: true}},
		{netinst.Lease{MAC: "a", FixedMAC: true}, netinst.Lease{MAC: "b"}, netinst.Lease{MAC: "b"}},
		{netinst.Lease{MAC: "a"}, netinst.Lease{MAC: "a"}, netinst.Lease{MAC: "a"}},
	} {
		m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7,
			map[netinst.AdapterKey]netinst.Lease{k: c.held})
		m.Adopt(map[netinst.AdapterKey]netinst.Lease{k: c.found}, true)
		if m.held[k] != c.want || !m.adopted || !m.foundRunning {
			t.Errorf("%+v and %+v: %+v, want %+v", c.held, c.found, m.held[k], c.want)
		}
	}
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
	if m.Adopt(nil, false); m.adopted || m.foundRunning {
		t.Error("nothing is adopted")
	}
}

// With drift observed only and the applied mark lost, the existing objects are observed, not created again, until the
// desired config changes.
func TestALinkIsNotRecreatedWhenItsMarkIsLost(t *testing.T) {
	c := testNetwork(1)
	c.Observe = true
	begin := func(standing bool) (*Manager, Apply) {
		m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 8, nil)
		m.Adopt(nil, standing)
		var a Apply
		for _, e := range []Event{ApplierReady{}, PortsChanged{Ports: testPort()}, ConfigChanged{Config: c}, AdaptersKnown{},
			Synchronized{}} {
			if got, ok := look(m.Step(e)); ok {
				a = got
			}
		}
		return m, a
	}
	if _, a := begin(false); a.ObserveOnly {
		t.Error("what is not there is looked at")
	}
	m, a := begin(true)
	if !a.ObserveOnly {
		t.Fatal("what stands is made again")
	}
	m.Step(Applied{Seq: a.Seq})
	next := c
	next.MTU, next.Generation = 1400, 2
	if a, ok := look(m.Step(ConfigChanged{Config: next})); !ok || a.ObserveOnly {
		t.Errorf("another desired state: %+v", a)
	}
}
