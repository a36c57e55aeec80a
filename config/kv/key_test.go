package kv

import (
	"errors"
	"strings"
	"testing"
)

func TestKeysHaveACheckedForm(t *testing.T) {
	for _, c := range []struct {
		key  string
		want string // part of the error; empty: allowed
	}{
		{"a", ""},
		{"layers/node/ulm-1", ""},
		{"knoten/Zürich/日本/🛰", ""},
		{"a b/c", ""},
		{strings.Repeat("k", MaxKey), ""},
		{"", "empty"},
		{strings.Repeat("k", MaxKey+1), "1025 bytes"},
		{"/a", "an empty segment"},
		{"a/", "an empty segment"},
		{"a//b", "an empty segment"},
		{"/", "an empty segment"},
		{"a\x00b", "a control character"},
		{"a\nb", "a control character"},
		{"a\x7f", "a control character"},
		{"a\xff", "not UTF-8"},
	} {
		err := Key(c.key).Check()
		if (err == nil) != (c.want == "") || err != nil &&
			(!strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrInvalid)) {
			t.Errorf("key %.20q: got %v, want %q", c.key, err, c.want)
		}
		prefix := Prefix(c.key + "/")
		if c.key == "" {
			continue
		}
		if err := prefix.Check(); (err == nil) != (c.want == "") {
			t.Errorf("prefix %.20q: got %v, want %q", prefix, err, c.want)
		}
	}
	if err := Prefix("").Check(); err != nil {
		t.Errorf("all keys: %v", err)
	}
	if err := Prefix("a").Check(); err == nil || !strings.Contains(err.Error(), "no slash at its end") {
		t.Errorf("a prefix without a slash: %v", err)
	}
}

func TestAPrefixNamesWholeSegments(t *testing.T) {
	p := Key("node/1").Below()
	for k, want := range map[Key]bool{"node/1/a": true, "node/1/a/b": true, "node/10": false, "node/1": false,
		"node": false} {
		if p.Has(k) != want {
			t.Errorf("%q has %q: got %v", p, k, !want)
		}
	}
	if !Prefix("").Has("a") {
		t.Error("the empty prefix has not all keys")
	}
}

func FuzzKeyCheck(f *testing.F) {
	for _, s := range []string{"", "a", "a/b", "a//b", "\xff", "\x00", "ä"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := Key(s).Check()
		if err != nil && !errors.Is(err, ErrInvalid) {
			t.Fatalf("%q: %v is not ErrInvalid", s, err)
		}
		if err == nil && (s == "" || strings.ContainsAny(s, "\x00\n") || len(s) > MaxKey ||
			!Key(s).Below().Has(Key(s)+"/x")) {
			t.Fatalf("must be %q", s)
		}
	})
}
