package configdb

import (
	"slices"
	"testing"
)

func TestReferences(t *testing.T) {
	for text, want := range map[string][]string{
		`{"a":"%{globals:x.y}","b":["%{astute:z} and %{globals:q}",{"c":"%%{no:thing}"}]}`: {"astute", "globals"},
		`{"a":"nothing %{::fqdn}"}`: nil,
		`{"%{key:a}":"in a key"}`:   nil,
		`"%{top:a}"`:                {"top"},
	} {
		v, err := Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := free.References(v)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
	if _, err := free.References(JSON(`{"a":"%{astute:}"}`)); err == nil {
		t.Error("a misspelt reference is none")
	}
}
