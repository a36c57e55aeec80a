package probe

import (
	"testing"
	"time"
)

// The port was chosen by a clock that was ahead; it has been right since, and the daemon was restarted.
func TestATunnelLeavesAPortThatWasChosenInTheFuture(t *testing.T) {
	w := newTunnelled(t)
	x := w.record.Chosen["uplink"]
	x.Since = w.now.Add(365 * 24 * time.Hour)
	w.record.Chosen["uplink"] = x
	w = w.restart()
	w.hear(time.Minute)
	w.dead["wan"] = true
	w.hear(time.Hour)
	w.is("lte", "after an hour of silence")
}

// Two ports have dropped the tunnel for long, and the third lets it pass. That one goes, and one of the two lets it pass.
func TestATunnelTriesEachPortThatItKeepsAwayFrom(t *testing.T) {
	w := newTunnelled(t)
	sat := *w.ports["lte"]
	sat.Label, sat.IfName, sat.Cost = "sat", "sat0", 20
	w.ports["sat"] = &sat
	w.see()
	w.dead["wan"], w.dead["lte"] = true, true
	w.hear(14 * time.Hour)
	away := func(label string) time.Duration { return w.c.ports[label].away.Until.Sub(w.now) }
	for end := w.now.Add(24 * time.Hour); away("wan") < 3*time.Hour || away("lte") < 3*time.Hour; w.hear(time.Minute) {
		if w.now.After(end) {
			t.Fatalf("wan rests for %v, lte for %v", away("wan"), away("lte"))
		}
	}
	w.is("sat", "at first")
	w.dead["lte"] = false
	w.ports["sat"].Reach = Down
	w.see()
	began := w.now
	for w.port != "lte" && w.now.Sub(began) < 12*time.Hour {
		w.hear(10 * time.Second)
	}
	if d := w.now.Sub(began); d > time.Hour {
		t.Errorf("no tunnel for %v (uses %s): %+v", d, w.port, w.choice.Ports)
	}
}
