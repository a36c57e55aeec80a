package nodestate

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
	"edgespan/netinst"
)

// An adapter's words follow its target: what is to be gone and is there fails to go, or could not be
// looked at; somebody is asked to look at both.
func TestTheStateOfAnAdapterFollowsItsTarget(t *testing.T) {
	app := uuid.New()
	for name, c := range map[string]struct {
		desired bool
		is      appnet.AdapterStatus
		want    string
	}{
		"it stands": {true, appnet.AdapterStatus{Activated: true}, "present Present"},
		"it waits": {true, appnet.AdapterStatus{Error: "no namespace", Waiting: true},
			"present WaitingForDependencies"},
		"it failed": {true, appnet.AdapterStatus{Error: "x"}, "present CreatingFailed"},
		"it was found otherwise": {true, appnet.AdapterStatus{Error: "x", CheckFailed: true},
			"present CheckPresentFailed"},
		"it is gone":           {false, appnet.AdapterStatus{}, "absent Absent"},
		"it is on its way out": {false, appnet.AdapterStatus{Activated: true}, "absent Removing"},
		"it waits on its way out": {false, appnet.AdapterStatus{Activated: true, Error: "x", Waiting: true},
			"absent Removing"},
		"it does not go": {false, appnet.AdapterStatus{Activated: true, Error: "busy"}, "absent RemovingFailed"},
		"it went and was found again": {false, appnet.AdapterStatus{Activated: true, Error: "x", CheckFailed: true},
			"absent CheckAbsentFailed"},
	} {
		desired := appnet.AppNetworkConfig{UUID: app, Activate: c.desired,
			Adapters: map[int]netinst.AdapterSpec{0: {}}}
		p := AdapterParameters(appnet.AppNetworkStatus{UUID: app, Adapters: []appnet.AdapterStatus{c.is}}, desired,
			func(uuid.UUID) bool { return false })[0]
		if got := p.Target + " " + p.State; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A config that deactivates a network does not make its adapters bad: a push would be undone for doing what it says.
func TestAnAdapterOfAnInactiveNetworkIsToBeAbsent(t *testing.T) {
	network := uuid.New()
	desired := appnet.AppNetworkConfig{Activate: true, Adapters: map[int]netinst.AdapterSpec{0: {NetworkInstance: network}}}
	for name, c := range map[string]struct {
		is   appnet.AdapterStatus
		good bool
	}{
		"it is gone":           {appnet.AdapterStatus{Error: "network instance x is not activated", Waiting: true}, true},
		"it is on its way out": {appnet.AdapterStatus{Activated: true}, true},
		"it does not go":       {appnet.AdapterStatus{Activated: true, Error: "busy"}, false},
	} {
		p := AdapterParameters(appnet.AppNetworkStatus{Adapters: []appnet.AdapterStatus{c.is}}, desired,
			func(n uuid.UUID) bool { return n == network })[0]
		if good, counts := p.Healthy(); p.Target != absent || good != c.good || !counts {
			t.Errorf("%s: %+v is good: %v, counts: %v", name, p, good, counts)
		}
	}
}

// What is to be absent is, but for a part of a network that has not got there yet.
func TestWhatIsToBeAbsentIsOnItsWayWhileAnyOfItsKindIs(t *testing.T) {
	status := func(state netinst.NIState, parts ...netinst.PartStatus) Network {
		return Network{Known: true, Desired: true,
			Status: netinst.NetworkInstanceStatus{State: state, Generation: 3, Parts: parts},
			Config: netinst.NetworkInstanceConfig{Generation: 3}}
	}
	part := func(kind string, state netinst.NIState) netinst.PartStatus {
		return netinst.PartStatus{Kind: kind, State: state, Error: "why"}
	}
	undesired := func(state netinst.NIState) Network {
		n := status(state)
		n.Desired, n.Status.Error = false, "busy"
		return n
	}
	late := status(netinst.Present)
	late.Config.Generation = 4
	for name, c := range map[string]struct {
		kind string
		n    Network
		want string
	}{
		"an interface is the host's: it is never removed": {peer.KindInterface, undesired(netinst.Removing), "Absent "},
		"nothing is said of the network":                  {peer.KindBridge, Network{Desired: true}, "Absent "},
		"the network is on its way out":                   {peer.KindBridge, undesired(netinst.Present), "Removing "},
		"the network does not go": {peer.KindTunnel, undesired(netinst.RemovingFailed),
			"RemovingFailed busy"},
		"the network went and was found again": {peer.KindTunnel, undesired(netinst.CheckAbsentFailed),
			"CheckAbsentFailed busy"},
		"the network goes on without it":                     {peer.KindTunnel, status(netinst.Present), "Absent "},
		"the network has not answered the config without it": {peer.KindTunnel, late, "Removing "},
		"a tunnel is on its way out": {peer.KindTunnel,
			status(netinst.Present, part(netinst.PartTunnel, netinst.Removing)), "Removing "},
		"a tunnel does not go": {peer.KindTunnel,
			status(netinst.Present, part(netinst.PartTunnel, netinst.RemovingFailed)), "RemovingFailed why"},
		"another tunnel stays": {peer.KindTunnel,
			status(netinst.Present, part(netinst.PartTunnel, netinst.Present)), "Absent "},
		"a member on its way out is no tunnel": {peer.KindTunnel,
			status(netinst.Present, part(netinst.PartMember, netinst.Removing)), "Absent "},
		"a member on its way out was joined": {peer.KindJoined,
			status(netinst.Present, part(netinst.PartMember, netinst.Removing)), "Removing "},
	} {
		p := AbsentParameter(peer.DeclaredParameter{ID: "x/y", Kind: c.kind}, c.n)
		if got := p.State + " " + p.Error; got != c.want || p.Target != "absent" || p.ID != "x/y" || p.Kind != c.kind {
			t.Errorf("%s: %s, want %s (%+v)", name, got, c.want, p)
		}
	}
}

func TestAParameterDatesFromWhenItsStateOrTargetBecameAnother(t *testing.T) {
	then, now := time.Unix(1, 0), time.Unix(2, 0)
	was := ParameterStatus{ID: "ni/x", State: "Present", Target: "present", Generation: 1, Since: then}
	for name, c := range map[string]struct {
		change   func(*ParameterStatus)
		known    bool
		since    time.Time
		reported bool
	}{
		"it is new":               {func(*ParameterStatus) {}, false, now, true},
		"nothing is new":          {func(*ParameterStatus) {}, true, then, false},
		"it answers a generation": {func(p *ParameterStatus) { p.Generation = 2 }, true, then, true},
		"its state is another":    {func(p *ParameterStatus) { p.State = "Creating" }, true, now, true},
		"its target is another":   {func(p *ParameterStatus) { p.Target = "absent" }, true, now, true},
	} {
		p := was
		p.Since = time.Time{}
		c.change(&p)
		if got, reported := p.KeepSince(was, c.known, now); got.Since != c.since || reported != c.reported {
			t.Errorf("%s: since %v told %v, want %v %v", name, got.Since.Unix(), reported, c.since.Unix(), c.reported)
		}
	}
}

// A push is undone for what the node itself can make good, and for nothing else.
func TestTheHealthOfANodeIsItsOwnMatter(t *testing.T) {
	for kind, counts := range map[string]bool{
		stateloop.KindNetwork: true, stateloop.KindAdapter: true, peer.KindExecutor: true, peer.KindCheck: false,
		peer.KindTunnel: false,
	} {
		for p, good := range map[ParameterStatus]bool{
			{State: "Present", Target: "present"}:             true,
			{State: "Present", Target: "present", Error: "x"}: false,
			{State: "Creating", Target: "present"}:            false,
			{State: "Absent", Target: "absent"}:               true,
			{State: "Present", Target: "absent"}:              false,
		} {
			p.Kind = kind
			if ok, has := p.Healthy(); has != counts || ok != (good && counts) {
				t.Errorf("%+v: healthy %v, counts %v", p, ok, has)
			}
		}
	}
}
