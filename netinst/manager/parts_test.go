package manager

import (
	"net/netip"
	"slices"
	"testing"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

func clusterConfig(gen uint64, change ...func(*netinst.NetworkInstanceConfig)) netinst.NetworkInstanceConfig {
	c := netinst.NetworkInstanceConfig{
		UUID: niA, Generation: gen, DisplayName: "one", Type: netinst.Switch, SpoofGuard: true, MTU: 1450,
		Members: []netinst.IfName{"can0"},
		Tunnels: []netinst.Tunnel{{Name: "beta", VNI: 256, Local: netip.MustParseAddr("192.0.2.1"),
			Remote: netip.MustParseAddr("192.0.2.2"), Port: 4789, MTU: 1450}},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func lost(why string) []netstate.OpFailure {
	return []netstate.OpFailure{
		{ID: netstate.ID{Kind: netstate.KindLink, Name: "es3v256"}, Waiting: true, Err: "add link es3v256: " + why,
			Cause: why + ": " + netstate.ErrWaiting.Error()},
		{ID: netstate.ID{Kind: netstate.KindPort, Name: "es3v256"}, Waiting: true, Blocked: true,
			Err: "waits for link es3v256"},
	}
}

func TestWhatIsSeenOfEachPart(t *testing.T) {
	noRemote := func(c *netinst.NetworkInstanceConfig) { c.Tunnels[0].Remote = netip.Addr{} }
	noMember := func(c *netinst.NetworkInstanceConfig) { c.Members = nil }
	noTunnel := func(c *netinst.NetworkInstanceConfig) { c.Tunnels = nil }
	const standing = "ni Present {bridge Present} {tunnel beta Present} {member can0 Present}"
	begin := func(c netinst.NetworkInstanceConfig, more ...managerStep) []managerStep {
		return append([]managerStep{{ApplierReady{}, ""}, {PortsChanged{}, ""}, {AdaptersKnown{}, ""},
			{ConfigChanged{Config: c}, ""}}, more...)
	}
	creating := managerStep{Synchronized{},
		"ni Creating {bridge Creating} {tunnel beta Creating} {member can0 Creating}, apply#1 something full"}
	complete := func(more ...managerStep) []managerStep {
		return begin(clusterConfig(1), append([]managerStep{creating, {applied(1), standing}}, more...)...)
	}
	for name, steps := range map[string][]managerStep{
		"all stand": complete(),
		"a tunnel without route waits, and the rest is there": begin(clusterConfig(1), creating,
			managerStep{
				applied(1, lost("no route leads there")...),
				"ni Present [tunnel beta: no route leads there] {bridge Present} {tunnel beta WaitingForDependencies no route " +
					"leads there} {member can0 Present}",
			},
			managerStep{HostTouched{HostRouting: true, At: at(100)}, ""},
			managerStep{HostTouched{HostRouting: true, At: at(100)}, ""},
			managerStep{TimerDue{Token: 4, At: at(100).Add(routeRest)}, "apply#2 something"},
			managerStep{applied(2), standing},
		),
		"an adapter is answered while a tunnel waits": begin(clusterConfig(1),
			managerStep{AdapterChanged{testAdapter(appW, 1, true)}, ""},
			creating,
			managerStep{
				applied(1, lost("no route leads there")...),
				"adapter app1#0 v1 activated=true, ni Present [tunnel beta: no route leads there] {bridge Present} {tunnel beta " +
					"WaitingForDependencies no route leads there} {member can0 Present}",
			},
		),
		"an address that is not known yet": begin(clusterConfig(1, noRemote),
			managerStep{Synchronized{},
				"ni Creating [tunnel beta: the address of beta is not known yet] {bridge Creating} {tunnel beta " +
					"WaitingForDependencies the address of beta is not known yet} {member can0 Creating}, apply#1 something full"},
			managerStep{applied(1),
				"ni Present [tunnel beta: the address of beta is not known yet] {bridge Present} {tunnel beta " +
					"WaitingForDependencies the address of beta is not known yet} {member can0 Present}"},
			managerStep{ConfigChanged{Config: clusterConfig(2)},
				"ni Present {bridge Present} {tunnel beta Creating} {member can0 Present}, apply#2 something"},
			managerStep{applied(2), standing},
		),
		"an address that is known no more, and a tunnel that does not go": complete(
			managerStep{
				ConfigChanged{Config: clusterConfig(2, noRemote)},
				"ni Present [tunnel beta: the address of beta is not known yet] {bridge Present} {tunnel beta " +
					"WaitingForDependencies the address of beta is not known yet} {member can0 Present}, apply#2 something",
			},
			managerStep{
				applied(2, netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindLink, Name: "es3v256"}, Remove: true,
					Err: "busy"}),
				"ni Present [tunnel beta: the address of beta is not known yet; busy] {bridge Present} {tunnel beta " +
					"WaitingForDependencies the address of beta is not known yet; busy} {member can0 Present}",
			},
		),
		"a member that is not there wakes up with it": begin(clusterConfig(1), creating,
			managerStep{
				applied(1, netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindPort, Name: "can0"}, Waiting: true,
					Err: "interface can0 does not exist"}),
				"ni Present [member can0: interface can0 does not exist] {bridge Present} {tunnel beta Present} {member can0 " +
					"WaitingForDependencies interface can0 does not exist}",
			},
			managerStep{HostTouched{Namespaces: true}, "apply#2 something"},
			managerStep{applied(2), standing},
		),
		"a failure, and one of what had stood": begin(clusterConfig(1), creating,
			managerStep{
				applied(1, fail(netstate.KindLink, "es3v256", "no memory")),
				"ni Present [tunnel beta: no memory] {bridge Present} {tunnel beta CreatingFailed no memory} {member can0 Present}",
			},
			managerStep{HostTouched{}, "apply#2 something"},
			managerStep{applied(2), standing},
			managerStep{HostTouched{At: at(200)}, "apply#3 something"},
			managerStep{
				applied(3, fail(netstate.KindLink, "es3v256", "no memory")),
				"ni Present [tunnel beta: no memory] {bridge Present} {tunnel beta CheckPresentFailed no memory} {member can0 " +
					"Present}",
			},
		),
		"what is applied and found different": begin(clusterConfig(1), creating,
			managerStep{
				applied(1, netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindPort, Name: "can0"}, Observe: true,
					Err: "absent"}),
				"ni Present [member can0: absent] {bridge Present} {tunnel beta Present} {member can0 CheckPresentFailed absent}",
			},
		),
		"parts go, one of them not at once": complete(
			managerStep{ConfigChanged{Config: clusterConfig(2, noTunnel, noMember)},
				"ni Present {bridge Present} {tunnel beta Removing} {member can0 Removing}, apply#2 something"},
			managerStep{
				applied(2, netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindLink, Name: "es3v256"}, Remove: true,
					Err: "busy"}),
				"ni Present [tunnel beta: busy] {bridge Present} {tunnel beta RemovingFailed busy}",
			},
			managerStep{HostTouched{}, "apply#3 something"},
			managerStep{applied(3), "ni Present"},
		),
		"the bridge fails, and what needs it waits": begin(clusterConfig(1), creating,
			managerStep{
				applied(1, fail(netstate.KindLink, "es3", "no memory"),
					netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindPort, Name: "es3v256"}, Waiting: true, Blocked: true,
						Err: "waits for port es3"}),
				"ni CreatingFailed (no memory; next retry in 100ms) [tunnel beta: waits for port es3] {bridge CreatingFailed no " +
					"memory; next retry in 100ms} {tunnel beta WaitingForDependencies waits for port es3} {member can0 Present}",
			},
		),
		"the network goes": complete(
			managerStep{ConfigGone{},
				"ni Removing {bridge Removing} {tunnel beta Removing} {member can0 Removing}, apply#2 nothing"},
			managerStep{
				applied(2, netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindPort, Name: "can0"}, Remove: true, Err: "busy"}),
				"ni RemovingFailed (busy; next retry in 100ms) [member can0: busy] {bridge RemovingFailed busy; next retry in " +
					"100ms} {member can0 RemovingFailed busy}",
			},
			managerStep{ConfigGone{}, "apply#3 nothing"},
			managerStep{applied(3), "ni withdrawn, done"},
		),
	} {
		t.Run(name, func(t *testing.T) {
			m := New(netstate.Owner{Name: testNetwork(1).UUID.String(), Number: 3}, "/run", 7, nil)
			for i, s := range steps {
				if got := text(m.Step(s.event)); got != s.want {
					t.Fatalf("step %d, %+v:\n got %s\nwant %s", i, s.event, got, s.want)
				}
			}
		})
	}
}

