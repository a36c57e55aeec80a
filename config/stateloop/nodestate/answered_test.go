package nodestate

import (
	"testing"

	"edgespan/appnet"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer/task"
	"edgespan/netinst"
)

func TestAnAppHasAnsweredOnceEachAdapterSaysWhatBecameOfIt(t *testing.T) {
	of := func(pending bool, all ...appnet.AdapterStatus) appnet.AppNetworkStatus {
		return appnet.AppNetworkStatus{Pending: pending, TargetVersion: 3, Adapters: all}
	}
	active := appnet.AdapterStatus{TargetVersion: 3, Activated: true}
	waits := appnet.AdapterStatus{TargetVersion: 3, Error: "waits for namespace late", Waiting: true}
	for name, c := range map[string]struct {
		s    appnet.AppNetworkStatus
		want bool
	}{
		"nothing is open":             {of(false, active), true},
		"one waits for its namespace": {of(true, active, waits), true},
		"one says nothing yet":        {of(true, active, appnet.AdapterStatus{TargetVersion: 3}), false},
		"one speaks of the config before": {of(true,
			appnet.AdapterStatus{TargetVersion: 2, Error: "waits for namespace late"}), false},
		"one was good under the config before": {of(true, appnet.AdapterStatus{TargetVersion: 2, Activated: true}), false},
		"no adapter is known":                  {of(true), false},
	} {
		if got := hasAnswered(c.s); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestANodeHasAnsweredOnceAllThatIsDesiredHas(t *testing.T) {
	app := appnet.AppNetworkConfig{DisplayName: "web"}
	for name, c := range map[string]struct {
		change func(v *View)
		want   bool
	}{
		"all of it":              {func(*View) {}, true},
		"nothing is desired":     {func(v *View) { *v = View{Generation: 1, Swept: 1, SweptKnown: true} }, true},
		"a network says nothing": {func(v *View) { clear(v.NetworkStatus) }, false},
		"a network answers the config of before": {func(v *View) {
			v.NetworkStatus["n"] = netinst.NetworkInstanceStatus{Generation: 1}
		}, false},
		"a network means other ports": {func(v *View) {
			v.NetworkStatus["n"] = netinst.NetworkInstanceStatus{Generation: 2, DesiredPorts: "another"}
		}, false},
		"nothing was swept yet":          {func(v *View) { v.Swept, v.SweptKnown = 0, false }, false},
		"the config of before was swept": {func(v *View) { v.Swept = 1 }, false},
		"a task says nothing":            {func(v *View) { clear(v.TaskStatus) }, false},
		"a task answers the config of before": {func(v *View) {
			v.TaskStatus["t"] = task.Status{Version: 1,
				State: stateloop.Present}
		}, false},
		"a task is being made": {func(v *View) {
			v.TaskStatus["t"] = task.Status{Version: 2,
				State: stateloop.Creating}
		}, false},
		"a task is being made, and says why": {func(v *View) {
			v.TaskStatus["t"] = task.Status{Version: 2,
				State: stateloop.Creating, Reason: "x"}
		}, true},
		"an app says nothing": {func(v *View) { clear(v.AppStatus) }, false},
		"an app answers another version": {func(v *View) { v.AppStatus["a"] = appnet.AppNetworkStatus{TargetVersion: 4} },
			false},
		"an app has not spoken": {func(v *View) {
			v.AppStatus["a"] = appnet.AppNetworkStatus{TargetVersion: 5,
				Pending: true}
		}, false},
		"an app's actor has not seen its config": {func(v *View) {
			v.AppRecords["a"] = appnet.JournalRecord{TargetVersion: 5, Digest: "of before"}
		}, false},
	} {
		v := View{
			Networks:      map[string]netinst.NetworkInstanceConfig{"n": {Generation: 2}},
			NetworkStatus: map[string]netinst.NetworkInstanceStatus{"n": {Generation: 2}},
			Tasks:         map[string]TaskConfig{"t": {Generation: 2}},
			TaskStatus:    map[string]task.Status{"t": {Version: 2, State: stateloop.Present}},
			Apps:          map[string]appnet.AppNetworkConfig{"a": app},
			AppStatus:     map[string]appnet.AppNetworkStatus{"a": {TargetVersion: 5}},
			AppRecords:    map[string]appnet.JournalRecord{"a": {TargetVersion: 5, Digest: appnet.Digest(app)}},
			Generation:    2, Swept: 2, SweptKnown: true,
		}
		c.change(&v)
		if got := v.AllAnswered(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
