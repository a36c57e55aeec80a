package node

import (
	"testing"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/netinst"
)

// An adapter's words follow its target: what is to be gone and is there fails to go, or could not be
// looked at; somebody is asked to look at both.
func TestTheStateOfAnAdapterFollowsItsTarget(t *testing.T) {
	app := uuid.New()
	for name, c := range map[string]struct {
		wanted bool
		is     appnet.AdapterStatus
		want   string
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
		wish := appnet.AppNetworkConfig{UUID: app, Activate: c.wanted, Adapters: map[int]netinst.UnderlayNetworkConfig{0: {}}}
		p := adapterParameters(appnet.AppNetworkStatus{UUID: app, Adapters: []appnet.AdapterStatus{c.is}}, wish)[0]
		if got := p.Target + " " + p.State; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
