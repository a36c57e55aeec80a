package fleetapi

import (
	"testing"

	"edgespan/config/httpapi/rest"
	"edgespan/pubsub/trace"
)

// spans is a sink.
type spans []trace.Record

func (s *spans) Export(r *trace.Record) { *s = append(*s, *r) }

// A write has a span, which continues the trace of its caller; a read and a caller who is refused have none.
func TestOnlyACallThatIsPermittedAndNoReadHasASpan(t *testing.T) {
	var got spans
	var lines []rest.Entry
	h := Handler(&fake{}, WithTokens(fakeHash), rest.WithTracer(trace.New(&got, 1)),
		rest.WithAudit(func(e rest.Entry) { lines = append(lines, e) }))
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	with := map[string]string{"traceparent": parent}
	put := asked{method: "PUT", target: Prefix + "layers/network", body: "{}", token: "t-admin", header: with}
	if w := ask(h, put); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if len(got) != 1 || got[0].TraceID() != parent[3:35] || got[0].Name != "rest.write" ||
		trace.Parse(parent).Span != got[0].Parent || got[0].Failed || lines[0].Trace != parent[3:35] {
		t.Errorf("spans %+v, audit %+v", got, lines)
	}
	attrs := map[string]string{}
	for _, a := range got[0].Attrs {
		attrs[a.Key] = a.Value
	}
	if attrs["http.route"] == "" || attrs["http.request.method"] != "PUT" || attrs["http.response.status_code"] != "200" ||
		attrs["edgespan.caller"] != "admin-1" {
		t.Errorf("attributes %v", attrs)
	}
	for _, none := range []asked{
		{method: "GET", target: Prefix + "nodes", token: "t-viewer", header: with},
		{method: "PUT", target: Prefix + "layers/network", body: "{}", header: with},
		{method: "PUT", target: Prefix + "layers/network", body: "{}", token: "t-viewer", header: with},
	} {
		if ask(h, none); len(got) != 1 {
			t.Fatalf("%+v has a span", none)
		}
	}
	put.body, put.header = `5`, nil
	if ask(h, put); len(got) != 2 || !got[1].Failed || got[1].Parent != [8]byte{} {
		t.Errorf("a faulty write: %+v", got)
	}
}
