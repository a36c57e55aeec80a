package scenario

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"edgespan/platform/lab"
)

// metricsAt is where the daemons of these tests serve metrics, on every address of the node.
const metricsAt = "EDGESPAN_METRICS=0.0.0.0:9273"

// metric returns the value of a series by its name and labels, as they are written, and -1 if it is not there.
func metric(t *testing.T, text, series string) float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(strings.TrimSpace(text) + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	for _, m := range families[name].GetMetric() {
		var all []string
		for _, l := range m.GetLabel() {
			all = append(all, l.GetName()+"="+l.GetValue())
		}
		if strings.Join(all, ",") == labels {
			return math.Max(m.GetCounter().GetValue(), m.GetGauge().GetValue())
		}
	}
	return -1
}

// As an operator I see in Prometheus what my apps send, and what my rules do with it; the apps themselves don't.
func TestMetricsCountWhatIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	nets := []string{network(1, "")}
	const rules = "open: {action: allow, match: {protocol: udp, port: 2000}}, " +
		"shut: {action: drop, match: {protocol: udp, port: 2001}}"
	w.start(doc(nets, onNet(1, 1, "web", rules)), metricsAt)
	w.wait("ready", "app/"+app(1))
	w.lease("web")
	id := app(1) + "/0"
	sent, sentBytes := "edgespan_adapter_transmit_packets_total{adapter="+id, "edgespan_adapter_transmit_bytes_total{adapter="+id
	before := w.cli("metrics")
	w.sendUDP(lab.WebAddr, 2000, 3000, 300)
	w.sendUDP(lab.WebAddr, 2001, 4000, 200)
	w.sendUDP(lab.WebAddr, 2002, 5000, 100)

	var after string
	w.eventuallyIn(time.Minute, "the hits of rules are scraped", func() bool {
		after = w.cli("metrics")
		return metric(t, after, "edgespan_adapter_denied_packets_total{adapter="+id+",direction=egress") == 100
	})
	for series, want := range map[string]float64{
		"edgespan_rule_packets_total{adapter=" + id + ",rule=open":                           300,
		"edgespan_rule_bytes_total{adapter=" + id + ",rule=open":                             300 * 29,
		"edgespan_rule_packets_total{adapter=" + id + ",rule=shut":                           200,
		"edgespan_network_present{network=" + ni(1):                                          1,
		"edgespan_adapter_active{adapter=" + id:                                              1,
		"edgespan_node_ready":                                                                1,
		"edgespan_helper_processes{program=dnsmasq":                                          1,
		"edgespan_reconcile_failing_ops":                                                     0,
		"edgespan_adapter_transmit_errors_total{adapter=" + id:                               0,
		"edgespan_metrics_left_out_series":                                                   0,
		"edgespan_adapter_info{adapter=" + id + ",app=app1,interface=es1a1,network=" + ni(1): 1,
	} {
		if got := metric(t, after, series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	// Beside them an app sends some ARP and DHCP.
	if n := metric(t, after, sent) - metric(t, before, sent); n < 600 || n > 620 {
		t.Errorf("%v packets were counted, 600 were sent", n)
	}
	if n := metric(t, after, sentBytes) - metric(t, before, sentBytes); n < 600*43 || n > 600*43+20*400 {
		t.Errorf("%v bytes were counted, 600 frames of 43 were sent", n)
	}
	if n := metric(t, after, "edgespan_helper_resident_memory_bytes{program=dnsmasq"); n < 1e5 || n > 1e8 {
		t.Errorf("dnsmasq has %v bytes", n)
	}
	if faults, err := promlint.New(strings.NewReader(after)).Lint(); err != nil || len(faults) > 0 {
		t.Errorf("promlint: %v, %v", faults, err)
	}

	const get = "curl -sS --max-time 3 http://"
	if out := w.in("node", strings.Fields(get+"127.0.0.1:9273/metrics")...); metric(t, out, "edgespan_node_ready") != 1 {
		t.Errorf("the listener answers %s", out)
	}
	w.fails("web", strings.Fields(get+gatewayOf(t, w, "web")+":9273/metrics")...)

	w.obey(nets)
	w.eventually("the series of an app that is gone are gone", func() bool {
		return !strings.Contains(w.cli("metrics"), app(1))
	})
}

// gatewayOf returns the node's address on an app's network.
func gatewayOf(t *testing.T, w *world, app string) string {
	t.Helper()
	words := strings.Fields(w.in(app, "ip", "-4", "route", "show", "default"))
	if len(words) < 3 {
		t.Fatalf("no default route: %v", words)
	}
	return words[2]
}

// As an operator I am told why the daemon does not serve its metrics, and it works nevertheless.
func TestMetricsComeOnceTheAddressIsFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	blocked := make(chan struct{})
	go func() {
		defer close(blocked)
		_, _ = w.Exec(ctx, "node", "python3", "-c",
			"import socket,time; s=socket.socket(); s.bind(('127.0.0.1',9273)); s.listen(); time.sleep(60)")
	}()
	w.eventually("the address is taken", func() bool {
		return strings.Contains(w.in("node", "ss", "-ltn"), ":9273")
	})
	w.start(doc([]string{network(1, "")}), "EDGESPAN_METRICS=9273")
	w.wait("ready", "ni/"+ni(1))
	w.eventually("the log says so", func() bool {
		log, err := os.ReadFile(w.NodeLog())
		return err == nil && strings.Contains(string(log), "metrics are not served")
	})
	cancel()
	<-blocked
	w.eventually("metrics are served", func() bool {
		r, err := w.Exec(w.ctx, "node", "curl", "-sS", "--max-time", "3", "http://127.0.0.1:9273/metrics")
		return err == nil && r.Code == 0 && metric(t, r.Out, "edgespan_node_ready") == 1
	})
}
