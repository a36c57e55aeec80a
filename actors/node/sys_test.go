package node

import (
	"testing"
	"time"
)

func TestTheLogLevelIsTheConfigs(t *testing.T) {
	onRig(t, func(r *rig) {
		for _, word := range []string{"debug", "error"} {
			r.apply("sysParams: {logLevel: " + word + "}\n")
			if got := r.level.Load(); got == nil || *got != word {
				t.Errorf("the level is %v, want %s", got, word)
			}
		}
		r.stop()
		r.start()
		if got := r.level.Load(); got == nil || *got != "error" {
			t.Errorf("after a restart the level is %v, want error", got)
		}
	})
}

func TestTheWatchdogIsFedWhileTheVitalActorsAnswer(t *testing.T) {
	for _, c := range []struct {
		beat    uint64
		pongs   map[string]uint64
		timeout uint64
		want    bool
	}{
		{1, nil, 60, true}, // no answer can have arrived yet
		{60, nil, 60, true},
		{61, nil, 60, false},
		{100, map[string]uint64{"config": 99, "monitor": 98}, 3, true},
		{100, map[string]uint64{"config": 99, "monitor": 90}, 3, false},
		{100, map[string]uint64{"monitor": 100}, 3, false},
	} {
		if got := (&pulse{c.beat, c.pongs}).alive(c.timeout); got != c.want {
			t.Errorf("beat %d, answers %v, patience %d: alive %v", c.beat, c.pongs, c.timeout, got)
		}
	}
}

func TestTheWatchdogIsFedEachSecondAndNotOnceTheConfigActorIsStuck(t *testing.T) {
	onRig(t, func(r *rig) {
		r.apply("sysParams: {watchdogSeconds: 5}\n")
		before := r.fed()
		r.settle(10 * time.Second)
		if n := r.fed() - before; n < 9 || n > 11 {
			t.Errorf("it was fed %d times in ten seconds", n)
		}
		free := make(chan struct{})
		stick := func() { <-free }
		r.stick.Store(&stick)
		r.files.SetConfig("sysParams: {watchdogSeconds: 5, logLevel: warn}\n")
		r.node.Reload() // the config actor hangs
		r.settle(10 * time.Second)
		before = r.fed()
		r.settle(10 * time.Second)
		if n := r.fed() - before; n != 0 {
			t.Errorf("it was fed %d times while the config actor hung", n)
		}
		close(free)
		r.settle(10 * time.Second)
		if r.fed() == before {
			t.Error("it was not fed again")
		}
	})
}
