package field

import (
	"strings"
	"testing"

	"edgespan/integration/soak/guest"
	"edgespan/integration/soak/model"
	"edgespan/integration/soak/report"
)

// listening is a run with one open app on node 1, and the server outside.
func listening() (r *run, app *appLine) {
	e := model.Endpoint{Node: 1, App: 1}
	f := model.Fleet{{Networks: map[int]model.Network{1: {Port: "uplink"}},
		Apps: map[int]model.App{1: {Network: 1, Rules: model.Narrow, Active: true}}}}
	app = &appLine{endpoint: e}
	j := testReferee()
	j.history[0].fleet = f
	return &run{referee: j, lab: &lab{outside: &appLine{endpoint: model.Outside}}, series: map[string]*report.Series{},
		apps: map[model.Endpoint]*appLine{e: app}}, app
}

// A beacon that was answered has passed the judges: one that has not seen it sees nothing that must not pass, either.
func TestAJudgeThatSeesNothingIsFound(t *testing.T) {
	r, app := listening()
	f := r.referee.history[0].fleet
	expect := func(what, want string) {
		t.Helper()
		got := strings.Join(r.missing(f), "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	all := func() {
		app.took(guest.Told{Sent: map[string]int{"0.0:7001": 2}, Echoed: map[string]int{"0.0:7001": 2}})
		r.lab.outside.took(guest.Told{Seen: []guest.Sighting{{From: "1.1", Port: model.Served, N: 2}}})
		r.referee.frame(1, 0, frameOf("1.1", model.Uplink(1, 0), model.ServerAddr))
	}
	expect("at the begin", "app 1.1 (no address) does not reach 0.0")
	all()
	expect("all is seen", "")
	r.reset(f)
	app.took(guest.Told{Echoed: map[string]int{"0.0:7001": 2}})
	expect("the app outside sees nothing", "app 0.0 has not told of beacons of app 1.1 to port 7001")
	all()
	r.referee.forgetLeft(app.endpoint)
	expect("the wire sees nothing", "the wire has not seen beacons of app 1.1")
}

func TestTheLossOfANode(t *testing.T) {
	r, app := listening()
	for i, step := range []struct {
		sent, echoed int
		want         float64
	}{{20, 19, 5}, {20, 21, 0}, {20, 10, 50}, {0, 0, -1}} {
		app.took(guest.Told{Sent: map[string]int{"0.0:7001": step.sent, "0.0:7002": 9, "x": 1},
			Echoed: map[string]int{"0.0:7001": step.echoed}})
		r.reset(r.referee.history[0].fleet) // which the loss does not need
		r.measureLoss()
		s, got := r.series["loss\x001"], -1.0
		if len(s.Samples) > i {
			got = s.Samples[i].Value
		}
		if got != step.want {
			t.Errorf("look %d: %v %%, want %v", i, got, step.want)
		}
	}
	// What the newest configuration forbids is not lost.
	closed := r.referee.history[0].fleet.Clone()
	closed[0].Apps[1] = model.App{Network: 1, Rules: model.Closed, Active: true}
	r.referee.changed(closed)
	app.took(guest.Told{Sent: map[string]int{"0.0:7001": 20}})
	r.measureLoss()
	if n := len(r.series["loss\x001"].Samples); n != 3 {
		t.Errorf("%d samples, want 3", n)
	}
}
