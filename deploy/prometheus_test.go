package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// rules are the alerts, in the order of the file.
func rules(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			names = append(names, r.Alert)
		}
	}
	return names
}

// promtool runs Prometheus's own checks. Only make test installs it.
func promtool(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: make setup-tests")
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestPrometheusTakesTheRulesAndTheScrapeConfig(t *testing.T) {
	promtool(t, "check", "rules", "--lint=all", "--lint-fatal", "prometheus/alerts.yaml")
	promtool(t, "check", "config", "--syntax-only", "prometheus/scrape.yaml")
}

// story is a history of series, a value each minute, in which an alert fires and clears.
type story struct {
	alert  string
	series []string // and their values, as promtool writes them
	quiet  time.Duration
	fires  time.Duration // it does not fire at quiet, and fires at fires
	clears time.Duration // it does not fire any more
}

// node and ctl complete the labels of a series.
func node(name, labels, values string) string {
	return series(name, "edgespan-node", "n1", labels, values)
}
func ctl(name, labels, values string) string {
	return series(name, "edgespan-controller", "c1", labels, values)
}

func series(name, job, instance, labels, values string) string {
	if labels != "" {
		labels = ", " + labels
	}
	return fmt.Sprintf("edgespan_%s{job=%q, instance=%q%s} %s", name, job, instance, labels, values)
}

const (
	minute = time.Minute
	was1   = "1+0x5 0+0x30 1+0x60" // 1, from minute 6 on 0, from minute 37 on 1
	was0   = "0+0x5 1+0x30 0+0x60"
)

var stories = []story{
	{"EdgespanNodeDown", []string{`up{job="edgespan-node", instance="n1"} ` + was1}, 10 * minute, 12 * minute, 38 * minute},
	{"EdgespanNodeNotReady", []string{node("node_ready", "", was1)}, 10 * minute, 12 * minute, 38 * minute},
	{"EdgespanNetworkFailing", []string{node("network_present", `network="x"`, was1),
		node("network_present", `network="y"`, "1+0x100")}, 10 * minute, 12 * minute, 38 * minute},
	{"EdgespanConfigRejected", []string{node("config_rejected", "", was0)}, 10 * minute, 12 * minute, 38 * minute},
	{"EdgespanPortDown", []string{node("port_up", `port="lte"`, was1)}, 7 * minute, 9 * minute, 38 * minute},
	{"EdgespanProbesFailing", []string{node("probe_up", `port="lte", method="arp", target="192.0.2.1"`, was1)},
		10 * minute, 12 * minute, 38 * minute},
	{"EdgespanUplinkFlapping", []string{node("network_uplink_switches_total", `network="x"`, "0+0x10 1+1x9 10+0x80")},
		12 * minute, 17 * minute, 40 * minute},
	// One burst of drops is not enough: its series is gone after 10 minutes.
	{"EdgespanAdapterOverLimit", []string{
		node("adapter_limit_dropped_packets_total", `adapter="a/0", limit="dns"`, "_x5 9+0x10 stale _x5 9+5x25 stale _x60")},
		36 * minute, 38 * minute, 55 * minute},
	{"EdgespanOperationsFailing", []string{node("reconcile_failing_ops", "", was0)}, 15 * minute, 17 * minute, 38 * minute},
	{"EdgespanDrift", []string{node("reconcile_drift_repairs_total", `kind="rule"`, "0+0x10 1+1x19 20+0x80"),
		node("reconcile_drift_repairs_total", `kind="chain"`, "0+0x10 1+1x19 20+0x80")}, 13 * minute, 20 * minute, 45 * minute},
	{"EdgespanActorRestarting", []string{node("actor_restarts_total", `actor="applier"`, "0+0x10 1+1x4 5+0x80")},
		11 * minute, 15 * minute, 35 * minute},
	{"EdgespanHelperMemory", []string{node("helper_processes", `program="dnsmasq"`, "2+0x100"),
		node("helper_resident_memory_bytes", `program="dnsmasq"`, "6e6+0x5 120e6+0x30 6e6+0x60")},
		20 * minute, 22 * minute, 38 * minute},

	{"EdgespanControllerDown", []string{`up{job="edgespan-controller", instance="c1"} ` + was1}, 7 * minute, 9 * minute,
		38 * minute},
	{"EdgespanControllerNotReady", []string{ctl("controller_ready", "", was1)}, 10 * minute, 12 * minute, 38 * minute},
	{"EdgespanNodesOffline", []string{ctl("fleet_nodes", `state="InSync"`, "95+0x5 85+0x30 95+0x60"),
		ctl("fleet_nodes", `state="Offline"`, "5+0x5 15+0x30 5+0x60"), ctl("fleet_nodes", `state="NotJoined"`, "900+0x100")},
		15 * minute, 17 * minute, 38 * minute},
	{"EdgespanNodesRolledBack", []string{ctl("fleet_nodes", `state="RolledBack"`, "_x5 2+0x30 stale _x60")}, 5 * minute,
		8 * minute, 38 * minute},
	{"EdgespanNodesBlocked", []string{ctl("fleet_nodes", `state="ConfigError"`, "_x5 2+0x30 stale _x60")}, 19 * minute,
		22 * minute, 38 * minute},
	{"EdgespanPushesFailing", []string{ctl("push_results_total", `outcome="applied"`, "0+1x100"),
		ctl("push_results_total", `outcome="not stored"`, "0+0x5 1+1x20 21+0x80"),
		ctl("push_results_total", `outcome="accepted"`, "0+90x100")}, 5 * minute, 15 * minute, 45 * minute},
	{"EdgespanRolloutFailed", []string{ctl("rollout_state", `state="halted"`, was0),
		ctl("rollout_state", `state="running"`, was1)}, 6 * minute, 8 * minute, 38 * minute},
	{"EdgespanRolloutStuck", []string{ctl("rollout_state", `state="running"`, "1+0x80 0+0x60"),
		ctl("rollout_decision_timestamp_seconds", "", "0+0x140")}, 65 * minute, 70 * minute, 90 * minute},
	{"EdgespanAuditNotWritable", []string{ctl("audit_writable", "", was1)}, 6 * minute, 8 * minute, 38 * minute},
	{"EdgespanStoreNotWritable", []string{ctl("store_writable", "", was1)}, 6 * minute, 8 * minute, 38 * minute},
	{"EdgespanStoreNearlyFull", []string{ctl("store_nearly_full", "", was0)}, 10 * minute, 12 * minute, 38 * minute},
	{"EdgespanStoreSlow", []string{
		ctl("store_operation_duration_seconds_bucket", `operation="commit", le="0.1"`, "0+100x5 500+0x30 600+100x60"),
		ctl("store_operation_duration_seconds_bucket", `operation="commit", le="5"`, "0+100x100"),
		ctl("store_operation_duration_seconds_bucket", `operation="commit", le="+Inf"`, "0+100x100")},
		10 * minute, 20 * minute, 60 * minute},
	{"EdgespanConfigDBNotReady", []string{ctl("configdb_ready", "", was1)}, 10 * minute, 12 * minute, 38 * minute},
	{"EdgespanRequestsFailing", []string{ctl("rest_requests_total", `api="fleet", code="200"`, "0+10x100"),
		ctl("rest_requests_total", `api="fleet", code="503"`, "0+0x5 1+1x20 21+0x80"),
		ctl("rest_requests_total", `api="fleet", code="404"`, "0+90x5 450+0x100")}, 8 * minute, 20 * minute, 45 * minute},
}

// TestEachAlertFiresAndClearsInTime lets Prometheus evaluate each alert over its story, with its real times. No other
// alert fires in it.
func TestEachAlertFiresAndClearsInTime(t *testing.T) {
	path, err := filepath.Abs("prometheus/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type expectation struct {
		Expr    string           `yaml:"expr"`
		At      string           `yaml:"eval_time"`
		Samples []map[string]any `yaml:"exp_samples"`
	}
	type check struct {
		Interval string              `yaml:"interval"`
		Name     string              `yaml:"name"`
		Series   []map[string]string `yaml:"input_series"`
		Checks   []expectation       `yaml:"promql_expr_test"`
	}
	var checks []check
	covered := map[string]int{}
	for _, s := range stories {
		covered[s.alert]++
		c := check{Interval: "1m", Name: s.alert}
		for _, text := range s.series {
			i := strings.LastIndex(text, "} ") + 1
			c.Series = append(c.Series, map[string]string{"series": text[:i], "values": strings.TrimSpace(text[i:])})
		}
		const firing = `count by (alertname) (ALERTS{alertstate="firing"})`
		for at, fires := range map[time.Duration]bool{s.quiet: false, s.fires: true, s.clears: false} {
			e := expectation{Expr: firing, At: at.String()}
			if fires {
				e.Samples = []map[string]any{{"labels": fmt.Sprintf("{alertname=%q}", s.alert), "value": 1}}
			}
			c.Checks = append(c.Checks, e)
		}
		checks = append(checks, c)
	}
	for _, name := range rules(t) {
		if covered[name] != 1 {
			t.Errorf("%s has %d stories", name, covered[name])
		}
	}
	if len(covered) != len(rules(t)) {
		t.Errorf("%d stories for %d alerts", len(covered), len(rules(t)))
	}
	text, err := yaml.Marshal(map[string]any{"rule_files": []string{path}, "evaluation_interval": "1m", "tests": checks})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "stories.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "test", "rules", file)
}
