package ops

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"edgespan/config"
)

// What is read of many nodes comes in pages of so many nodes, and is never larger than one answer may be.
func TestPathsOfManyNodesComeInPages(t *testing.T) {
	names := []string{"n1", "n2", "n3", "n4", "n5"}
	b := newBench(t, names...)
	large := strings.Repeat("x", 200<<10)
	own := config.Object{}
	for _, name := range names[:4] {
		own[name] = config.Object{"envParams": config.Object{"A": name}}
	}
	b.do(SetNodes{Overrides: own})
	for _, c := range []struct {
		q    PathsQuery
		want string // nodes with something, then where it goes on
	}{
		{PathsQuery{}, "n1 n2 n3 n4, "},
		{PathsQuery{Limit: 2}, "n1 n2, n2"},
		{PathsQuery{Limit: 2, After: "n2"}, "n3 n4, n4"},
		{PathsQuery{Limit: 2, After: "n4"}, ", "},
		{PathsQuery{Limit: 2, After: "n9"}, ", "},
		{PathsQuery{Limit: 5}, "n1 n2 n3 n4, "},
		{PathsQuery{After: "n3"}, "n4, "},
		{PathsQuery{Nodes: []string{"n4", "n2", "n4", "n1"}, Limit: 2}, "n1 n2, n2"},
		{PathsQuery{Nodes: []string{"n4", "n2", "n4", "n1"}, Limit: 2, After: "n2"}, "n4, "},
	} {
		c.q.Paths = paths(t, "envParams.A")
		d, err := b.Paths(c.q)
		if got := strings.Join(config.Keys(d.Object), " ") + ", " + d.Next; err != nil || got != c.want {
			t.Errorf("%+v: %s, want %s, %v", c.q, got, c.want, err)
		}
	}
	var many []string
	for i := range 120 {
		many = append(many, fmt.Sprintf("m%02d", i))
	}
	b = newBench(t, many...)
	b.do(SetNetwork{Overrides: config.Object{"envParams": config.Object{"A": large}}})
	if _, err := b.Paths(PathsQuery{Paths: paths(t, "envParams")}); !errors.As(err, new(*TooLargeError)) {
		t.Errorf("24 MB at once: %v", err)
	}
	seen, after := 0, ""
	for pages := 1; ; pages++ {
		d, err := b.Paths(PathsQuery{Paths: paths(t, "envParams"), Limit: 1000, After: after})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(config.AppendCanonical(nil, d.Object)); n > MaxAnswer+100<<10 {
			t.Errorf("a page of %d bytes", n)
		}
		if seen += len(d.Object); d.Next == "" {
			if pages != 2 || seen != len(many) {
				t.Errorf("%d nodes in %d pages", seen, pages)
			}
			break
		}
		after = d.Next
	}
}
