package node

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// beatEvery is the period of the router's heartbeat: at each beat it asks the vital actors, and it feeds systemd's
// watchdog only while all of them have answered within sysParams.watchdogSeconds (0: always).
const (
	beatEvery = time.Second
	// noConfigTimeout is watchdogSeconds until a config sets it: its default.
	noConfigTimeout = 60
)

type (
	beatDue struct{}
	ping    struct{ beat uint64 }
	pong    struct {
		from string
		beat uint64
	}
)

// pulse counts the router's beats and records which of them the vital actors have answered.
type pulse struct {
	beats    uint64
	answered map[string]uint64 // last beat answered, by actor
}

func (p *pulse) handlePong(m pong) {
	if p.answered == nil {
		p.answered = map[string]uint64{}
	}
	p.answered[m.from] = m.beat
}

// alive reports whether every vital actor has answered one of the last beats.
func (p *pulse) alive(timeout uint64) bool {
	for _, name := range []string{"config", "monitor"} {
		if p.beats-p.answered[name] > timeout { // an actor that never answered counts as having answered beat 0
			return false
		}
	}
	return true
}

// beat asks the vital actors for a sign of life and notifies systemd.
func (r *router) beat(c actor.Context) {
	r.beats++
	timeout := noConfigTimeout
	if p, known := r.d.topics.SysParams.Get("", "node"); known {
		timeout = p.WatchdogSeconds
	}
	if timeout == 0 || r.alive(uint64(timeout)) {
		r.d.notify("WATCHDOG=1")
	}
	c.Send(r.config, ping{r.beats})
	c.Send(r.monitor, ping{r.beats})
	r.timers.after(c, beatEvery, func() any { return beatDue{} })
}
