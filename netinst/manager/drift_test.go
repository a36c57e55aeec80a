package manager

import (
	"slices"
	"strings"
	"testing"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// stands brings a manager of one network to where the network is completely applied.
func stands(t *testing.T, observe bool) (*Manager, netinst.NetworkInstanceConfig) {
	t.Helper()
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
	c := testNetwork(1)
	c.Observe = observe
	for _, e := range []Event{ApplierReady{}, PortsChanged{Ports: testPort()}, ConfigChanged{Config: c},
		AdapterChanged{testAdapter(appW, 1, true)}, AdaptersKnown{}, Synchronized{}} {
		m.Step(e)
	}
	m.Step(Applied{Seq: ApplySeq{7, 1}})
	return m, c
}

// look returns the apply among effects; ok reports whether there is one.
func look(effects []Effect) (a Apply, ok bool) {
	for _, e := range effects {
		if a, ok = e.(Apply); ok {
			return a, true
		}
	}
	return a, false
}

func TestDriftIsReportedAndLeftIfItIsOnlyObserved(t *testing.T) {
	chain := fail(netstate.KindChain, "ipv4 filter ES1-FWD", "chain ipv4 filter ES1-FWD: absent")
	left := []netstate.OpFailure{chain, chain}
	m, _ := stands(t, true)
	a, ok := look(m.Step(HostTouched{At: at(100)}))
	if !ok || !a.ObserveOnly {
		t.Fatalf("a touched host is not looked at: %+v", a)
	}
	got := text(m.Step(Applied{Seq: a.Seq, Drift: left}))
	want := "ni CheckPresentFailed (drift, left as it is: chain ipv4 filter ES1-FWD: absent (and 1 more))"
	if !strings.Contains(got, want) || strings.Contains(got, "adapter") || strings.Contains(got, "apply") {
		t.Errorf("got %q\nwant %q and nothing done", got, want)
	}
	if !m.full {
		t.Error("the next look sees less than the one that found the drift")
	}
	// Someone repairs it: the next observation reports that.
	a, _ = look(m.Step(HostTouched{At: at(200)}))
	if got := text(m.Step(Applied{Seq: a.Seq})); !a.ObserveOnly || !a.Full || !strings.Contains(got, "ni Present") {
		t.Errorf("put right: look %+v, %q", a, got)
	}
	// A missing guest is waited for, and drift is still left alone.
	gone := fail(netstate.KindLink, "es1a1", "network namespace app1 does not exist")
	gone.Waiting = true
	a, _ = look(m.Step(HostTouched{At: at(300)}))
	if got := text(m.Step(Applied{Seq: a.Seq, Failures: []netstate.OpFailure{gone}, Drift: left})); !strings.Contains(got,
		"drift, left") || !strings.Contains(got, "does not exist") {
		t.Errorf("beside a guest that has gone: %q", got)
	}
	if a, _ = look(m.Step(HostTouched{Namespaces: true, At: at(400)})); !a.ObserveOnly {
		t.Error("a guest that has gone has drift mended")
	}
	m.Step(Applied{Seq: a.Seq})
	// A change of the desired config is always applied, and repairs drift as well.
	if a, ok := look(m.Step(AdapterChanged{testAdapter(appW, 2, false)})); !ok || a.ObserveOnly {
		t.Errorf("a change of the desired state: %+v", a)
	} else {
		m.Step(Applied{Seq: a.Seq, Failures: []netstate.OpFailure{chain}})
	}
	// What was not applied is created.
	if a, ok := look(m.Step(HostTouched{At: at(500)})); !ok || a.ObserveOnly {
		t.Errorf("after an apply that failed: %+v", a)
	}
}

// A restart finds what drifted meanwhile, and a manager that died in an apply starts it again.
func TestWhatStoodIsKnownToTheNextIncarnation(t *testing.T) {
	complete := func(effects []Effect) (s AppliedMark, at int) {
		for i, e := range effects {
			if s, ok := e.(AppliedMark); ok {
				return s, i
			}
		}
		return s, -1
	}
	m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
	c := testNetwork(1)
	c.Observe = true
	inputs := []Event{ApplierReady{}, PortsChanged{Ports: testPort()}, ConfigChanged{Config: c}, AdaptersKnown{}, Synchronized{}}
	begin := func(m *Manager) (a Apply) {
		for _, e := range inputs {
			if got, ok := look(m.Step(e)); ok {
				a = got
			}
		}
		return a
	}
	if a := begin(m); a.ObserveOnly {
		t.Error("a network that nobody made is only looked at")
	}
	s, at := complete(m.Step(Applied{Seq: ApplySeq{7, 1}}))
	if at < 0 || s.Mark == "" {
		t.Fatal("that it stands is not journalled")
	}
	next := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 8, nil)
	next.Resume(s.Mark)
	if a := begin(next); !a.ObserveOnly {
		t.Error("a restart mends what drifted")
	}
	got := next.Step(Applied{Seq: ApplySeq{8, 1},
		Drift: []netstate.OpFailure{fail(netstate.KindLink, "es1", "link es1: absent")}})
	if st := next.status; st.State != netinst.CheckPresentFailed || st.Generation != 1 {
		t.Errorf("after a restart: %+v", st)
	}
	if _, at := complete(got); at >= 0 {
		t.Error("what stands is journalled again")
	}
	c.MTU, c.Generation = 1400, 2
	effects := next.Step(ConfigChanged{Config: c})
	s, at = complete(effects)
	a, _ := look(effects)
	if at < 0 || s.Mark != "" || a.ObserveOnly {
		t.Errorf("before another desired state is made: %+v at %d, look %v", s, at, a.ObserveOnly)
	}
}

