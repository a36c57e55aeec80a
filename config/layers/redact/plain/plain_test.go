package plain

import (
	"encoding/json"
	"strings"
	"testing"
)

// cyclic is state that a careless walk would never leave, or change.
type cyclic struct {
	Self  *cyclic
	Next  any
	Many  []int
	Deep  map[string]any
	Fn    func()
	Ch    chan int
	Bytes []byte
}

func TestDataIsBounded(t *testing.T) {
	c := &cyclic{Many: make([]int, 1<<20), Fn: func() {}, Ch: make(chan int), Bytes: []byte("hush")}
	c.Self, c.Next = c, c
	at := map[string]any{"x": strings.Repeat("x", 1<<20)}
	c.Deep = at
	for range 100 {
		next := map[string]any{}
		at["below"] = next
		at = next
	}
	text, err := json.Marshal(Data(c, 500, func(s string) string { return s }))
	if err != nil || len(text) > 10_000 || strings.Contains(string(text), "hush") || strings.Contains(string(text), "Fn") ||
		!strings.Contains(string(text), `"Bytes":"(4 octets)"`) || !strings.Contains(string(text), `"Self":"(as above)"`) {
		t.Errorf("%d octets, %v: %.300s", len(text), err, text)
	}
	for _, odd := range []any{nil, 0, "", (*cyclic)(nil), struct{}{}, func() {}} {
		if _, err := json.Marshal(Data(odd, 10, func(s string) string { return s })); err != nil {
			t.Errorf("%T: %v", odd, err)
		}
	}
}
