package appnet_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/netinst"
)

// These tests are the sentences of seed eve-bridge-manager about app networks; docs/seeds.md lists them by number.

func TestSeed_PendingClearsOnlyUnderTheThreeConditions(t *testing.T) {
	place := appnet.AdapterScope{Scope: blue, Key: adapter(0)}
	other := appnet.AdapterScope{Scope: red, Key: adapter(0)}
	config := on(blue).Config
	idle := off(blue).Config
	type view struct {
		config  *appnet.AppNetworkConfig
		version uint64
		active  bool
		offline bool
		silent  bool
		left    *appnet.AdapterScope // a status that is left there
		posted  *appnet.AdapterScope // a config that is left there
	}
	for _, c := range []struct {
		name string
		view view
		want string
	}{
		{"all match", view{config: &config, version: 2, active: true}, ""},
		{"activate state and Activated flag differ", view{config: &config, version: 2},
			"adapter 0: is not active on network instance blue"},
		{"deactivated and Activated flag differ", view{config: &idle, version: 2, active: true},
			"adapter 0: is still active on network instance blue"},
		{"deactivated and inactive match", view{config: &idle, version: 2}, ""},
		{"the status answers an older version", view{config: &config, version: 1, active: true},
			"adapter 0: network instance blue has answered version 1, not 2"},
		{"the status answers another life's version", view{config: &config, version: 3, active: true},
			"adapter 0: network instance blue has answered version 3, not 2"},
		{"no status", view{config: &config, silent: true}, "adapter 0: network instance blue has not answered"},
		{"offline network", view{config: &config, version: 2, active: true, offline: true},
			"adapter 0: network instance blue is not online"},
		{"a status in a scope moved out of", view{config: &config, version: 2, active: true, left: &other},
			"adapter 0: is still on network instance red"},
		{"a config in a scope moved out of", view{config: &config, version: 2, active: true, posted: &other},
			"adapter 0: is still on network instance red"},
		{"a deleted app with a status", view{version: 2}, "adapter 0: is still on network instance blue"},
		{"a deleted app without anything", view{silent: true}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := appnet.View{
				Config:        c.view.config,
				TargetVersion: 2,
				Networks: map[uuid.UUID]appnet.Network{blue: {DisplayName: "blue", Online: !c.view.offline},
					red: {DisplayName: "red", Online: true}},
				Statuses:  map[appnet.AdapterScope]netinst.AppAdapterStatus{},
				Published: map[appnet.AdapterScope]netinst.AppAdapterConfig{},
			}
			if !c.view.silent {
				v.Statuses[place] = told(blue, 0, c.view.version, c.view.active).Status
			}
			if c.view.left != nil {
				v.Statuses[*c.view.left] = told(red, 0, 2, false).Status
			}
			if c.view.posted != nil {
				v.Published[*c.view.posted] = left(red, 0, 2, false).Config
			}
			pending, why := appnet.Pending(v)
			if why != c.want || pending != (c.want != "") {
				t.Errorf("pending %v %q, want %q", pending, why, c.want)
			}
		})
	}
}

func TestSeed_PendingClearsOnlyWhenActivateMatches(t *testing.T) {
	play(t, upBlue[:3]...).play(t,
		step{told(blue, 0, 1, false), "web v1 pending (adapter 0: is not active on network instance blue); timer 1 in 100ms"},
		step{told(blue, 0, 1, true), "web v1 active"},
	)
}

func TestSeed_PendingClearsOnlyWhenAdapterConfigAndStatusVersionsMatch(t *testing.T) {
	play(t, upBlue...).play(t,
		step{on(blue, blue),
			"record v2; web v2 pending (adapter 0: network instance blue has answered version 1, not 2); blue#0 v2 on; blue#1 " +
				"v2 on"},
		step{told(blue, 1, 2, true), "web v2 pending (adapter 0: network instance blue has answered version 1, not 2)"},
		step{told(blue, 0, 2, true), "web v2 active"},
	)
}

