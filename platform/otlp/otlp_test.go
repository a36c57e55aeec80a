package otlp

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"edgespan/pubsub/trace"
)

// collector is a receiver of OTLP over HTTP.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*collectorpb.ExportTraceServiceRequest
	headers  http.Header
	answers  []int // of the next requests; then 200
	hang     chan struct{}
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	hang := c.hang
	c.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
		return
	}
	var m collectorpb.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &m); err != nil || r.URL.Path != tracesPath ||
		r.Header.Get("Content-Type") != "application/x-protobuf" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.headers = r.Header
	if len(c.answers) > 0 {
		w.WriteHeader(c.answers[0])
		c.answers = c.answers[1:]
		return
	}
	c.requests = append(c.requests, &m)
}

func (c *collector) spans() (out []*tracepb.Span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.requests {
		for _, r := range m.GetResourceSpans() {
			for _, s := range r.GetScopeSpans() {
				out = append(out, s.GetSpans()...)
			}
		}
	}
	return out
}

func start(t *testing.T, url string, env map[string]string, log *zap.Logger) *Exporter {
	t.Helper()
	c, err := Configure(Options{Endpoint: url}, func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	e, err := Start(c, Resource{"edgespan", "1.2.3", "node-1"}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(e) })
	return e
}

// end closes an exporter at once if it has nothing to send.
func end(e *Exporter) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	e.Close(ctx)
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func TestACollectorReadsWhatIsSent(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	e := start(t, c.URL, map[string]string{envHeaders: "authorization=Bearer%20x, x-tenant=a"}, zap.NewNop())
	tr := trace.New(e, 1)
	top := tr.Start(trace.Context{}, "top", trace.Server)
	op := tr.Below(top.Context(), "op", trace.Internal)
	for range trace.MaxAttrs + 2 {
		op.Set("id", "link es1")
	}
	op.Fail("no such device")
	op.End()
	top.End()
	end(e)
	got := c.spans()
	if len(got) != 2 {
		t.Fatalf("%d spans", len(got))
	}
	o, p := got[0], got[1]
	if string(o.GetTraceId()) != string(p.GetTraceId()) || string(o.GetParentSpanId()) != string(p.GetSpanId()) ||
		len(p.GetParentSpanId()) != 0 || p.GetKind() != tracepb.Span_SPAN_KIND_SERVER || o.GetName() != "op" ||
		o.GetAttributes()[0].GetKey() != "id" || o.GetAttributes()[0].GetValue().GetStringValue() != "link es1" ||
		len(o.GetAttributes()) != trace.MaxAttrs || o.GetDroppedAttributesCount() != 2 || o.GetFlags() != 1 ||
		o.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_ERROR || o.GetStatus().GetMessage() != "no such device" ||
		p.GetStatus() != nil {
		t.Errorf("op %v\ntop %v", o, p)
	}
	began, over := time.Unix(0, int64(p.GetStartTimeUnixNano())), time.Unix(0, int64(p.GetEndTimeUnixNano()))
	if over.Before(began) || time.Since(began) > time.Hour {
		t.Errorf("from %v to %v", began, over)
	}
	r := c.requests[0].GetResourceSpans()[0]
	attrs := r.GetResource().GetAttributes()
	if len(attrs) != 3 || attrs[0].GetKey() != "service.name" || attrs[0].GetValue().GetStringValue() != "edgespan" ||
		r.GetScopeSpans()[0].GetScope().GetVersion() != "1.2.3" {
		t.Errorf("the resource is %v", r.GetResource())
	}
	if c.headers.Get("Authorization") != "Bearer x" || c.headers.Get("X-Tenant") != "a" {
		t.Errorf("the headers are %v", c.headers)
	}
	if sent, dropped := e.Counts(); sent != 2 || dropped != 0 {
		t.Errorf("%d sent, %d dropped", sent, dropped)
	}
}

func TestABusyCollectorIsAskedAgainAndARefusalIsNot(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	c.answers = []int{http.StatusServiceUnavailable, http.StatusTooManyRequests}
	core, lines := observer.New(zap.InfoLevel)
	e := start(t, c.URL, nil, zap.New(core))
	e.Export(&trace.Record{Name: "a"})
	eventually(t, "a busy collector got nothing in the end", func() bool { return len(c.spans()) == 1 })
	c.mu.Lock()
	c.answers = []int{http.StatusBadRequest}
	c.mu.Unlock()
	e.Export(&trace.Record{Name: "b"})
	eventually(t, "a refused batch is not dropped", func() bool { _, dropped := e.Counts(); return dropped == 1 })
	e.Export(&trace.Record{Name: "c"})
	eventually(t, "nothing is sent after a refusal", func() bool { return len(c.spans()) == 2 })
	eventually(t, "the log has no two lines", func() bool { return lines.Len() == 2 })
}

