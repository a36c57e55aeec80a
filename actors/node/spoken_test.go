package node

import (
	"testing"

	"edgespan/appnet"
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
		if got := spoken(c.s); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