func TestSeed_PendingClearsOnlyWhenAppAndAdapterStatusVersionsMatch(t *testing.T) {
	s := play(t, upBlue...)
	s.play(t,
		step{on(blue, blue),
			"record v2; web v2 pending (adapter 0: network instance blue has answered version 1, not 2); blue#0 v2 on; blue#1 " +
				"v2 on"},
		step{told(blue, 0, 2, true), "web v2 pending (adapter 1: network instance blue has not answered)"},
		step{told(blue, 1, 2, true), "web v2 active"},
	)
	for _, a := range s.last.Adapters {
		if a.TargetVersion != s.last.TargetVersion {
			t.Errorf("adapter %d at version %d, the app at %d", a.Index, a.TargetVersion, s.last.TargetVersion)
		}
	}
}

func TestSeed_AdapterConfigHasAppAndIndexAsKeyInTheScopeOfItsNetwork(t *testing.T) {
	m := appnet.NewMachine(web, appnet.JournalRecord{}, nil)
	m.Step(on(blue, red))
	keys := map[string]uuid.UUID{}
	for _, f := range m.Step(appnet.Synchronized{}) {
		if p, ok := f.(appnet.PublishAdapterConfig); ok {
			keys[p.Config.Key().String()] = p.Scope
			if p.Config.Spec.NetworkInstance != p.Scope || p.Config.TargetVersion != 1 || !p.Config.Activate {
				t.Errorf("scope %s: %+v", p.Scope, p.Config)
			}
		}
	}
	if len(keys) != 2 || keys[web.String()+"#0"] != blue || keys[web.String()+"#1"] != red {
		t.Errorf("published %v", keys)
	}
}

func TestSeed_TargetVersionRisesMonotonicallyFromOne(t *testing.T) {
	play(t,
		step{appnet.Synchronized{}, "withdrawn; done"},
		step{on(), "record v1; web v1 active"},
		step{on(blue), "record v2; web v2 pending (adapter 0: network instance 00000000-0000-0000-0000-000000000001 is not " +
			"online); blue#0 v2 on"},
		step{off(blue), "record v3; web v3 pending (adapter 0: network instance 00000000-0000-0000-0000-000000000001 is " +
			"not online); blue#0 v3 off"},
	)
}

func TestSeed_AddWaitsForTheStatusOfEveryAdapter(t *testing.T) {
	play(t,
		step{online(blue), ""},
		step{online(red), ""},
		step{on(blue, red), ""},
		step{appnet.Synchronized{},
			"record v1; web v1 pending (adapter 0: network instance blue has not answered); blue#0 v1 on; red#1 v1 on"},
		step{told(blue, 0, 1, true), "web v1 pending (adapter 1: network instance red has not answered)"},
		step{told(red, 1, 1, true), "web v1 active"},
	)
}

func TestSeed_DeactivateWaitsForTheStatusOfEveryAdapter(t *testing.T) {
	play(t, upBlue...).play(t,
		step{off(blue), "record v2; web v2 pending (adapter 0: network instance blue has answered version 1, not 2); " +
			"blue#0 v2 off"},
		step{told(blue, 0, 2, true),
			"web v2 pending (adapter 0: is still active on network instance blue); timer 1 in 100ms"},
		step{told(blue, 0, 2, false), "web v2"},
	)
}

func TestSeed_DeleteWaitsForTheStatusOfEveryAdapter(t *testing.T) {
	play(t, upBlue...).play(t,
		step{appnet.ConfigDeleted{},
			"record v1 deleted; web v1 pending (adapter 0: is still on network instance blue); blue#0 v1 off; timer 1 in 100ms"},
		step{told(blue, 0, 1, false), "web v1 pending (adapter 0: is still on network instance blue); blue#0 unpublished"},
		step{gone(blue, 0), "withdrawn; done"},
	)
}

