package serve

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// As an operator I scrape a controller with a viewer's token, and can't without one.
func TestAControllerServesItsMetrics(t *testing.T) {
	c := program.Start(t, t.TempDir())
	b := c.Browser(c.Pin())
	if w := c.Ask(b, "GET", "/api/v1/config/environments", ""); w.Status != 200 {
		t.Fatalf("%+v", w)
	}
	for _, token := range []string{"Authorization: ", "Authorization: Bearer no"} {
		if w := c.Ask(b, "GET", "/metrics", "", token); w.Status != 401 {
			t.Errorf("with %q it is %d", token, w.Status)
		}
	}
	w := c.Ask(b, "GET", "/metrics", "")
	if w.Status != 200 {
		t.Fatalf("%+v", w)
	}
	w.Text += "\n" // which Ask trims
	for _, want := range []string{
		"edgespan_controller_ready 1\n", "edgespan_store_writable 1\n", "edgespan_fleet_online_nodes 0\n",
		`edgespan_rest_requests_total{api="configdb",code="200",method="GET",route="environments"} 1` + "\n",
		`edgespan_rest_requests_total{api="fleet",code="401",method="GET",route="/metrics"} 2` + "\n",
		`edgespan_store_operation_duration_seconds_count{operation="commit"} `, "edgespan_store_size_bytes ",
		"edgespan_store_nearly_full 0\n", "edgespan_audit_writable 1\n", "edgespan_configdb_ready 1\n", "edgespan_push_confirms_total 0\n",
		`edgespan_push_results_total{outcome="rejected"} 0` + "\n", `edgespan_actor_restarts_total{actor="fleet"} 0` + "\n",
		`edgespan_actor_mailbox_messages{actor="configdb_follower"} 0` + "\n",
		`edgespan_configdb_cache_requests_total{cache="answers",result="miss"} 0` + "\n",
	} {
		if !strings.Contains(w.Text, want) {
			t.Errorf("no %s in\n%s", want, w.Text)
		}
	}
	t.Logf("%d bytes", len(w.Text))
	if faults, err := promlint.New(strings.NewReader(w.Text)).Lint(); err != nil || len(faults) > 0 {
		t.Errorf("promlint: %v, %v", faults, err)
	}
	if w := c.Ask(b, "GET", "/readyz?verbose", ""); w.Status != 200 || !strings.Contains(w.Text, `"checks":[`+
		`{"name":"fleet","ok":true},{"name":"store","ok":true},{"name":"configdb","ok":true}]`) {
		t.Errorf("%+v", w)
	}
}
