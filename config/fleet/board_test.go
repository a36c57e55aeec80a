package fleet

import (
	"slices"
	"strings"
	"testing"
)

// A node's report of its hardware is read completely or refused, with each place that is wrong.
func TestWhatANodeTellsOfItsBoard(t *testing.T) {
	t.Parallel()
	b, err := ParseBase([]byte(`{"base":{"V1":{"a":1},"V2":{}},"hardware":{"H1":{"b":2}},` +
		`"metadata":{"key":{"desc":"x","type":"STRING","action":"NO_ACTION","secret":true,"strVal":{}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	l := b.Library("board")
	slices.Sort(l.Base)
	if !slices.Equal(l.Base, []string{"V1", "V2"}) || !slices.Equal(l.Hardware["board"], []string{"H1"}) ||
		l.Boards["board"] != "board" {
		t.Errorf("the library is %+v", l)
	}
	if secrets, faults := b.Secrets(); !slices.Equal(secrets, []string{"key"}) || faults != nil {
		t.Errorf("secrets are %q, faults %v", secrets, faults)
	}
	if b, err := ParseBase([]byte(`{"base":{"V1":{}}}`)); err != nil || len(b.Library("x").Hardware) != 0 {
		t.Errorf("without a type for the board: %+v, %v", b, err)
	}
	for text, want := range map[string][]string{
		`{`: {""}, `{"base":{"V1":7},"hardware":{"H1":"x"}}`: {"base.V1: invalid type ", "hardware.H1: invalid type "},
		`{"metadata":[]}`: {"metadata: invalid type "},
	} {
		_, err := ParseBase([]byte(text))
		if err == nil {
			t.Errorf("%s is read", text)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %q in it", text, err, w)
			}
		}
	}
}