func TestSeed_UnequalActivatedAtEqualVersionSendsTheConfigAgain(t *testing.T) {
	play(t, upBlue...).play(t,
		step{told(blue, 0, 1, false), "web v1 pending (adapter 0: is not active on network instance blue); timer 1 in 100ms"},
		step{due(1), "blue#0 again; timer 2 in 200ms"},
		step{told(blue, 0, 1, true), "web v1 active"},
		step{due(2), ""},
	)
}

func TestSeed_ConfigIsPublishedIrrespectiveOfItsNetworkBeingOnline(t *testing.T) {
	play(t,
		step{on(blue), ""},
		step{appnet.Synchronized{},
			"record v1; web v1 pending (adapter 0: network instance 00000000-0000-0000-0000-000000000001 is not online); " +
				"blue#0 v1 on"},
		step{online(blue), "web v1 pending (adapter 0: network instance blue has not answered)"},
		step{told(blue, 0, 1, true), "web v1 active"},
	)
}

func TestSeed_AdapterOfAnOfflineNetworkIsMarkedAndKeepsTheWholeAppPending(t *testing.T) {
	s := play(t,
		step{online(blue), ""},
		step{on(blue, red), ""},
		step{told(blue, 0, 1, true), ""},
		step{appnet.Synchronized{},
			"record v1; web v1 pending (adapter 1: network instance 00000000-0000-0000-0000-000000000002 is not online); " +
				"blue#0 v1 on; red#1 v1 on"},
	)
	if a := s.last.Adapters; len(a) != 2 || a[0].Error != "" ||
		a[1].Error != "network instance 00000000-0000-0000-0000-000000000002 is not online" {
		t.Errorf("adapters %+v", a)
	}
}

func TestSeed_EachUpdateRaisesTheVersionAndMovesIntoPendingBeforeTheConfigsGo(t *testing.T) {
	play(t, upBlue...).play(t,
		step{off(blue), "record v2; web v2 pending (adapter 0: network instance blue has answered version 1, not 2); " +
			"blue#0 v2 off"},
		step{on(blue), "record v3; web v3 pending (adapter 0: network instance blue has answered version 1, not 3); blue#0 " +
			"v3 on"},
	)
}

func TestSeed_IntermediateStatusesAreShownStillPending(t *testing.T) {
	s := play(t, upBlue[:3]...)
	e := failed(blue, 0, 1, "waits for namespace web")
	e.Status.Link = netinst.AdapterLink{IP: netip.MustParseAddr("10.1.0.2"), MAC: "02:00:00:00:00:01",
		IfName: "eth0", HostIfName: "es1a1", Bridge: "es1"}
	s.play(t, step{e, "web v1 pending (adapter 0: waits for namespace web); timer 1 in 100ms"})
	want := appnet.AdapterStatus{Index: 0, NetworkInstance: blue, TargetVersion: 1,
		Link: e.Status.Link, Error: "waits for namespace web"}
	if len(s.last.Adapters) != 1 || s.last.Adapters[0] != want {
		t.Errorf("shown %+v, want %+v", s.last.Adapters, want)
	}
}

func TestSeed_RapidUpdatesEndWithTheLatestConfig(t *testing.T) {
	play(t, upBlue[:3]...).play(t,
		step{off(blue), "record v2; web v2 pending (adapter 0: network instance blue has not answered); blue#0 v2 off"},
		step{on(blue, blue),
			"record v3; web v3 pending (adapter 0: network instance blue has not answered); blue#0 v3 on; blue#1 v3 on"},
		step{told(blue, 0, 1, true), "web v3 pending (adapter 0: network instance blue has answered version 1, not 3)"},
		step{told(blue, 0, 2, false), "web v3 pending (adapter 0: network instance blue has answered version 2, not 3)"},
		step{appnet.ConfigDeleted{},
			"record v3 deleted; web v3 pending (adapter 0: is still on network instance blue); blue#0 v3 off; blue#1 v3 off"},
		step{on(blue), "record v4; web v4 pending (adapter 0: network instance blue has answered version 2, not 4); blue#1 " +
			"v4 off; blue#0 v4 on"},
		step{told(blue, 0, 4, true), "web v4 pending active (adapter 1: is still on network instance blue)"},
		step{told(blue, 1, 4, false),
			"web v4 pending active (adapter 1: is still on network instance blue); blue#1 unpublished"},
		step{gone(blue, 1), "web v4 active"},
	)
}

