package configdbapi

import (
	"context"
	"testing"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
)

// All backend calls of one request share one meter: the cost of two reads adds up.
func TestARequestHasOneMeter(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	h := Handler(r, door{})
	for _, q := range []asked{
		{method: "POST", target: "components", body: `{"name":"c","resource_definitions":[{"name":"r"}]}`},
		{method: "POST", target: "environments", body: `{"components":["c"],"hierarchy_levels":["nodes"]}`},
		{method: "PUT", target: "environments/1/resources/1/values", body: `{"a":1}`},
		{method: "PUT", target: "environments/1/resources/1/values", body: `{"a":2}`},
	} {
		if w := ask(h, q); w.Code >= 300 {
			t.Fatal(w.Code, w.Body)
		}
	}
	used := func(target string) (looked int) {
		var meter *configdb.Meter
		h := Handler(metering{r, func(ctx context.Context) { meter = Meter(ctx) }}, door{})
		if w := ask(h, asked{method: "GET", target: target}); w.Code != 200 {
			t.Fatal(w.Code, w.Body)
		}
		_, looked = meter.Used()
		return looked
	}
	one, diff := used("environments/1/resources/1/values"), used("environments/1/resources/1/values/diff?from=1&to=2")
	if one == 0 || diff <= 2*one {
		t.Errorf("a read looks at %d bytes, and a difference of two at %d", one, diff)
	}
	if _, looked := Meter(t.Context()).Used(); looked != 0 {
		t.Error("a context of no request has a meter that was used")
	}
}

// metering records the context of each call.
type metering struct {
	Backend
	hear func(context.Context)
}

func (m metering) Answer(ctx context.Context, q model.Query, known []string) (model.Answer, error) {
	m.hear(ctx)
	return m.Backend.Answer(ctx, q, known)
}
