package fleetapi

import (
	"fmt"
	"strings"
	"testing"

	"edgespan/config/httpapi/rest"
)

// The number of names in a query is limited, and a repeated name counts once.
func TestAQueryNamesAFew(t *testing.T) {
	t.Parallel()
	names := func(n int) string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprint("x", i)
		}
		return strings.Join(out, ",")
	}
	for _, c := range []struct {
		method, target string
		status         int
	}{
		{"GET", "layers/base?versions=" + names(64), 200},
		{"GET", "layers/base?versions=" + names(65), 400},
		{"GET", "layers/hardware?boards=" + names(65), 400},
		{"GET", "config?paths=" + names(64), 200},
		{"GET", "config?paths=" + names(65), 400},
		{"GET", "config?paths=a&nodes=" + names(5000), 200}, // as many as exist
		{"GET", "nodes/n1/config?paths=" + names(65), 400},
		{"DELETE", "layers/network?paths=" + names(1000), 200},
		{"DELETE", "layers/network?paths=" + names(1001), 400},
	} {
		f := &fake{}
		if w := ask(Handler(f, WithTokens(fakeHash)),
			asked{method: c.method, target: Prefix + c.target, token: "t-admin"}); w.Code != c.status {
			t.Errorf("%s %.60s: %d %.200s", c.method, c.target, w.Code, w.Body)
		}
	}
	f := &fake{}
	if w := ask(Handler(f, WithTokens(fakeHash)), asked{method: "GET",
		target: Prefix + "config?paths=" + strings.Repeat("*,", 1000) + "*", token: "t-viewer"}); w.Code != 200 {
		t.Errorf("one path a thousand times: %d %.200s", w.Code, w.Body)
	}
	if got := f.taken(); !strings.Contains(got, "Paths:[[*]]") {
		t.Errorf("asked: %s", got)
	}
}

// A body is refused for the number of its values before they take memory.
func TestABodyHasABoundedNumberOfValues(t *testing.T) {
	t.Parallel()
	list := func(n int) string { return `{"a":[` + strings.Repeat("0,", n) + `0]}` }
	text := `{"a":"` + strings.Repeat(`,{[\"`, 200_000) + `"}`
	for _, c := range []struct {
		name, target, kind, body string
		status                   int
	}{
		{"few", "layers/network", "application/json", list(maxValues - 10), 200},
		{"many", "layers/network", "application/json", list(maxValues), 413},
		{"a text is one", "layers/network", "application/json", text, 200},
		{"a topology", "topology", "application/json", list(maxValues), 200},
		{"too much of a topology", "topology", "application/json", list(maxWholeValues), 413},
		{"yaml", "layers/network", "application/yaml", "a:\n" + strings.Repeat("- 0\n", 1000), 200},
		{"much yaml", "layers/network", "application/yaml", "a:\n" + strings.Repeat("- 0\n", maxValues), 413},
		{"long yaml", "layers/network", "application/yaml", "a: " + strings.Repeat("x", maxYAML), 413},
	} {
		w := ask(Handler(&fake{}, WithTokens(fakeHash)), asked{
			method: "PUT", target: Prefix + c.target, token: "t-admin", body: c.body,
			header: map[string]string{"Content-Type": c.kind},
		})
		if w.Code != c.status {
			t.Errorf("%s: %d %.200s", c.name, w.Code, w.Body)
		}
	}
}

// A problem lists a readable number of faults, and their total.
func TestAProblemListsAFew(t *testing.T) {
	t.Parallel()
	nodes := make([]string, 3000)
	for _, c := range []struct{ faults, nodes, want int }{{1, 3000, 1}, {1000, 0, 1000}, {1001, 0, 1000},
		{100, 3000, 16}} {
		faults := make([]ProblemFault, c.faults)
		for i := range faults {
			faults[i].Nodes = nodes[:c.nodes]
		}
		p := faultsProblem(rest.TypeRejected, "refused", faults)
		shown, _ := p.Errors.([]ProblemFault)
		if len(shown) != c.want || c.faults > 1 && !strings.Contains(p.Detail, fmt.Sprintf("%d faults", c.faults)) {
			t.Errorf("%+v: %d, %s", c, len(shown), p.Detail)
		}
	}
}