func TestSeed_DestroyedAdaptersOfADeletedNetworkShowInTheApp(t *testing.T) {
	s := play(t, upBlue...)
	s.play(t, step{failed(blue, 0, 1, "network instance is being removed"),
		"web v1 pending (adapter 0: network instance is being removed); timer 1 in 100ms"})
	if a := s.last.Adapters[0]; a.Activated || s.last.Activated {
		t.Errorf("shown as active: %+v", s.last)
	}
	s.play(t, step{offline(blue), "web v1 pending (adapter 0: network instance blue is not online)"})
}

func TestSeed_VersionIsNeverPublishedBeforeItIsRecorded(t *testing.T) {
	m := appnet.NewMachine(web, appnet.JournalRecord{TargetVersion: 4, Digest: "of another config"}, nil)
	m.Step(on(blue))
	fx := m.Step(appnet.Synchronized{})
	r, ok := fx[0].(appnet.Record)
	want := appnet.JournalRecord{TargetVersion: 5, Digest: appnet.Digest(on(blue).Config)}
	if !ok || r.Journal != want {
		t.Errorf("first effect %+v, want the record %+v", fx[0], want)
	}
}

// wait returns the time of the only ResendAfter among effects.
func wait(t *testing.T, fx []appnet.Effect) (uint64, time.Duration) {
	t.Helper()
	for _, f := range fx {
		if r, ok := f.(appnet.ResendAfter); ok {
			return r.Token, r.After
		}
	}
	t.Fatalf("no wait in %v", fx)
	return 0, 0
}

// Whatever the order of the answers, no status is final, and none is withdrawn, before the last of them: in an add, a
// change, a deactivation and a deletion.
func TestSeed_NoReaderSeesAFinalStatusTooEarly(t *testing.T) {
	nets := at{blue, red, blue}
	for _, request := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		s := play(t, step{online(blue), ""}, step{online(red), ""}, step{appnet.Synchronized{}, "withdrawn; done"})
		var said []string
		tell := func(e appnet.Event) {
			for _, f := range s.m.Step(e) {
				said = append(said, s.sentence(f))
			}
		}
		answers := func(what string, answer func(i int) appnet.Event, final func() bool) {
			t.Helper()
			for n, i := range request {
				if final() {
					t.Errorf("%s, order %v: final after %d of 3 answers: %s", what, request, n, strings.Join(said, "; "))
				}
				tell(answer(i))
			}
			if !final() {
				t.Errorf("%s, order %v: not final after the last answer: %s", what, request, strings.Join(said, "; "))
			}
		}
		version := func(v uint64, active bool) func(int) appnet.Event {
			return func(i int) appnet.Event { return told(nets[i], i, v, active) }
		}
		settled := func() bool { return !s.last.Pending }

		tell(configured(true, nets))
		answers("add", version(1, true), settled)
		changed := configured(true, nets)
		changed.Config.DisplayName = "web2"
		tell(changed)
		answers("change", version(2, true), settled)
		tell(configured(false, nets))
		answers("deactivate", version(3, false), settled)
		tell(configured(true, nets))
		answers("activate", version(4, true), settled)
		tell(appnet.ConfigDeleted{})
		for i := range nets {
			tell(told(nets[i], i, 4, false))
		}
		answers("delete", func(i int) appnet.Event { return gone(nets[i], i) },
			func() bool { return strings.Contains(strings.Join(said, "; "), "withdrawn") })
	}
}