// A part that fails is retried, as the network itself is; one that waits for a missing object is not.
func TestAPartThatFailsIsTriedAgain(t *testing.T) {
	link, port := netstate.ID{Kind: netstate.KindLink, Name: "es3v256"}, netstate.ID{Kind: netstate.KindPort, Name: "can0"}
	for name, c := range map[string]struct {
		fs    []netstate.OpFailure
		fails bool
	}{
		"nothing": {nil, false},
		"a part":  {[]netstate.OpFailure{{ID: link, Err: "no memory"}}, true},
		"a part, and one waits": {[]netstate.OpFailure{{ID: link, Err: "no memory"}, {ID: port, Waiting: true, Err: "gone"}},
			true},
		"one waits for the world": {[]netstate.OpFailure{{ID: port, Waiting: true, Err: "gone"}}, false},
		"the bridge": {[]netstate.OpFailure{{ID: netstate.ID{Kind: netstate.KindLink, Name: "es3"},
			Err: "no memory"}}, true},
	} {
		m := New(netstate.Owner{Name: testNetwork(1).UUID.String(), Number: 3}, "/run", 7, nil)
		for _, e := range []Event{ApplierReady{}, PortsChanged{}, AdaptersKnown{}, ConfigChanged{Config: clusterConfig(1)},
			Synchronized{}, applied(1, c.fs...)} {
			m.Step(e)
		}
		if m.failing != c.fails || c.fails && m.retryTok == 0 {
			t.Errorf("%s: failing %v, retry %d", name, m.failing, m.retryTok)
		}
	}
}

