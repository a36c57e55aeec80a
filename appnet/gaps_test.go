package appnet_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/netinst"
)

// These tests are the rules by which docs/protocol.md closes the gaps of the seed; docs/seeds.md lists them.

const (
	waitsBlue = "adapter 0: network instance blue has not answered"
	noBlue    = "adapter 0: network instance blue is not online"
	stillBlue = "adapter 0: is still on network instance blue"
	noName    = "adapter 0: network instance 00000000-0000-0000-0000-000000000001 is not online"
)

func TestGap_ConfigIsUnpublishedOnlyAfterInactiveWasAnsweredAtItsVersion(t *testing.T) {
	play(t, upBlue...).play(t,
		step{on(), "record v2; web v2 pending active (" + stillBlue + "); blue#0 v2 off"},
		step{told(blue, 0, 1, false), "web v2 pending active (" + stillBlue + ")"},
		step{told(blue, 0, 2, true), "web v2 pending active (" + stillBlue + "); timer 1 in 100ms"},
		step{told(blue, 0, 2, false), "web v2 pending active (" + stillBlue + "); blue#0 unpublished"},
		step{gone(blue, 0), "web v2 active"},
	)
}

func TestGap_EveryAdapterConfigOfTheAppCarriesTheVersion(t *testing.T) {
	play(t, upBlue...).play(t,
		step{on(blue, red), "record v2; web v2 pending (adapter 1: network instance 00000000-0000-0000-0000-000000000002 " +
			"is not online); blue#0 v2 on; red#1 v2 on"},
	)
}

func TestGap_ResendBacksOffFrom100msToAMinute(t *testing.T) {
	s := play(t, upBlue...)
	token, after := wait(t, s.m.Step(told(blue, 0, 1, false)))
	want := 100 * time.Millisecond
	for i := range 15 {
		if after != want {
			t.Fatalf("wait %d is %s, want %s", i+1, after, want)
		}
		fx := s.m.Step(due(token))
		if r, ok := fx[0].(appnet.ResendAdapterConfig); !ok || r.Scope != blue || r.Key != adapter(0) {
			t.Fatalf("when the wait %d is over: %v", i+1, fx)
		}
		token, after = wait(t, fx)
		want = min(2*want, time.Minute)
	}
}

func TestGap_ResendIsOnlyForANetworkThatIsOnline(t *testing.T) {
	play(t, upBlue...).play(t,
		step{told(blue, 0, 1, false), "web v1 pending (adapter 0: is not active on network instance blue); timer 1 in 100ms"},
		step{offline(blue), "web v1 pending (" + noBlue + ")"},
		step{due(1), ""},
		step{online(blue), "web v1 pending (adapter 0: is not active on network instance blue); timer 2 in 100ms"},
		step{due(1), ""},
		step{due(2), "blue#0 again; timer 3 in 200ms"},
	)
}

func TestGap_StatusesDoNotMakeAHotLoopOfResends(t *testing.T) {
	play(t, upBlue[:3]...).play(t,
		step{failed(blue, 0, 1, "boom"), "web v1 pending (adapter 0: boom); timer 1 in 100ms"},
		step{failed(blue, 0, 1, "boom"), ""},
		step{failed(blue, 0, 1, "bang"), "web v1 pending (adapter 0: bang)"},
		step{online(blue), ""},
		step{due(1), "blue#0 again; timer 2 in 200ms"},
		step{due(1), ""},
	)
}

func TestGap_NewVersionRestartsTheBackOff(t *testing.T) {
	play(t, upBlue[:3]...).play(t,
		step{failed(blue, 0, 1, "boom"), "web v1 pending (adapter 0: boom); timer 1 in 100ms"},
		step{due(1), "blue#0 again; timer 2 in 200ms"},
		step{on(blue, red), "record v2; web v2 pending (adapter 0: boom); blue#0 v2 on; red#1 v2 on"},
		step{due(2), ""},
		step{failed(blue, 0, 2, "boom"), "web v2 pending (adapter 0: boom); timer 3 in 100ms"},
	)
}

func TestGap_NetworkIsOnlineFromItsStatusUntilThatIsWithdrawn(t *testing.T) {
	play(t,
		step{on(blue), ""},
		step{told(blue, 0, 1, true), ""},
		step{appnet.Synchronized{}, "record v1; web v1 pending (" + noName + "); blue#0 v1 on"},
		step{online(blue), "web v1 active"},
		step{offline(blue), "web v1 pending (" + noBlue + ")"},
	)
}

