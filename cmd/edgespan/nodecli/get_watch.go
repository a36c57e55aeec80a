package nodecli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"edgespan/cmd/term"
	"edgespan/config/httpapi/nodeapi"
)

// follow reads a stream until an interrupt, which is no error.
func (a commands) follow(ctx context.Context, f func(context.Context, *nodeapi.Client) error) error {
	c := a.Client()
	defer c.Close()
	err := f(ctx, c)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// getWatch prints the present objects, then a line for each change.
func (a commands) getWatch(ctx context.Context, kind, id, output string) error {
	t := resourceTable(kind, nil, output == "wide")
	l := a.NewLive(output, append([]string{"CHANGE"}, t.Head...), nil)
	var first []nodeapi.Resource // until all present objects have arrived: they set the column widths
	known := false
	tell := func(s nodeapi.Observed, change string) error {
		row := resourceTable(kind, []nodeapi.Resource{*s.Object}, output == "wide").Rows[0]
		return l.Print(s, kind+"/"+s.Object.ID, append([]string{change}, row...))
	}
	return a.follow(ctx, func(ctx context.Context, c *nodeapi.Client) error {
		id, err := watched(ctx, c, kind, id)
		if err != nil {
			return err
		}
		return c.Watch(ctx, []string{kind}, func(s nodeapi.Observed) error {
			switch {
			case s.Change == nodeapi.Synchronized:
				known = true
				l.Width = append([]int{len(nodeapi.Modified)}, widths(resourceTable(kind, first, output == "wide"))...)
				for _, r := range first {
					if err := tell(nodeapi.Observed{Time: s.Time, Change: nodeapi.Added, Object: &r}, "-"); err != nil {
						return err
					}
				}
				return nil
			case id != "" && !strings.EqualFold(s.Object.ID, id):
				return nil
			case !known:
				first = append(first, *s.Object)
				return nil
			}
			return tell(s, s.Change)
		})
	})
}

// widths returns the widths of all columns but the last, with room for later values.
func widths(t *term.Table) []int {
	var out []int
	for i := range t.Head[:len(t.Head)-1] {
		n := utf8.RuneCountInString(t.Head[i])
		if t.Head[i] == "STATE" {
			n = len("WaitingForDependencies") // the longest state
		}
		for _, row := range t.Rows {
			n = max(n, utf8.RuneCountInString(row[i]))
		}
		out = append(out, n)
	}
	return out
}

// changesOf lists which fields of a status changed, the state first, the error last.
func changesOf(old, now nodeapi.Resource) (what, failure string) {
	before, _ := old.Status.(map[string]any)
	after, _ := now.Status.(map[string]any)
	var parts []string
	for _, k := range sortedKeys(before, after) {
		if _, list := after[k].([]any); k == "error" || list && k == "adapters" {
			continue
		}
		if b, a := text(before[k]), text(after[k]); b != a {
			part := k + " " + term.Dash(b) + " -> " + term.Dash(a)
			if k == "state" || k == "pending" {
				parts = append([]string{part}, parts...)
			} else {
				parts = append(parts, part)
			}
		}
	}
	if text(old.Spec) != text(now.Spec) {
		parts = append(parts, "spec changed")
	}
	return strings.Join(parts, ", "), nodeapi.As(now.Status, common{}).Error
}

func sortedKeys(maps ...map[string]any) []string {
	var out []string
	for _, m := range maps {
		for k := range m {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// text formats a value of a status.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64: // JSON has no other number; all of these are integers
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = text(e)
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(v)
}
