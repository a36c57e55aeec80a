package metrics

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"edgespan/config/fleet"
	"edgespan/config/fleet/rollout"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/httpapi/metrics"
)

func TestWhatAScrapeOfAControllerSays(t *testing.T) {
	w := NewWork()
	w.Pushed(true)
	w.Pushed(true)
	w.Pushed(false)
	w.Result("applied")
	w.Requested("fleet", "GET", "/api/v1/fleet/nodes/{node}", 200, 3*time.Millisecond)
	w.Requested("fleet", "GET", "/api/v1/fleet/nodes/{node}", 200, 3*time.Millisecond)
	for _, hostile := range []string{"BREW", "x\"} 1\n", strings.Repeat("A", 1000)} { // of an unknown caller
		w.Requested("fleet", hostile, "", 405, time.Millisecond)
	}
	w.Stored("get", time.Millisecond, nil)
	w.Stored("commit", time.Second, errors.New("the disk is full"))
	w.Confirmed()
	w.Load().Crashed("node")
	record := &staged.RolloutRecord{Machine: rollout.Memory{Halted: true, Nodes: []rollout.Group{
		{State: rollout.Confirmed, Batch: 1, Names: []string{"a", "b"}}, {State: rollout.Failed, Batch: 1, Names: []string{"c"}},
		{State: rollout.Waiting, Todo: true, Names: []string{"d"}}}}}
	record.RecordDecision(time.Unix(1_800_000_000, 0), "", "halted", "")
	s := Snapshot{Version: "1.0", Ready: true, Store: Store{Size: 4096, NearlyFull: true},
		Facts: Facts{Ready: true, Caches: map[string]CacheUse{"answers": {Hits: 7, Misses: 2}}},
		Fleet: Fleet{Rollout: record, Online: 3, Ready: 2, Streams: 1,
			States: map[fleet.State]int{fleet.InSync: 2, fleet.Offline: 7}}}
	text, err := metrics.NewPage(&Table, func(to *metrics.Scrape) { s.Collect(w, to) }).Text(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`edgespan_fleet_nodes{state="InSync"} 2`, `edgespan_fleet_nodes{state="Offline"} 7`, "edgespan_fleet_online_nodes 3",
		"edgespan_fleet_ready_nodes 2", "edgespan_controller_streams 1", `edgespan_push_sent_total{kind="config"} 2`,
		`edgespan_push_sent_total{kind="number"} 1`, `edgespan_push_results_total{outcome="applied"} 1`,
		`edgespan_rest_requests_total{api="fleet",code="200",method="GET",route="/api/v1/fleet/nodes/{node}"} 2`,
		`edgespan_rest_requests_total{api="fleet",code="405",method="other",route="other"} 3`,
		`edgespan_rest_request_duration_seconds_count{api="fleet"} 5`, "edgespan_store_size_bytes 4096",
		`edgespan_store_operation_duration_seconds_bucket{operation="commit",le="1"} 1`,
		`edgespan_store_failures_total{operation="commit"} 1`, `edgespan_store_failures_total{operation="get"} 0`,
		"edgespan_audit_writable 0", "edgespan_store_writable 0", "edgespan_store_nearly_full 1",
		`edgespan_push_results_total{outcome="unhealthy"} 0`, "edgespan_push_confirms_total 1",
		`edgespan_rollout_state{state="halted"} 1`, `edgespan_rollout_state{state="running"} 0`,
		`edgespan_rollout_nodes{state="confirmed"} 2`, `edgespan_rollout_nodes{state="failed"} 1`,
		`edgespan_rollout_nodes{state="waiting"} 1`, `edgespan_rollout_nodes{state="pushed"} 0`,
		`edgespan_rollout_batches{state="failed"} 1`, `edgespan_rollout_batches{state="out"} 0`,
		"edgespan_rollout_decision_timestamp_seconds 1.8e+09", "edgespan_configdb_ready 1",
		`edgespan_configdb_cache_requests_total{cache="answers",result="hit"} 7`,
		`edgespan_configdb_cache_requests_total{cache="answers",result="miss"} 2`,
		`edgespan_actor_restarts_total{actor="node"} 1`,
		`edgespan_actor_mailbox_messages{actor="node"} 0`, "edgespan_controller_ready 1",
	} {
		if !strings.Contains(string(text), "\n"+want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	if faults, err := promlint.New(strings.NewReader(string(text))).Lint(); err != nil || len(faults) > 0 {
		t.Errorf("promlint: %v, %v", faults, err)
	}
	var none *Work // of a test
	none.Pushed(true)
	none.Result("applied")
}