func TestGap_DeleteCountsAnAdapterOfAnOfflineNetworkAsInactive(t *testing.T) {
	play(t,
		step{on(blue), ""},
		step{appnet.Synchronized{}, "record v1; web v1 pending (" + noName + "); blue#0 v1 on"},
		step{appnet.ConfigDeleted{}, "record v1 deleted; blue#0 unpublished; withdrawn; done"},
	)
}

func TestGap_DeleteWaitsUntilTheRouterWithdrewTheStatusOfAGoneNetwork(t *testing.T) {
	play(t, upBlue...).play(t,
		step{offline(blue), "web v1 pending (" + noBlue + ")"},
		step{appnet.ConfigDeleted{}, "record v1 deleted; blue#0 unpublished"},
		step{gone(blue, 0), "withdrawn; done"},
	)
}

func TestGap_MoveEntersTheNewNetworkOnlyAfterTheOldStatusIsGone(t *testing.T) {
	s := play(t, upBlue...)
	s.play(t,
		step{online(red), ""},
		step{on(red), "record v2; web v2 pending (" + stillBlue + "); blue#0 v2 off"},
		step{told(blue, 0, 2, false), "web v2 pending (" + stillBlue + "); blue#0 unpublished"},
	)
	if a := s.last.Adapters; len(a) != 1 || a[0].NetworkInstance != blue || a[0].TargetVersion != 2 {
		t.Errorf("while it moves the adapter is shown as %+v", a)
	}
	s.play(t,
		step{gone(blue, 0), "web v2 pending (adapter 0: network instance red has not answered); red#0 v2 on"},
		step{told(red, 0, 2, true), "web v2 active"},
	)
}

func TestGap_MoveAwayFromAnOfflineNetworkDoesNotWaitForItsAnswer(t *testing.T) {
	play(t, upBlue...).play(t,
		step{online(red), ""},
		step{offline(blue), "web v1 pending (" + noBlue + ")"},
		step{on(red), "record v2; web v2 pending (adapter 0: network instance blue is not online); blue#0 unpublished"},
		step{gone(blue, 0), "web v2 pending (adapter 0: network instance red has not answered); red#0 v2 on"},
	)
}

func TestGap_MoveThereAndBackBeforeTheOldNetworkHasAnswered(t *testing.T) {
	play(t, upBlue...).play(t,
		step{online(red), ""},
		step{on(red), "record v2; web v2 pending (" + stillBlue + "); blue#0 v2 off"},
		step{on(blue), "record v3; web v3 pending (adapter 0: network instance blue has answered version 1, not 3); blue#0 " +
			"v3 on"},
		step{told(blue, 0, 2, false), "web v3 pending (adapter 0: network instance blue has answered version 2, not 3)"},
		step{told(blue, 0, 3, true), "web v3 active"},
	)
}

func TestGap_AppIsPendingWhileAStatusIsLeftWhereItMovedOut(t *testing.T) {
	play(t, upBlue...).play(t,
		step{online(red), ""},
		step{told(red, 0, 1, true), "web v1 pending active (adapter 0: is still on network instance red)"},
		step{gone(red, 0), "web v1 active"},
	)
}

func TestGap_NothingIsActivatedWhileSomethingIsLeftElsewhere(t *testing.T) {
	play(t,
		step{online(blue), ""},
		step{online(red), ""},
		step{off(blue), ""},
		step{appnet.Synchronized{}, "record v1; web v1 pending (" + waitsBlue + "); blue#0 v1 off"},
		step{told(red, 0, 1, true), "web v1 pending (adapter 0: is still on network instance red)"},
		step{on(blue), "record v2; web v2 pending (adapter 0: is still on network instance red)"},
		step{gone(red, 0), "web v2 pending (" + waitsBlue + "); blue#0 v2 on"},
	)
}

func TestGap_VersionSurvivesTheRestartOfTheActor(t *testing.T) {
	s := play(t, upBlue...)
	s.restart(left(blue, 0, 1, true))
	s.play(t,
		step{on(blue), ""},
		step{told(blue, 0, 1, true), ""},
		step{online(blue), ""},
		step{appnet.Synchronized{}, "web v1 active"},
	)
}

