package node

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// beatEvery is the router's heartbeat: each beat it asks the vital actors, and it
// feeds the watchdog of systemd only while all of them have answered within
// sysParams.watchdogSeconds (0: always).
const (
	beatEvery = time.Second
	// noConfigPatience is watchdogSeconds until a config says it: its default.
	noConfigPatience = 60
)

type (
	beatDue struct{}
	ping    struct{ beat uint64 }
	pong    struct {
		from string
		beat uint64
	}
)

// pulse counts the router's beats, and which of them the vital actors have answered.
type pulse struct {
	beats    uint64
	answered map[string]uint64 // the last one, by actor
}

func (p *pulse) heard(m pong) {
	if p.answered == nil {
		p.answered = map[string]uint64{}
	}
	p.answered[m.from] = m.beat
}

// alive says whether every vital actor has answered one of the last beats.
func (p *pulse) alive(patience uint64) bool {
	for _, name := range []string{"config", "monitor"} {
		if p.beats-p.answered[name] > patience { // one that never answered answered beat 0
			return false
		}
	}
	return true
}

// beat asks the vital actors for a sign of life and passes it on to systemd.
func (r *router) beat(c actor.Context) {
	r.beats++
	patience := noConfigPatience
	if p, known := r.d.topics.SysParams.Get("", "node"); known {
		patience = p.WatchdogSeconds
	}
	if patience == 0 || r.alive(uint64(patience)) {
		r.d.notify("WATCHDOG=1")
	}
	c.Send(r.config, ping{r.beats})
	c.Send(r.monitor, ping{r.beats})
	r.timers.after(c, beatEvery, func() any { return beatDue{} })
}
