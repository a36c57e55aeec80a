package simulate

import (
	"sync"
	"time"

	"edgespan/actors/agent"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/pubsub/trace"
)

// host accepts every config, and takes ApplyTime to apply it.
type host struct {
	life *life

	mu    sync.Mutex
	wake  func()
	now   commitconfirm.Publish
	has   bool
	ready bool // the config is applied
	work  *time.Timer
}

func (h *host) Start(wake func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wake = wake
}

// Publish takes the node down until the config is applied.
func (h *host) Publish(p commitconfirm.Publish, _ trace.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p.Document, p.Config = nil, nil // the agent keeps them
	h.now, h.has, h.ready = p, true, false
	h.idle()
	n := h.life.node
	n.fleet.paths.takeDown(n.index)
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

// idle cancels the work in progress. The caller holds the lock.
func (h *host) idle() {
	if h.work != nil {
		h.work.Stop()
		h.work = nil
	}
}

// applied completes the work. The caller holds the lock.
func (h *host) applied() {
	h.work, h.ready = nil, true
	if n := h.life.node; !h.life.dead.Load() {
		n.fleet.paths.done(n.index)
	}
	h.wake()
}

// Drain does nothing: Observe has everything.
func (h *host) Drain() {}

func (h *host) Observe() agent.Observation {
	h.mu.Lock()
	defer h.mu.Unlock()
	good := !h.has || !h.life.node.injectsBadHealth(h.now)
	detail := ""
	if !good {
		detail = "injected by the simulation"
	}
	return agent.Observation{Settled: h.ready,
		Health: []nodeproto.HealthReport{{Name: "uplink", Good: good, Detail: detail}}}
}

func (h *host) ReportProblem(string) {}

// Stop leaves a node that is down down: its next life brings it up.
func (h *host) Stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.idle()
}

// pushed reports whether a config came from the controller.
func pushed(p commitconfirm.Publish) bool { return p.Source == commitconfirm.Push }
