package simulate

import (
	"sync"
	"time"

	"edgespan/actors/agent"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/nodeconf/commitconfirm"
)

// host takes every config, in the time that a node's work takes.
type host struct {
	life *life

	mu    sync.Mutex
	wake  func()
	now   commitconfirm.Publish
	has   bool
	ready bool // all of it is applied
	work  *time.Timer
}

func (h *host) Start(wake func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wake = wake
}

// Publish takes the node down until its work is done.
func (h *host) Publish(p commitconfirm.Publish) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.Document, p.Config = nil, nil // the agent has them
	h.now, h.has, h.ready = p, true, false
	h.idle()
	n := h.life.node
	n.fleet.paths.takes(n.index)
	if n.fleet.o.ApplyTime <= 0 {
		h.applied()
		return
	}
	h.wake()
	var work *time.Timer
	work = time.AfterFunc(n.fleet.o.ApplyTime, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.work == work {
			h.applied()
		}
	})
	h.work = work
}

// idle ends the work that goes on. The caller has the lock.
func (h *host) idle() {
	if h.work != nil {
		h.work.Stop()
		h.work = nil
	}
}

// applied ends the work as done. The caller has the lock.
func (h *host) applied() {
	h.work, h.ready = nil, true
	if n := h.life.node; !h.life.dead.Load() {
		n.fleet.paths.done(n.index)
	}
	h.wake()
}

// Drain has nothing to bring: what there is shows in Look.
func (h *host) Drain() {}

func (h *host) Observe() agent.Observation {
	h.mu.Lock()
	defer h.mu.Unlock()
	good := !h.has || !h.life.node.bad(h.now)
	detail := ""
	if !good {
		detail = "injected by the simulation"
	}
	return agent.Observation{Settled: h.ready, Health: []nodeproto.Health{{Name: "uplink", Good: good, Detail: detail}}}
}

func (h *host) Trouble(string) {}

// Stop leaves the node down if it was: its next life brings it up.
func (h *host) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.idle()
}

// pushed says whether a config came from the controller and not from the node itself.
func pushed(p commitconfirm.Publish) bool { return p.Source == commitconfirm.Push }
