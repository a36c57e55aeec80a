package scenario

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// tracesAt is where the collector of these tests listens, on the controller's machine.
const tracesAt = "http://192.0.2.1:4318"

// traceCollector is an OpenTelemetry collector: OTLP over HTTP.
type traceCollector struct {
	mu    sync.Mutex
	spans []serviceSpan
	hang  bool // requests get no answer
	asked int  // requests that got none
}

// serviceSpan is a span and the program that sent it.
type serviceSpan struct {
	*tracepb.Span
	service string
}

func (s serviceSpan) attr(key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

func (w *world) collect() *traceCollector {
	w.Helper()
	c := &traceCollector{}
	s := &http.Server{Handler: c, ReadHeaderTimeout: time.Minute}
	if err := w.inside("isp", func() error {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", strings.TrimPrefix(tracesAt, "http://"))
		if err == nil {
			go func() { _ = s.Serve(l) }()
		}
		return err
	}); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { s.Close() })
	return c
}

func (c *traceCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	hangs := c.hang
	if hangs {
		c.asked++
	}
	c.mu.Unlock()
	if hangs {
		<-r.Context().Done()
		return
	}
	var m collectorpb.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &m); err != nil || r.URL.Path != "/v1/traces" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, res := range m.GetResourceSpans() {
		service := serviceSpan{Span: &tracepb.Span{Attributes: res.GetResource().GetAttributes()}}.attr("service.name")
		for _, scope := range res.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, serviceSpan{s, service})
			}
		}
	}
}

func (c *traceCollector) hangNow(hang bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hang = hang
}

func (c *traceCollector) asks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// path returns the programs and names of a span and its parents, from the first span of its trace.
func (c *traceCollector) path(s serviceSpan) string {
	out := s.service + ":" + s.GetName()
	for parent := string(s.GetParentSpanId()); parent != ""; {
		found := false
		for _, p := range c.spans {
			if string(p.GetSpanId()) == parent && string(p.GetTraceId()) == string(s.GetTraceId()) {
				out, parent, found = p.service+":"+p.GetName()+"/"+out, string(p.GetParentSpanId()), true
				break
			}
		}
		if !found {
			return "?/" + out
		}
	}
	return out
}

// having returns the spans with a path.
func (c *traceCollector) having(path string) (out []serviceSpan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := path[strings.LastIndex(path, ":")+1:]
	for _, s := range c.spans {
		if s.GetName() == name && c.path(s) == path {
			out = append(out, s)
		}
	}
	return out
}

// As an operator I see in one trace how a write at the API became ops on the host of a node. A collector that then
// hangs delays no other write.
func TestAWriteIsOneTrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	c := w.collect()
	o := w.open("lab", 8443, append([]string{"--trace-endpoint", tracesAt}, quick...)...)
	o.remember(o.line("CA sha256:"))
	if r := w.join(o.run("nodes", "invite", "edge-1").Out, "--state-dir", w.StateDir()); r.Code != 0 {
		t.Fatalf("join: %+v", r)
	}
	w.start("{}", "EDGESPAN_TRACE_ENDPOINT="+tracesAt)
	o.ok("network", "modify", "sysParams.managedConfig=true")
	o.is("edge-1", "InSync", func(n nodeSeen) bool { return n.Online })
	o.set("edge-1", doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)), "-m", "a first network")
	o.is("edge-1", "InSync", func(n nodeSeen) bool { return n.Ready })

	const (
		write   = "edgespan-controller:rest.write/edgespan-controller:store.commit"
		push    = write + "/edgespan-controller:push"
		applied = push + "/edgespan:node.apply"
		op      = applied + "/edgespan:reconcile/edgespan:op"
		confirm = push + "/edgespan-controller:confirm"
		settled = applied + "/edgespan:node.confirm"
	)
	w.eventuallyIn(time.Minute, "a trace has the ops of the node", func() bool {
		return len(c.having(op)) > 0 && len(c.having(confirm)) > 0 && len(c.having(settled)) > 0
	})
	trace := map[string]string{} // the trace of the write, by what a span of it is about
	for _, s := range c.having(op) {
		trace[s.attr("edgespan.op")] = hex.EncodeToString(s.GetTraceId())
		if s.GetStatus() != nil || s.attr("edgespan.objects") == "" {
			t.Errorf("an op is %v", s)
		}
	}
	id := trace["add link"]
	for _, kind := range []string{"add address", "add process", "add file"} {
		if trace[kind] == "" || trace[kind] != id {
			t.Errorf("the ops are in the traces %v", trace)
		}
	}
	for _, path := range []string{write, push, applied, applied + "/edgespan:node.validate", settled, confirm} {
		w.eventuallyIn(time.Minute, "trace "+id+" has "+path, func() bool {
			return slices.ContainsFunc(c.having(path), func(s serviceSpan) bool { return hex.EncodeToString(s.GetTraceId()) == id })
		})
	}
	if lines, err := os.ReadFile(filepath.Join(o.dir, "audit-admins.log")); !strings.Contains(string(lines), id) {
		t.Errorf("no line of the audit log has trace %s: %v\n%s", id, err, lines)
	}
	if node, err := os.ReadFile(w.NodeLog()); err != nil || !strings.Contains(string(node), `"trace_id":"`+id+`"`) {
		t.Errorf("no line of the node's log has trace %s: %v", id, err)
	}

	c.hangNow(true)
	o.set("edge-1", doc([]string{network(1, ""), network(2, "")}, onNet(1, 1, "web", allowAll)), "-m", "a second one")
	o.is("edge-1", "InSync", func(n nodeSeen) bool { return n.Ready })
	w.wait("ready", "ni/"+ni(2))
	w.eventuallyIn(time.Minute, "both programs are waiting for the collector", func() bool { return c.asks() >= 2 })
}

// As an operator of one node I see an apply as a trace, too, and why it was refused.
func TestALocalApplyIsATrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "web")
	c := w.collect()
	w.start("{}", "OTEL_EXPORTER_OTLP_ENDPOINT="+tracesAt)
	w.apply(doc([]string{network(1, "")}, onNet(1, 1, "web", allowAll)))
	w.wait("ready", "app/"+app(1))
	w.eventuallyIn(time.Minute, "the trace of an apply has its ops", func() bool {
		return len(c.having("edgespan:local.apply/edgespan:node.apply/edgespan:reconcile/edgespan:op")) > 0
	})
	if err := os.WriteFile(w.ConfigFile()+".bad", []byte("networkInstances: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := w.CLI(w.ctx, "apply", "-f", w.ConfigFile()+".bad"); err != nil || r.Code != 4 {
		t.Errorf("a faulty config: %+v, %v", r, err)
	}
	w.eventuallyIn(time.Minute, "the trace of a refusal", func() bool {
		for _, s := range c.having("edgespan:local.apply/edgespan:node.validate") {
			if strings.Contains(s.GetStatus().GetMessage(), "networkInstances") {
				return true
			}
		}
		return false
	})
	if got := metric(t, w.cli("metrics"), "edgespan_trace_spans_total{result=sent}"); got < 5 {
		t.Errorf("%v spans are counted", got)
	}
}
