package metrics

import "edgespan/config/httpapi/metrics"

// Table has the metrics of a controller, besides those of the Go runtime and of the process.
var Table metrics.Table

var (
	info    = Table.Gauge("edgespan_controller_info", "1, with the version of the controller.", "version")
	isReady = Table.Gauge("edgespan_controller_ready", "Whether the controller is ready, as /readyz answers.")
	nodes   = Table.Gauge("edgespan_fleet_nodes", "Nodes, by state.", "state")
	online  = Table.Gauge("edgespan_fleet_online_nodes", "Nodes that have a stream to any replica.")
	ready   = Table.Gauge("edgespan_fleet_ready_nodes", "Nodes that run what is desired, all of it in its final state.")
	streams = Table.Gauge("edgespan_controller_streams", "Streams of nodes to this replica.")
	pushes  = Table.Counter("edgespan_push_sent_total", "Pushes to nodes: of a config, or of its number alone.", "kind")
	results = Table.Counter("edgespan_push_results_total",
		"Results of pushes, as nodes report them; unhealthy and unconfirmed are undos.", "outcome")
	confirms = Table.Counter("edgespan_push_confirms_total", "Confirmations of pushed configs, sent to nodes.")
)

// The newest staged rollout.
var (
	rolloutState = Table.Gauge("edgespan_rollout_state",
		"1 for the state of the newest staged rollout, 0 for the others.", "state")
	rolloutNodes   = Table.Gauge("edgespan_rollout_nodes", "Nodes of the newest staged rollout, by state.", "state")
	rolloutBatches = Table.Gauge("edgespan_rollout_batches",
		"Batches of the newest staged rollout that were pushed: out, done, or failed if a node failed.", "state")
	rolloutDecided = Table.Gauge("edgespan_rollout_decision_timestamp_seconds",
		"Time of the last decision about the newest staged rollout, such as another batch, in seconds since 1970.")
)

// The APIs, the store, ConfigDB and the actors.
var (
	requests = Table.Counter("edgespan_rest_requests_total", "Requests, by API, route and status.",
		"api", "method", "route", "code")
	requestTook = Table.Histogram("edgespan_rest_request_duration_seconds",
		"Seconds until the answer of a request was computed, by API.", "api")
	audited = Table.Gauge("edgespan_audit_writable",
		"Whether the audit log could be written last; while it can't, changes are refused.")
	storeTook = Table.Histogram("edgespan_store_operation_duration_seconds", "Seconds of an operation of the store.",
		"operation")
	storeFailed = Table.Counter("edgespan_store_failures_total", "Operations of the store that failed.", "operation")
	storeSize   = Table.Gauge("edgespan_store_size_bytes", "Bytes that the store uses, with its history.")
	spans       = Table.Counter("edgespan_trace_spans_total",
		"Spans that were sent to the collector of traces, dropped, or left out of a trace that is too long.", "result")
	storeFine  = Table.Gauge("edgespan_store_writable", "Whether the store accepts writes.")
	storeSpace = Table.Gauge("edgespan_store_nearly_full",
		"Whether the store is close to a limit at which it refuses all writes; 0 for a store without such a limit.")
	factsReady = Table.Gauge("edgespan_configdb_ready", "Whether ConfigDB can be read.")
	cacheUse   = Table.Counter("edgespan_configdb_cache_requests_total",
		"Answers and documents of ConfigDB, by whether they had to be computed or read from the store: hit or miss.",
		"cache", "result")
	mailbox  = Table.Gauge("edgespan_actor_mailbox_messages", "Messages that wait in mailboxes.", "actor")
	restarts = Table.Counter("edgespan_actor_restarts_total", "Restarts of actors that had crashed.", "actor")
)
