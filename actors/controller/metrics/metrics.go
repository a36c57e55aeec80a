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

	"edgespan/config/fleet"
	"edgespan/config/httpapi/metrics"
)

// Table has the metrics of a controller, besides those of the Go runtime and of the process.
var Table metrics.Table

var (
	info     = Table.Gauge("edgespan_controller_info", "1, with the version of the controller.", "version")
	isReady  = Table.Gauge("edgespan_controller_ready", "Whether the controller is ready, as /readyz answers.")
	nodes    = Table.Gauge("edgespan_fleet_nodes", "Nodes, by state.", "state")
	online   = Table.Gauge("edgespan_fleet_online_nodes", "Nodes that have a stream to any replica.")
	ready    = Table.Gauge("edgespan_fleet_ready_nodes", "Nodes that run what is desired, all of it in its final state.")
	streams  = Table.Gauge("edgespan_controller_streams", "Streams of nodes to this replica.")
	pushes   = Table.Counter("edgespan_push_sent_total", "Pushes to nodes: of a config, or of its number alone.", "kind")
	results  = Table.Counter("edgespan_push_results_total", "Results of pushes, as nodes report them.", "outcome")
	requests = Table.Counter("edgespan_rest_requests_total", "Requests, by API, route and status.",
		"api", "method", "route", "code")
	requestTook = Table.Histogram("edgespan_rest_request_duration_seconds",
		"Seconds until the answer of a request was computed, by API.", "api")
	storeTook = Table.Histogram("edgespan_store_operation_duration_seconds", "Seconds of an operation of the store.",
		"operation")
	storeFailed = Table.Counter("edgespan_store_failures_total", "Operations of the store that failed.", "operation")
	storeSize   = Table.Gauge("edgespan_store_size_bytes", "Bytes that the store uses, with its history.")
	storeFine   = Table.Gauge("edgespan_store_writable", "Whether the store accepts writes.")
)

// Work counts what a controller does, from the start of the process. A nil *Work counts nothing.
type Work struct {
	mu       sync.Mutex
	pushes   map[string]uint64
	results  map[string]uint64
	requests map[request]uint64
	took     map[string]metrics.Histogram // by API
	store    map[string]metrics.Histogram // by operation
	failed   map[string]uint64            // by operation
}

// request is a kind of request.
type request struct{ api, method, route, code string }

// NewWork returns an empty Work.
func NewWork() *Work {
	return &Work{pushes: map[string]uint64{}, results: map[string]uint64{}, requests: map[request]uint64{},
		took: map[string]metrics.Histogram{}, store: map[string]metrics.Histogram{}, failed: map[string]uint64{}}
}

// Pushed counts a push: whole has the config in it.
func (w *Work) Pushed(whole bool) {
	if w == nil {
		return
	}
	kind := "number"
	if whole {
		kind = "config"
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
	Version  string
	Ready    bool
	Fleet    Fleet
	Writable bool  // the store
	Size     int64 // of the store; -1: unknown
}

// Fleet counts nodes.
type Fleet struct {
	States                 map[fleet.State]int
	Online, Ready, Streams int
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
	to.Flag(storeFine, s.Writable)
	if s.Size >= 0 {
		to.Add(storeSize, float64(s.Size))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
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