func TestGap_VersionSurvivesTheRestartOfTheDaemon(t *testing.T) {
	s := play(t, upBlue...)
	s.restart() // topics are empty, the journal is not
	s.play(t,
		step{on(blue), ""},
		step{appnet.Synchronized{}, "web v1 pending (" + noName + "); blue#0 v1 on"},
		step{on(blue, red), "record v2; web v2 pending (" + noName + "); blue#0 v2 on; red#1 v2 on"},
	)
}

func TestGap_SameUUIDGoesOnFromTheVersionOfItsDeletedApp(t *testing.T) {
	s := play(t, upBlue...)
	s.play(t,
		step{offline(blue), "web v1 pending (" + noBlue + ")"},
		step{gone(blue, 0), "web v1 pending (" + noBlue + ")"},
		step{appnet.ConfigDeleted{}, "record v1 deleted; blue#0 unpublished; withdrawn; done"},
	)
	s.restart()
	s.play(t,
		step{on(blue), ""},
		step{appnet.Synchronized{}, "record v2; web v2 pending (" + noName + "); blue#0 v2 on"},
		step{online(blue), "web v2 pending (" + waitsBlue + ")"},
		step{told(blue, 0, 1, true), "web v2 pending (adapter 0: network instance blue has answered version 1, not 2)"},
	)
}

func TestGap_EqualConfigIsNoNewVersionAndABurstIsOne(t *testing.T) {
	play(t,
		step{online(blue), ""},
		step{on(red), ""},
		step{off(blue), ""},
		step{on(blue), ""},
		upBlue[2],
		step{on(blue), ""},
	)
}

func TestGap_VersionsNeverGoBackBehindWhatIsPublished(t *testing.T) {
	s := &script{m: appnet.NewMachine(web, appnet.JournalRecord{}, []appnet.PublishedConfig{left(blue, 0, 7, true)})}
	s.play(t,
		step{on(blue), ""},
		step{appnet.Synchronized{}, "record v8; web v8 pending (" + noName + "); blue#0 v8 on"},
	)
}

func TestGap_NetworkDeletedUnderTheAppAndBackReconnectsByItself(t *testing.T) {
	play(t, upBlue...).play(t,
		step{told(blue, 0, 1, false), "web v1 pending (adapter 0: is not active on network instance blue); timer 1 in 100ms"},
		step{offline(blue), "web v1 pending (" + noBlue + ")"},
		step{online(blue), "web v1 pending (adapter 0: is not active on network instance blue); timer 2 in 100ms"},
		step{told(blue, 0, 1, true), "web v1 active"},
	)
}

func TestGap_NothingIsWithdrawnOrDecidedBeforeTheReplayIsComplete(t *testing.T) {
	s := play(t, upBlue...)
	s.restart(left(blue, 0, 1, true), left(red, 1, 1, true))
	s.play(t,
		step{told(blue, 0, 1, true), ""},
		step{offline(red), ""},
		step{gone(red, 1), ""},
		step{due(1), ""},
		step{online(blue), ""},
		step{on(blue), ""},
		step{appnet.Synchronized{}, "red#1 unpublished; web v1 active"},
	)
}

func TestGap_LeftoversOfACrashAreDeactivatedAndWithdrawn(t *testing.T) {
	s := play(t, upBlue...)
	s.restart(left(blue, 0, 1, true), left(red, 1, 1, true))
	s.play(t,
		step{online(blue), ""},
		step{online(red), ""},
		step{told(blue, 0, 1, true), ""},
		step{told(red, 1, 1, true), ""},
		step{on(blue), ""},
		step{appnet.Synchronized{},
			"web v1 pending active (adapter 1: is still on network instance red); red#1 v1 off; timer 1 in 100ms"},
		step{told(red, 1, 1, false),
			"web v1 pending active (adapter 1: is still on network instance red); red#1 unpublished"},
		step{gone(red, 1), "web v1 active"},
	)
}

func TestGap_CrashAfterTheDeletionGoesOnWithIt(t *testing.T) {
	s := play(t, upBlue...)
	s.restart(left(blue, 0, 1, true))
	s.play(t,
		step{online(blue), ""},
		step{told(blue, 0, 1, true), ""},
		step{appnet.Synchronized{}, "record v1 deleted; web v1 pending (" + stillBlue + "); blue#0 v1 off; timer 1 in 100ms"},
	)
}