// A tunnel of an earlier incarnation that can't be removed is named by its mark.
func TestATunnelThatAnEarlierIncarnationLeft(t *testing.T) {
	m := New(netstate.Owner{Name: testNetwork(1).UUID.String(), Number: 3}, "/run", 7, nil)
	c := clusterConfig(1, func(c *netinst.NetworkInstanceConfig) { c.Tunnels, c.Members = nil, []netinst.IfName{"can0"} })
	for _, e := range []Event{ApplierReady{}, PortsChanged{}, AdaptersKnown{}, ConfigChanged{Config: c}, Synchronized{}} {
		m.Step(e)
	}
	a := applied(1, netstate.OpFailure{ID: netstate.ID{Kind: netstate.KindLink, Name: "es3v300"}, Remove: true,
		Err: "busy"})
	a.Before = netstate.NewState(
		netstate.Link{Name: "es3v300", Type: netstate.VXLAN, Alias: "edgespan ni x tunnel old node"})
	var parts []netinst.PartStatus
	for _, e := range m.Step(a) {
		if p, ok := e.(PublishNetwork); ok {
			parts = p.Status.Parts
		}
	}
	want := []netinst.PartStatus{{Kind: netinst.PartBridge, Name: "", State: netinst.Present, Error: ""},
		{Kind: netinst.PartMember, Name: "can0", State: netinst.Present, Error: ""},
		{Kind: netinst.PartTunnel, Name: "old node", State: netinst.RemovingFailed, Error: "busy"}}
	if !slices.Equal(parts, want) {
		t.Errorf("got %+v, want %+v", parts, want)
	}
}

// Only a switch has parts in addition to its bridge.
func TestWhatIsACluster(t *testing.T) {
	for _, c := range []struct {
		config netinst.NetworkInstanceConfig
		want   bool
	}{
		{netinst.NetworkInstanceConfig{Type: netinst.Switch}, false},
		{netinst.NetworkInstanceConfig{Type: netinst.Switch, Tunnels: []netinst.Tunnel{{}}}, true},
		{netinst.NetworkInstanceConfig{Type: netinst.Switch, Members: []netinst.IfName{"dut0"}}, true},
		{netinst.NetworkInstanceConfig{Type: netinst.Switch, Tunnels: []netinst.Tunnel{{}},
			Members: []netinst.IfName{"dut0"}}, true},
		{netinst.NetworkInstanceConfig{Type: netinst.Local, Tunnels: []netinst.Tunnel{{}}}, false},
	} {
		if got := (&Manager{config: c.config}).isCluster(); got != c.want {
			t.Errorf("%v with %d tunnels and %d members: %v", c.config.Type, len(c.config.Tunnels), len(c.config.Members), got)
		}
	}
}
