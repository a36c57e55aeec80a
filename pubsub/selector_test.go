package pubsub

import (
	"fmt"
	"slices"
	"testing"
)

// A subscription to a key, or to a stem, hears what one with a Match for it hears.
func TestASelectorOfAKeyOrAStemIsAMatchOfIt(t *testing.T) {
	for _, opts := range [][]Option[int]{nil, {WithStems[int]()}} {
		topic := NewTopic("t", opts...)
		p := topic.Publisher("o")
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		heard := func(s *Subscription[int]) (out []string) {
			for _, c := range s.Drain() {
				out = append(out, fmt.Sprint(c.Kind, c.Scope, c.Key, c.New))
			}
			return out
		}
		must(p.Publish("s1", "a#0", 1))
		must(p.Publish("s2", "a#1", 2))
		must(p.Publish("s1", "ab#0", 3))
		byKey, keyMatch := topic.Subscribe(Selector{Scope: "s1", Key: "a#0"}, nil),
			topic.Subscribe(Selector{Scope: "s1", Match: func(_, k string) bool { return k == "a#0" }}, nil)
		byStem, stemMatch := topic.Subscribe(Selector{Stem: "a"}, nil),
			topic.Subscribe(Selector{AllScopes: true, Match: func(_, k string) bool { return k == "a#0" || k == "a#1" }}, nil)
		same := func(when string) {
			t.Helper()
			if a, b := heard(byKey), heard(keyMatch); !slices.Equal(a, b) || len(a) == 0 {
				t.Errorf("%s: by key %q, by match %q", when, a, b)
			}
			if a, b := heard(byStem), heard(stemMatch); !slices.Equal(a, b) || len(a) == 0 {
				t.Errorf("%s: by stem %q, by match %q", when, a, b)
			}
		}
		same("replay")
		must(p.Publish("s1", "a#0", 4))
		must(p.Publish("s2", "a#0", 5))
		must(p.Publish("s1", "ab#0", 6))
		same("changes")
		must(p.Unpublish("s1", "a#0"))
		must(p.Unpublish("s2", "a#1"))
		same("deletes")
		if opts != nil {
			if left := topic.ListStem("a"); len(left) != 1 || left[0].Scope != "s2" || left[0].Value != 5 ||
				len(topic.ListStem("b")) != 0 {
				t.Errorf("of the stem are left %+v", left)
			}
		}
		byKey.Close()
		byStem.Close()
		if len(topic.keyed)+len(topic.stemmed) != 0 {
			t.Error("a closed subscription is kept")
		}
		must(p.Publish("s1", "a#0", 7))
		if heard(byKey) != nil || heard(byStem) != nil {
			t.Error("a closed subscription hears")
		}
	}
}
