package fleetapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"edgespan/config"
	"edgespan/config/fleet/ops"
)

// large is a fake with 25 nodes, and a rollout that waits for more nodes than a list names.
type large struct{ *fake }

func (l *large) Nodes(ctx context.Context) ([]Node, error) {
	var out []Node
	for i := range 25 {
		out = append(out, Node{Name: fmt.Sprintf("n%02d", i)})
	}
	return out, l.note("Nodes")
}

func (l *large) Rollouts(context.Context) ([]Rollout, error) {
	waiting := map[string]string{}
	for i := range maxNamed + 20 {
		waiting[fmt.Sprintf("n%03d", i)] = "it is offline"
	}
	return []Rollout{{Revision: 3, Waiting: waiting}}, nil
}

func (l *large) History(_ context.Context, q HistoryQuery) ([]Edition, error) {
	newest := uint64(1130)
	if q.Before > 0 {
		newest = q.Before - 1
	}
	var out []Edition
	for n := newest; n > 0 && len(out) < q.Limit; n-- {
		out = append(out, Edition{Number: n})
	}
	return out, l.note("History %d %d", q.Before, q.Limit)
}

func (l *large) Paths(_ context.Context, q ops.PathsQuery) (ops.DocumentAnswer, error) {
	if err := l.note("Paths %s %d", q.After, q.Limit); err != nil || q.Limit == 0 {
		return ops.DocumentAnswer{}, &ops.TooLargeError{}
	}
	switch q.After {
	case "":
		return ops.DocumentAnswer{Object: config.Object{"n1": config.Object{"a": "1"}}, Revision: 4, Next: "n 1&"}, nil
	case "n 1&":
		return ops.DocumentAnswer{Object: config.Object{"n2": config.Object{"a": "2"}}, Revision: 3}, nil
	}
	return ops.DocumentAnswer{}, fmt.Errorf("after %q", q.After)
}

func (l *large) serve(t *testing.T) (*httptest.Server, *Client) {
	t.Helper()
	s := httptest.NewServer(Handler(l, WithTokens(fakeHash)))
	t.Cleanup(s.Close)
	c, err := NewClient(Options{URL: s.URL, Token: "t-viewer"})
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

// Lists are answered in pages, each of which has the query for the next one.
func TestListsComeInPages(t *testing.T) {
	l := &large{&fake{}}
	s, c := l.serve(t)
	for _, p := range []struct{ ask, names, link string }{
		{"nodes", "25 n00 n24", ""},
		{"nodes?limit=10", "10 n00 n09", `</api/v1/fleet/nodes?after=n09&limit=10>; rel="next"`},
		{"nodes?after=n09&limit=10", "10 n10 n19", `</api/v1/fleet/nodes?after=n19&limit=10>; rel="next"`},
		{"nodes?after=n14&limit=10", "10 n15 n24", ""},
		{"nodes?after=n19x", "5 n20 n24", ""},
		{"nodes?after=z&limit=3", "0", ""},
		{"nodes?limit=0", "25 n00 n24", ""},
		{"nodes?limit=99999999999", "25 n00 n24", ""},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+Prefix+p.ask, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer t-viewer")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var nodes []Node
		err = json.NewDecoder(resp.Body).Decode(&nodes)
		if resp.Body.Close(); err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(len(nodes))
		if n := len(nodes); n > 0 {
			got += " " + nodes[0].Name + " " + nodes[n-1].Name
		}
		if link := resp.Header.Get("Link"); got != p.names || link != p.link {
			t.Errorf("%s: %s, link %s, want %s, %s", p.ask, got, link, p.names, p.link)
		}
	}
	q := map[string][]string{"limit": {"10"}}
	all, err := listAll[Node](t.Context(), c, route("nodes"), q, 0)
	if err != nil || len(all) != 25 ||
		!slices.IsSortedFunc(all, func(a, b Node) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("%d nodes in pages of 10: %v", len(all), err)
	}
}

// The command line's client follows pages by itself: for a history of the requested length, and for configs that are
// too large for one answer.
func TestTheClientFollowsPages(t *testing.T) {
	l := &large{&fake{}}
	_, c := l.serve(t)
	es, err := c.History(t.Context(), HistoryQuery{Limit: 1120})
	if err != nil || len(es) != 1120 || es[0].Number != 1130 || es[1119].Number != 11 {
		t.Errorf("a history of %d: %v; asked %s", len(es), err, l.taken())
	}
	l.taken()
	if es, err := c.History(t.Context(), HistoryQuery{Limit: 50}); err != nil || len(es) != 50 ||
		l.taken() != "History 0 50" {
		t.Errorf("a history of %d: %v", len(es), err)
	}
	d, err := c.Paths(t.Context(), ops.PathsQuery{Paths: [][]string{{"a"}}})
	if want := `{"n1": {"a": "1"},"n2": {"a": "2"}}`; err != nil || config.OneLine(d.Object) != want {
		t.Errorf("%s, %v; asked %s", config.OneLine(d.Object), err, l.taken())
	}
}

// No server can keep a client requesting pages forever.
func TestPagesWithoutAnEndAreNotRead(t *testing.T) {
	for want, next := range map[string]func(n int) string{
		"circle":               func(int) string { return "after=x" },
		"more than 1000 pages": func(n int) string { return fmt.Sprintf("after=%d", n) },
	} {
		asked := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			w.Header().Set("Link", fmt.Sprintf(`</elsewhere?%s>; rel="next"`, next(asked)))
			_, _ = w.Write([]byte("[]"))
		}))
		defer s.Close()
		c, err := NewClient(Options{URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Nodes(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A list of rollouts names some of the nodes that it counts; one rollout names all.
func TestAListOfRolloutsIsBounded(t *testing.T) {
	l := &large{&fake{}}
	_, c := l.serve(t)
	all, err := c.Rollouts(t.Context())
	if err != nil || len(all) != 1 || len(all[0].Waiting) != maxNamed || all[0].WaitingNodes != maxNamed+20 {
		t.Errorf("%v, %v", all, err)
	}
	one, err := c.Rollout(t.Context(), 3)
	if err != nil || len(one.Waiting) != maxNamed+20 || one.WaitingNodes != maxNamed+20 {
		t.Errorf("%d named, %d counted, %v", len(one.Waiting), one.WaitingNodes, err)
	}
}