func TestGap_LateAndRepeatedStatusesNeverGoBackAndNeverClearPending(t *testing.T) {
	s := play(t, upBlue...)
	s.play(t,
		step{off(blue), "record v2; web v2 pending (adapter 0: network instance blue has answered version 1, not 2); " +
			"blue#0 v2 off"},
		step{told(blue, 0, 1, false), "web v2 pending (adapter 0: network instance blue has answered version 1, not 2)"},
		step{told(blue, 0, 2, false), "web v2"},
		step{told(blue, 0, 1, true), ""},
		step{told(blue, 0, 2, false), ""},
	)
	if s.last.Adapters[0].TargetVersion != 2 {
		t.Errorf("shown %+v", s.last.Adapters[0])
	}
	stray := told(blue, 0, 9, true)
	stray.Status.AppUUID = red
	s.play(t, step{stray, ""})
}

func TestGap_AppWithoutAdaptersIsNeverPending(t *testing.T) {
	play(t,
		step{on(), ""},
		step{appnet.Synchronized{}, "record v1; web v1 active"},
		step{off(), "record v2; web v2"},
		step{appnet.ConfigDeleted{}, "record v2 deleted; withdrawn; done"},
	)
}

func TestGap_DeactivatedAppWaitsForItsOfflineNetwork(t *testing.T) {
	play(t,
		step{off(blue), ""},
		step{appnet.Synchronized{}, "record v1; web v1 pending (" + noName + "); blue#0 v1 off"},
		step{online(blue), "web v1 pending (" + waitsBlue + ")"},
		step{told(blue, 0, 1, false), "web v1"},
	)
}

func TestGap_ErrorIsTheFirstAdaptersElseTheReasonOfPending(t *testing.T) {
	play(t,
		step{online(blue), ""},
		step{on(blue, blue, blue), ""},
		step{told(blue, 0, 1, true), ""},
		step{appnet.Synchronized{},
			"record v1; web v1 pending (adapter 1: network instance blue has not answered); blue#0 v1 on; blue#1 v1 on; " +
				"blue#2 v1 on"},
		step{failed(blue, 2, 1, "boom"), "web v1 pending (adapter 2: boom); timer 1 in 100ms"},
		step{told(blue, 2, 1, true), "web v1 pending (adapter 1: network instance blue has not answered)"},
		step{told(blue, 1, 1, true), "web v1 active"},
	)
}

func TestGap_MachineThatIsDoneGoesOnWithANewConfig(t *testing.T) {
	play(t,
		step{appnet.Synchronized{}, "withdrawn; done"},
		step{told(blue, 0, 1, true), ""},
		step{gone(blue, 0), ""},
		step{on(blue), "record v1; web v1 pending (" + noName + "); blue#0 v1 on"},
	)
}

func TestDigestDiffersByConfigAndNotBySpelling(t *testing.T) {
	rule := netinst.ACLRule{Name: "a", Action: netinst.Allow}
	with := func(rules ...netinst.ACLRule) appnet.AppNetworkConfig {
		c := on(blue).Config
		c.Adapters = map[int]netinst.AdapterSpec{0: {NetworkInstance: blue, ACL: rules}}
		return c
	}
	spelled := rule
	spelled.Ports, spelled.LocalPort = []netinst.PortRange{}, []netinst.PortRange{}
	other := rule
	other.Ports = []netinst.PortRange{{First: 80, Last: 80}}
	empty := with()
	empty.Adapters[0] = netinst.AdapterSpec{NetworkInstance: blue, ACL: []netinst.ACLRule{}}
	none := appnet.AppNetworkConfig{UUID: web}
	noneMade := none
	noneMade.Adapters = map[int]netinst.AdapterSpec{}
	same := [][2]appnet.AppNetworkConfig{{with(rule), with(spelled)}, {with(), empty}, {none, noneMade}}
	for i, p := range same {
		if appnet.Digest(p[0]) != appnet.Digest(p[1]) {
			t.Errorf("pair %d: two spellings of one config differ", i)
		}
	}
	if spelled.Ports == nil {
		t.Error("Digest changes its argument")
	}
	seen := map[string]uuid.UUID{}
	for i, c := range []appnet.AppNetworkConfig{with(), with(rule), with(other), with(rule, other), with(other, rule),
		off(blue).Config, on(red).Config, on(blue, blue).Config} {
		if d := appnet.Digest(c); seen[d] != (uuid.UUID{}) {
			t.Errorf("configs %d and %d have one digest", i, seen[d][0])
		} else {
			seen[d] = uuid.UUID{byte(i), 1}
		}
	}
}

