package term

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"edgespan/config"
)

func TestYAMLIsReadAsTheJSONIs(t *testing.T) {
	for _, doc := range []config.Object{
		{"a": "b\nc"}, {"a\nb": config.Object{"c": "d"}}, {"a": []any{config.Object{"b\nc": "d"}}}, {"a": "\x1b[2J"},
		{"a\tb": "c\td"}, {"a": "\u009b\u2028"},
	} {
		var out strings.Builder
		a := Streams{Out: &out}
		if err := a.PrintYAML(doc); err != nil {
			t.Fatal(err)
		}
		var back any
		if err := yaml.Unmarshal([]byte(out.String()), &back); err != nil || !config.Equal(back, doc) {
			t.Errorf("%q: %q is read as %v, %v", doc, out.String(), back, err)
		}
	}
}