// A collector that hangs costs a bounded queue and no time of those who end spans.
func TestACollectorThatHangsHarmsNothing(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	c.hang = make(chan struct{})
	e := start(t, c.URL, nil, zap.NewNop())
	tr := trace.New(e, 1)
	const all = 3 * queueLimit
	for range all {
		s := tr.Start(trace.Context{}, "op", trace.Internal)
		s.End()
	}
	if _, dropped := e.Counts(); dropped < all-queueLimit-batchLimit {
		t.Errorf("of %d spans %d are dropped", all, dropped)
	}
	now, cancel := context.WithCancel(context.Background())
	cancel()
	e.Close(now) // returns although the collector hangs
	if sent, _ := e.Counts(); sent != 0 {
		t.Errorf("%d spans were sent", sent)
	}
}

func TestASpanIsDroppedWithoutACollector(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	c.Close()
	core, lines := observer.New(zap.InfoLevel)
	e := start(t, c.URL+"/v1/traces?token=hidden", nil, zap.New(core))
	e.send([]*trace.Record{{Name: "a"}})
	if _, dropped := e.Counts(); dropped != 1 {
		t.Errorf("%d dropped", dropped)
	}
	for _, l := range lines.All() {
		if text := l.Message + l.ContextMap()["error"].(string); strings.Contains(text, "hidden") {
			t.Errorf("the log has a secret: %s", text)
		}
	}
}

func TestOffStartsNoGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	c, err := Configure(Options{}, func(string) string { return "" })
	if err != nil || c.Endpoint != "" || runtime.NumGoroutine() != before {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestTheEndpointComesFromFlagsAndThenFromTheEnvironment(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		o    Options
		env  map[string]string
		want string
		err  string
	}{
		{o: Options{Endpoint: "http://c:4318"}, want: "http://c:4318/v1/traces"},
		{o: Options{Endpoint: "https://c/otlp/x?a=b"}, want: "https://c/otlp/x?a=b"},
		{o: Options{Endpoint: "http://c"}, env: map[string]string{envTraces: "http://d"}, want: "http://c/v1/traces"},
		{env: map[string]string{envBase: "http://d:4318/base/"}, want: "http://d:4318/base/v1/traces"},
		{env: map[string]string{envBase: "http://d:4318", envTraces: "http://e/t"}, want: "http://e/t"},
		{o: Options{Endpoint: "c:4318"}, err: "--trace-endpoint: invalid URL: must be http"},
		{o: Options{Endpoint: "ftp://u:secret@c"}, err: "--trace-endpoint"},
		{env: map[string]string{envBase: "x"}, err: envBase},
		{o: Options{Ratio: "2"}, err: "--trace-ratio: invalid value \"2\": must be 0 to 1"},
		{o: Options{Ratio: "NaN"}, err: "--trace-ratio"},
		{o: Options{Endpoint: "http://c"}, env: map[string]string{envHeaders: "a"}, err: envHeaders},
		{o: Options{Endpoint: "http://c"}, env: map[string]string{envHeaders: "a=b%0d%0ac:d"}, err: envHeaders},
		{o: Options{Endpoint: "http://c"}, env: map[string]string{envHeaders: "a b=c"}, err: envHeaders},
	} {
		c, err := Configure(one.o, func(name string) string { return one.env[name] })
		switch {
		case one.err == "" && (err != nil || c.Endpoint != one.want || c.Ratio != 1):
			t.Errorf("%+v %v is %+v, %v", one.o, one.env, c, err)
		case one.err != "" && (err == nil || !strings.Contains(err.Error(), one.err) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%+v %v: %v, want %s", one.o, one.env, err, one.err)
		}
	}
	bad := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bad, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(Config{Endpoint: "https://c", CA: bad}, Resource{}, zap.NewNop()); err == nil ||
		!strings.Contains(err.Error(), "--trace-ca") {
		t.Errorf("a CA file without a certificate: %v", err)
	}
}
