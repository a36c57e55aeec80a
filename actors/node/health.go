package node

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
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
	alive := timeout == 0 || r.alive(uint64(timeout))
	r.d.stuck.Store(!alive)
	if alive {
		r.d.notify("WATCHDOG=1")
	}
	r.endDrains()
	c.Send(r.config, ping{r.beats})
	c.Send(r.monitor, ping{r.beats})
	r.timers.after(c, beatEvery, func() any { return beatDue{} })
}

// storageChanged reports a change in the health of the state folder to the router.
type storageChanged struct{ health api.StorageHealth }

// storageHealth publishes the health of the state folder; each change for worse or better is an event.
func (r *router) storageHealth(now api.StorageHealth) {
	was, known := r.d.topics.Storage.Get("", "node")
	must(r.storage.Publish("", "node", now))
	if !known {
		for _, n := range now.Notes {
			r.d.of(logRouter).Warn("state folder", zap.String("found", n))
			r.d.recordEvent(event(nodeapi.EventStorage, "node", "", n))
		}
	}
	switch {
	case now.Fault != "" && was.Fault == "":
		r.d.of(logRouter).Error("state folder", zap.String("err", now.Fault))
		e := event(nodeapi.EventStorage, "node", "", api.NotJournalled+
			": changes are kept in memory until the disk accepts writes")
		e.Error = now.Fault
		r.d.recordEvent(e)
	case now.Fault == "" && was.Fault != "":
		r.d.of(logRouter).Info("state folder", zap.String("state", api.Journalled))
		text := api.Journalled + " again, including all changes made meanwhile"
		r.d.recordEvent(event(nodeapi.EventStorage, "node", "", text))
	}
}

// ownedObserved is what an applier found of its network at a start that may lack the journal.
type ownedObserved struct {
	have netstate.State
	err  error
}

type ownedRequest struct{}

// observeOwned reads the owner's objects on the host.
func (a *applier) observeOwned() ownedObserved {
	have, err := a.observe(true)
	return ownedObserved{have, err}
}

// adopt passes the leases that the host knows to the manager, before any apply.
func (b *bridge) adopt(s ownedObserved) error {
	if s.err != nil {
		return s.err
	}
	b.mgr.Adopt(netinst.FoundLeases(b.owner.Number, s.have), len(s.have) > 0)
	b.adopted = true
	return nil
}

// alwaysPersists is the Storage of a journal that always persists.
type alwaysPersists struct{}

func (alwaysPersists) Watch(f func(api.StorageHealth)) { f(api.StorageHealth{}) }
func (alwaysPersists) Floor() uint64                   { return 0 }
func (alwaysPersists) NoteLost(string)                 {}
func (alwaysPersists) MayLackChanges() bool            { return false }
