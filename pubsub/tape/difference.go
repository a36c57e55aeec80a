package tape

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// maxShown bounds how many places of a difference are shown.
const maxShown = 5

// difference says, a line a place, what is other in the second of two trees of JSON: "path: before -> after".
func difference(a, b any) string {
	var d differ
	d.compare("", a, b)
	if d.more > 0 {
		d.found = append(d.found, fmt.Sprintf("and %d more", d.more))
	}
	return strings.Join(d.found, "\n")
}

type differ struct {
	found []string
	more  int
}

func (d *differ) add(path string, a, b any) {
	if len(d.found) >= maxShown {
		d.more++
		return
	}
	if path == "" {
		path = "it"
	}
	d.found = append(d.found, fmt.Sprintf("%s: %s -> %s", path, brief(a), brief(b)))
}

func (d *differ) compare(path string, a, b any) {
	switch x := a.(type) {
	case map[string]any:
		if y, is := b.(map[string]any); is {
			names := make([]string, 0, len(x)+len(y))
			for name := range x {
				names = append(names, name)
			}
			for name := range y {
				names = append(names, name)
			}
			slices.Sort(names)
			for _, name := range slices.Compact(names) {
				d.compare(strings.TrimPrefix(path+"."+name, "."), x[name], y[name])
			}
			return
		}
	case []any:
		if y, is := b.([]any); is {
			for i := range max(len(x), len(y)) {
				d.compare(fmt.Sprintf("%s[%d]", path, i), element(x, i), element(y, i))
			}
			return
		}
	}
	if !reflect.DeepEqual(a, b) {
		d.add(path, a, b)
	}
}

func element(of []any, i int) any {
	if i < len(of) {
		return of[i]
	}
	return nil
}

// brief is a value in at most some hundred characters.
func brief(v any) string {
	if v == nil {
		return "nothing"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if r := []rune(string(text)); len(r) > 160 {
		return string(r[:160]) + "…"
	}
	return string(text)
}