// A release whose bridges have another attribute applies them once, and does not call what stands drift.
func TestTheMarkOfWhatIsAppliedNamesBridges(t *testing.T) {
	f := &flight{gen: 1}
	now, older := netstate.BridgeAttrs(), netstate.BridgeAttrs()
	delete(older, "no_linklocal_learn")
	if desiredMark(f, now) != desiredMark(f, netstate.BridgeAttrs()) || desiredMark(f, now) == desiredMark(f, older) {
		t.Error("the mark does not follow the attributes of bridges")
	}
}

// An observe-only network counts as applied once everything was created: not with a failed adapter, or a port that is
// waited for.
func TestWhatIsNotAppliedIsNotRemembered(t *testing.T) {
	waits := fail(netstate.KindRoute, "0.0.0.0/0 table 20001 metric 0", "no route")
	waits.Waiting = true
	for name, c := range map[string]struct {
		fs   []netstate.OpFailure
		want bool
	}{
		"all is made":      {nil, true},
		"an adapter fails": {[]netstate.OpFailure{fail(netstate.KindLink, "es1a1", "busy")}, false},
		"a route waits":    {[]netstate.OpFailure{waits}, false},
		"the bridge fails": {[]netstate.OpFailure{fail(netstate.KindLink, "es1", "busy")}, false},
	} {
		m := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 7, nil)
		conf := testNetwork(1)
		conf.Observe = true
		complete := false
		for _, e := range []Event{ApplierReady{}, PortsChanged{Ports: testPort()}, ConfigChanged{Config: conf},
			AdapterChanged{testAdapter(appW, 1, true)}, AdaptersKnown{}, Synchronized{}, applied(1, c.fs...)} {
			for _, eff := range m.Step(e) {
				_, ok := eff.(AppliedMark)
				complete = complete || ok
			}
		}
		if complete != c.want {
			t.Errorf("%s: it stands %v", name, complete)
		}
	}
}

func TestDriftIsRepairedOtherwise(t *testing.T) {
	m, _ := stands(t, false)
	if a, ok := look(m.Step(HostTouched{})); !ok || a.ObserveOnly {
		t.Errorf("enforce: %+v", a)
	}
	m, c := stands(t, true)
	c.Observe, c.Generation = false, c.Generation+1
	if a, ok := look(m.Step(ConfigChanged{Config: c})); !ok || a.ObserveOnly || !a.Full {
		t.Errorf("enforced from now on: %+v", a)
	}
	m, _ = stands(t, true)
	if a, ok := look(m.Step(ConfigGone{})); !ok || a.ObserveOnly {
		t.Errorf("a network that is deleted: %+v", a)
	}
}

// What edgespan itself has removed with a branch that led to the network is no drift of others.
func TestWhatEdgespanItselfRemovedIsAppliedAgain(t *testing.T) {
	m, _ := stands(t, true)
	a, ok := look(m.Step(HostTouched{What: TouchMoved}))
	if !ok || a.ObserveOnly || !a.Full {
		t.Errorf("once something else leads to it: %+v", a)
	}
	m.Step(Applied{Seq: a.Seq})
	if a, ok := look(m.Step(HostTouched{At: at(500)})); !ok || !a.ObserveOnly {
		t.Errorf("from then on: %+v", a)
	}

	// One that was found without a mark, and whose config changes before its first apply.
	next := New(netstate.Owner{Name: niA.String(), Number: 1}, "/run/edgespan", 8, nil)
	next.Adopt(nil, true)
	c := testNetwork(1)
	c.Observe = true
	for _, e := range []Event{ApplierReady{}, PortsChanged{Ports: testPort()}, ConfigChanged{Config: c},
		HostTouched{What: TouchMoved}, AdaptersKnown{}, Synchronized{}} {
		if a, ok := look(next.Step(e)); ok && a.ObserveOnly {
			t.Errorf("%T: it is only looked at", e)
		}
	}
	if next.anew || next.flight == nil {
		t.Errorf("after its first apply began: %+v", next.flight)
	}
}

