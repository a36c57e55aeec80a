package configdbcli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"edgespan/cmd/term"
	"edgespan/config/configdb"
)

// columnFlag defines --column, which selects what of an answer is printed, as the original's commands do.
func columnFlag(f *pflag.FlagSet, c *factsCall) {
	f.StringArrayVarP(&c.columns, "column", "c", nil, "show only this column, by its key in JSON; repeatable")
}

// columnsOf returns the members that --column names, of an object or of each object of a list, in the order of their
// keys.
func columnsOf(v configdb.JSON, columns []string) (configdb.JSON, error) {
	if len(columns) == 0 {
		return v, nil
	}
	if rows := v.Elements(); rows != nil {
		out := make([]string, len(rows))
		for i, row := range rows {
			one, err := columnsOf(row, columns)
			if err != nil {
				return nil, err
			}
			out[i] = one.String()
		}
		return configdb.JSON("[" + strings.Join(out, ",") + "]"), nil
	}
	o, err := configdb.ObjectOf(v)
	if err != nil {
		return v, nil //nolint:nilerr // a plain value has no columns
	}
	var kept []configdb.Member
	for _, name := range columns {
		value, ok := o.Get(name)
		if !ok {
			return nil, term.Invalid("--column", name, "one of "+keysOf(o))
		}
		kept = append(kept, configdb.Member{Key: name, Value: value})
	}
	return configdb.NewObject(kept).JSON(), nil
}

func keysOf(o configdb.Object) string {
	var names []string
	for _, m := range o.Members() {
		names = append(names, m.Key)
	}
	return strings.Join(names, ", ")
}

// valuesOf formats only the values of an answer: one line per value of an object, or per object of a list.
func valuesOf(v configdb.JSON, columns []string) []byte {
	bare := func(v configdb.JSON) string {
		if text, ok := v.Text(); ok {
			return text
		}
		return v.String()
	}
	values := func(v configdb.JSON) []string {
		o, err := configdb.ObjectOf(v)
		if err != nil {
			return []string{bare(v)}
		}
		var out []string
		for _, m := range inOrder(o.Members(), columns) {
			out = append(out, bare(m.Value))
		}
		return out
	}
	var lines []string
	rows := v.Elements()
	if rows == nil {
		lines = values(v)
	}
	for _, row := range rows {
		lines = append(lines, strings.Join(values(row), " "))
	}
	out := ""
	for _, l := range lines {
		out += term.Printable(l) + "\n"
	}
	return []byte(out)
}

// inOrder returns the members in the order of the named columns, or unchanged if none are named.
func inOrder(ms []configdb.Member, columns []string) []configdb.Member {
	if len(columns) == 0 {
		return ms
	}
	ms = slices.Clone(ms)
	slices.SortStableFunc(ms,
		func(a, b configdb.Member) int { return slices.Index(columns, a.Key) - slices.Index(columns, b.Key) })
	return ms
}

// tableOf prints the columns of a table that --column names, by title or key.
func (c *factsCall) tableOf(head []string, rows [][]string) error {
	kept := make([]int, 0, len(head))
	for _, name := range c.columns {
		at := slices.IndexFunc(head, func(h string) bool {
			key := strings.ReplaceAll(strings.ToLower(h), " ", "_")
			return key == strings.ToLower(name) || key+"_id" == name || h == name
		})
		if at < 0 {
			return term.Invalid("--column", name, "one of "+strings.Join(head, ", "))
		}
		kept = append(kept, at)
	}
	if len(c.columns) == 0 {
		for i := range head {
			kept = append(kept, i)
		}
	}
	only := func(cells []string) []string {
		out := make([]string, len(kept))
		for i, at := range kept {
			out[i] = cells[at]
		}
		return out
	}
	t := &term.Table{Head: only(head)}
	for _, r := range rows {
		t.Add(only(r)...)
	}
	return t.Write(c.a.Out, c.a.Color)
}
