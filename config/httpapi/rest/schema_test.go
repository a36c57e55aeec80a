package rest

import (
	"reflect"
	"slices"
	"testing"

	"edgespan/config"
)

// A schema names the fields that an answer has on the wire, and no others.
func TestASchemaNamesWhatIsOnTheWire(t *testing.T) {
	t.Parallel()
	type shown struct {
		A string `json:"a"`
		B string `json:"b,omitempty"`
		C string `json:"-"`
	}
	s := Schemas{}.Of(reflect.TypeFor[shown](), nil)
	if keys := config.Keys(s["properties"].(config.Object)); !slices.Equal(keys, []string{"a", "b"}) {
		t.Errorf("properties %q", keys)
	}
	if required := s["required"].([]any); !slices.Equal(required, []any{"a"}) {
		t.Errorf("required %q", required)
	}
}
