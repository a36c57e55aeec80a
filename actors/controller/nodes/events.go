package nodes

import (
	"sync"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/events"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/pace"
)

// What is kept of one node's events; fewEvents once those of all nodes take allEvents bytes of memory.
var (
	eventLimits = events.Limits{Events: 200, Bytes: 32 << 10}
	fewEvents   = events.Limits{Events: 25, Bytes: 4 << 10}
)

const allEvents = 256 << 20

// eventsAnswer is how many bytes of events a node is asked for at once, and longestAnswer the longest answer that is
// read.
const (
	eventsAnswer  = 16 << 10
	longestAnswer = 64 << 10
)

// eventsPace is how often a node is asked for events, and how many bytes it may answer: a longer answer delays the next
// question. A question and its answer are two writes.
var eventsPace = pace.Limit{Writes: pace.Rate{Burst: 8, PerSecond: 0.2},
	Bytes: pace.Rate{Burst: 64 << 10, PerSecond: 1 << 10}}

// collectedEvents are what a node's replica knows of its events. They outlive the node's streams and crashes of its
// actor.
type collectedEvents struct {
	mu     sync.Mutex
	list   events.Collected
	budget pace.Budget
}

// collectEvents asks the node for its new events, within its budget.
func (n *node) collectEvents(reported uint64) {
	for _, open := range n.asks {
		if open.kind == nodeproto.RequestEvents {
			return
		}
	}
	k, now := &n.handle.events, n.d.Now()
	k.mu.Lock()
	after, ask := k.list.Wants(reported)
	if ask = ask && k.budget.Wait(now, eventsPace, 1) == 0; ask {
		k.budget.Spend(now, eventsPace, 0)
	}
	k.mu.Unlock()
	if ask {
		n.request(request{kind: nodeproto.RequestEvents, events: reported, at: now},
			storage.Encode(events.Request{After: after, Bytes: eventsAnswer}))
	}
}

// putEvents keeps what a node has answered; an answer that is too long is not read.
func (h *Handle) putEvents(now time.Time, data []byte, reported uint64) {
	k := &h.events
	k.mu.Lock()
	defer k.mu.Unlock()
	k.budget.Spend(now, eventsPace, len(data))
	if len(data) > longestAnswer {
		data = nil
	}
	if h.all.events.Add(int64(k.list.Put(now, data, reported, eventLimits))) > allEvents {
		h.all.events.Add(int64(k.list.Trim(fewEvents)))
	}
}

// dropEvents forgets the events of a node that leaves the fleet.
func (h *Handle) dropEvents() {
	h.events.mu.Lock()
	defer h.events.mu.Unlock()
	h.all.events.Add(-int64(h.events.list.Drop()))
}

// Events returns what is known of the node's events here, by number. The list must not be changed.
func (h *Handle) Events() []events.Event {
	h.events.mu.Lock()
	defer h.events.mu.Unlock()
	return h.events.list.Events()
}
