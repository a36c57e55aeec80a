// Package metrics has the metrics of a controller: what its actors, its APIs and its store count, and from a Snapshot
// of the fleet to the numbers of one scrape.
//
// It asks no actor and reads no store. Labels are words of the code and patterns of routes: no name of a node, and no
// text of a caller.
package metrics

import (
	"strconv"
	"sync"
	"time"

	"edgespan/actors/supervise"
	"edgespan/config/fleet"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/httpapi/metrics"
)

// Work counts what a controller does, from the start of the process. A nil *Work counts nothing.
type Work struct {
	load     supervise.Load
	mu       sync.Mutex
	pushes   map[string]uint64
	results  map[string]uint64
	confirms uint64
	requests map[request]uint64
	took     map[string]metrics.Histogram // by API
	store    map[string]metrics.Histogram // by operation
	failed   map[string]uint64            // by operation
}

// request is a kind of request.
type request struct{ api, method, route, code string }

// NewWork returns an empty Work.
func NewWork() *Work {
	w := &Work{pushes: map[string]uint64{pushConfig: 0, pushNumber: 0}, results: map[string]uint64{},
		requests: map[request]uint64{}, took: map[string]metrics.Histogram{}, store: map[string]metrics.Histogram{},
		failed: map[string]uint64{}}
	for _, o := range []nodeproto.PushOutcome{nodeproto.Applied, nodeproto.Rejected, nodeproto.Unhealthy,
		nodeproto.Unconfirmed, nodeproto.Accepted, nodeproto.NotStored} {
		w.results[o.String()] = 0 // so that the first one shows as an increase
	}
	return w
}

// Load returns the counters of actors; nil for a nil *Work.
func (w *Work) Load() *supervise.Load {
	if w == nil {
		return nil
	}
	return &w.load
}

// The kinds of pushes.
const (
	pushConfig = "config"
	pushNumber = "number"
)

// Pushed counts a push: whole has the config in it.
func (w *Work) Pushed(whole bool) {
	if w == nil {
		return
	}
	kind := pushNumber
	if whole {
		kind = pushConfig
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pushes[kind]++
}

// Result counts what a node reports of a push, by a word of the protocol.
func (w *Work) Result(outcome string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.results[outcome]++
}

// Confirmed counts a confirmation of a push.
func (w *Work) Confirmed() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.confirms++
}

// Requested counts a request to an API. Without a route, which is a pattern of its table, method and path are any text.
func (w *Work) Requested(api, method, route string, status int, took time.Duration) {
	if route == "" {
		method, route = "other", "other"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests[request{api, method, route, strconv.Itoa(status)}]++
	h := w.took[api]
	h.Observe(took.Seconds())
	w.took[api] = h
}

// Stored counts an operation of the store.
func (w *Work) Stored(operation string, took time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.store[operation]
	h.Observe(took.Seconds())
	w.store[operation] = h
	if n := w.failed[operation]; err != nil {
		w.failed[operation] = n + 1
	} else {
		w.failed[operation] = n // 0 is a series, so that the first failure shows as an increase
	}
}

// Snapshot is a controller at one moment.
type Snapshot struct {
	Version string
	Ready   bool
	Fleet   Fleet
	Audited bool // the audit log can be written
	Store   Store
	Facts   Facts
	Spans   map[string]uint64 // of traces, by what became of them; nil without traces
}

// Store is the state of the store.
type Store struct {
	Writable, NearlyFull bool
	Size                 int64 // -1: unknown
}

// Facts is the state of ConfigDB.
type Facts struct {
	Ready  bool
	Caches map[string]CacheUse // by name
}

// CacheUse counts the uses of a cache.
type CacheUse struct{ Hits, Misses uint64 }

// Fleet counts nodes.
type Fleet struct {
	States                 map[fleet.State]int
	Online, Ready, Streams int
	Rollout                *staged.RolloutRecord // the newest staged one; nil: none
}

// Collect adds the numbers of a snapshot, and of what was counted.
func (s Snapshot) Collect(w *Work, to *metrics.Scrape) {
	to.Add(info, 1, s.Version)
	to.Flag(isReady, s.Ready)
	for state, n := range s.Fleet.States {
		to.Add(nodes, float64(n), string(state))
	}
	to.Add(online, float64(s.Fleet.Online))
	to.Add(ready, float64(s.Fleet.Ready))
	to.Add(streams, float64(s.Fleet.Streams))
	if s.Fleet.Rollout != nil {
		collectRollout(s.Fleet.Rollout.Summary(), to)
	}
	to.Flag(audited, s.Audited)
	to.Flag(storeFine, s.Store.Writable)
	to.Flag(storeSpace, s.Store.NearlyFull)
	if s.Store.Size >= 0 {
		to.Add(storeSize, float64(s.Store.Size))
	}
	to.Flag(factsReady, s.Facts.Ready)
	for cache, use := range s.Facts.Caches {
		to.Count(cacheUse, use.Hits, cache, "hit")
		to.Count(cacheUse, use.Misses, cache, "miss")
	}
	for result, n := range s.Spans {
		to.Count(spans, n, result)
	}
	w.collect(to)
}

func collectRollout(t staged.Summary, to *metrics.Scrape) {
	for _, state := range staged.States {
		to.Flag(rolloutState, t.State == state, state)
	}
	for state, n := range t.Nodes {
		to.Add(rolloutNodes, float64(n), string(state))
	}
	for state, n := range t.Batches {
		to.Add(rolloutBatches, float64(n), state)
	}
	if !t.Decided.IsZero() {
		to.Add(rolloutDecided, float64(t.Decided.UnixMilli())/1000)
	}
}

func (w *Work) collect(to *metrics.Scrape) {
	for _, k := range w.load.Kinds() {
		to.Add(mailbox, float64(k.Waiting), k.Kind)
		to.Count(restarts, k.Crashes, k.Kind)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	to.Count(confirms, w.confirms)
	for kind, n := range w.pushes {
		to.Count(pushes, n, kind)
	}
	for outcome, n := range w.results {
		to.Count(results, n, outcome)
	}
	for r, n := range w.requests {
		to.Count(requests, n, r.api, r.method, r.route, r.code)
	}
	for api, h := range w.took {
		to.Observed(requestTook, h, api)
	}
	for operation, h := range w.store {
		to.Observed(storeTook, h, operation)
		to.Count(storeFailed, w.failed[operation], operation)
	}
}