func TestWhatComesAndGoesByItselfIsNoDrift(t *testing.T) {
	up := func(link, master string, foreign bool, after ...netstate.ID) netstate.Port {
		return netstate.Port{Link: link, Master: master, Foreign: foreign, After: after}
	}
	chain := netstate.Chain{Family: netstate.IPv4, Table: "filter", Name: "ES1-1E", Rules: []string{"-j DROP"}}
	tunnel := netstate.Link{Name: "es1v256", Type: netstate.VXLAN, Vxlan: &netstate.Tunnel{VNI: 256}}
	lost := tunnel
	lost.Vxlan = &netstate.Tunnel{VNI: 256, Lost: "no route"}
	slow := netstate.Link{Name: "es1a1", Type: netstate.Veth, MTU: 1300}
	all := []netstate.Object{
		netstate.Link{Name: "es1", Type: netstate.Bridge},
		up("es1", "", false), chain,
		netstate.Link{Name: "es1a1", Type: netstate.Veth},
		up("es1a1", "es1", false, chain.ID()),
		tunnel, up("es1v256", "es1", false), up("dut0", "es1", true),
		netstate.Route{Table: 20001, Dst: "0.0.0.0/0", Type: netstate.Unicast, Dev: "wan0", Via: "192.0.2.1"},
		netstate.Route{Table: 20001, Dst: "10.1.0.0/24", Type: netstate.Unicast, Dev: "es1"},
		netstate.Process{Name: "ni/1/dnsmasq", Argv: []string{"dnsmasq"}},
	}
	want := netstate.NewState(all...)
	without := func(ids ...int) netstate.State {
		s := netstate.NewState(all...)
		for _, i := range ids {
			delete(s, all[i].ID())
		}
		return s
	}
	with := func(s netstate.State, o netstate.Object) netstate.State {
		s.Add(o)
		return s
	}
	for _, c := range []struct {
		name  string
		have  netstate.State
		drift []string // none: everything is applied
	}{
		{"nothing", without(), nil},
		{"a guest's link", without(3, 4), nil},
		{"a link of others", without(7), nil},
		{"a tunnel that leads nowhere", with(without(), lost), nil},
		{"a tunnel whose way is back", without(5, 6), nil},
		{"a route by a link of others", without(8), nil},
		{"a route by a link of others that was changed", with(without(),
			netstate.Route{Table: 20001, Dst: "0.0.0.0/0", Type: netstate.Unicast, Dev: "wan0", Via: "192.0.2.66"}),
			[]string{`route 0.0.0.0/0 table 20001 metric 0: "unicast via 192.0.2.66 dev wan0"`}},
		{"a process", without(10), nil},
		{"a chain", without(2), []string{"chain ipv4/filter/ES1-1E: absent"}},
		{"a route of the network", without(9), []string{"route 10.1.0.0/24 table 20001 metric 0: absent"}},
		{"a guest's link whose making was cut short", without(4), nil},
		{"a guest's link out of the bridge", with(without(), up("es1a1", "", false)), []string{`port es1a1: "up"`}},
		{"the bridge is down", without(1), []string{"port es1: absent"}},
		{"a guest's link that was changed", with(without(), slow), []string{`link es1a1: "veth mac  mtu 1300 alias \"\""`}},
		{"a link too many", with(without(), netstate.Link{Name: "es1a7", Type: netstate.Veth}),
			[]string{"link es1a7: unexpected"}},
		{"a guest's link and its chain", without(2, 3, 4),
			[]string{"chain ipv4/filter/ES1-1E: absent", "port es1a1: absent"}},
		{"the bridge", without(0, 1, 4, 6, 7, 9), []string{
			"link es1: absent", "port dut0: absent", "port es1: absent", "port es1a1: absent", "port es1v256: absent",
			"route 10.1.0.0/24 table 20001 metric 0: absent",
		}},
	} {
		target, drift := LeaveDrift(c.have, want)
		var got []string
		for _, f := range drift {
			got = append(got, f.Err)
			if f.Remove != (want[f.ID] == nil) {
				t.Errorf("%s: %s is to be removed: %v", c.name, f.ID, f.Remove)
			}
			if h, n := c.have[f.ID], target[f.ID]; !netstate.Same(h, n) {
				t.Errorf("%s: %s is told and changed", c.name, f.ID)
			}
		}
		if !slices.Equal(got, c.drift) {
			t.Errorf("%s: drift %q, want %q", c.name, got, c.drift)
		}
		if again, _ := LeaveDrift(target, want); len(netstate.Diff(again, target)) > 0 {
			t.Errorf("%s: a second pass does more", c.name)
		}
	}
}