// A network that was removed from the config is distinguished from one that is late.
func TestGap_ANetworkThatIsInNoConfigIsCalledSo(t *testing.T) {
	s := play(t)
	for _, e := range []appnet.Event{
		on(blue),
		appnet.Synchronized{},
		online(blue), told(blue, 0, 1, true),
		appnet.NetworkDesired{NI: blue},
		offline(blue),
	} {
		for _, f := range s.m.Step(e) {
			s.sentence(f)
		}
	}
	if a := s.last.Adapters[0]; a.Error != "network instance blue is not in the config" || !a.Waiting || !s.last.Pending {
		t.Errorf("the adapter is %+v", a)
	}
	for _, f := range s.m.Step(appnet.NetworkDesired{NI: blue, Desired: true}) {
		s.sentence(f)
	}
	if a := s.last.Adapters[0]; a.Error != "network instance blue is not online" || !a.Waiting {
		t.Errorf("once it is in the config again the adapter is %+v", a)
	}
}

// An app that moves through networks may forget each of them once nothing of it is left there, and not before.
func TestGap_ANetworkIsUsedUntilNothingIsLeftThere(t *testing.T) {
	s := play(t)
	for i, x := range []struct {
		event     appnet.Event
		blue, red bool
	}{
		{on(blue), false, false},
		{appnet.Synchronized{}, true, false},
		{online(blue), true, false},
		{told(blue, 0, 1, true), true, false},
		{online(red), true, false},
		{on(red), true, false},
		{told(blue, 0, 2, false), true, false}, // its status is still there
		{appnet.AdapterStatusGone{Scope: blue, Key: adapter(0)}, false, true},
		{appnet.NetworkForgotten{NI: blue}, false, true},
		{told(red, 0, 2, true), false, true},
	} {
		for _, f := range s.m.Step(x.event) {
			s.sentence(f)
		}
		if b, r := s.m.Uses(blue), s.m.Uses(red); b != x.blue || r != x.red {
			t.Errorf("event %d %T: blue is used %v, red %v", i, x.event, b, r)
		}
	}
	if s.last.Pending || !s.last.Activated {
		t.Errorf("the app is %+v", s.last)
	}
	s.m.Step(on(blue))
	s.m.Step(appnet.AdapterStatusGone{Scope: red, Key: adapter(0)})
	for _, f := range s.m.Step(told(red, 0, 3, false)) {
		s.sentence(f)
	}
	for _, f := range s.m.Step(appnet.AdapterStatusGone{Scope: red, Key: adapter(0)}) {
		s.sentence(f)
	}
	want := "network instance " + blue.String() + " is not online"
	if a := s.last.Adapters[0]; a.NetworkInstance != blue || a.Error != want {
		t.Errorf("the adapter is %+v on a network that was forgotten", a)
	}
}

// Two crashes can leave an adapter on two networks, active on both. It stays active where it is desired, and the status
// shows that network; only an adapter that is not active there yet waits until it has left the other.
func TestGap_AnAdapterFoundOnTwoNetworksStaysWhereItIsDesired(t *testing.T) {
	for _, c := range []struct {
		found  bool // active where it is desired
		config appnet.ConfigChanged
		want   string
	}{
		{true, on(blue), "red#0 v1 off; blue#0 v1 on"},
		{true, off(blue), "red#0 v1 off; blue#0 v1 off"},
		{false, off(blue), "red#0 v1 off; blue#0 v1 off"},
		{false, on(blue), "red#0 v1 off"},
	} {
		s := play(t)
		s.restart(left(blue, 0, 0, c.found), left(red, 0, 0, true))
		s.play(t, step{online(blue), ""}, step{online(red), ""}, step{c.config, ""},
			step{appnet.Synchronized{}, "record v1; web v1 pending (adapter 0: is still on network instance red); " + c.want})
		if st := s.last.Adapters[0]; st.NetworkInstance != blue {
			t.Errorf("%s: the status shows the adapter on %v", c.want, st.NetworkInstance)
		}
	}
}
