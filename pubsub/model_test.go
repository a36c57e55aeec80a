package pubsub_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"edgespan/pubsub"
)

// model is the naive truth: what is retained, and for each reader what it was
// told, what it would be told now and in which order.
type model struct {
	retained map[pubsub.Ref]int
	readers  []*modelReader
}

type modelReader struct {
	sub    *pubsub.Subscription[int]
	sel    pubsub.Selector
	view   map[string]int
	queue  []pubsub.Ref // touched, in order, and the mark
	resent map[pubsub.Ref]bool
	synced bool
	woken  int
}

// mark stands in a queue for the end of the replay.
var mark = pubsub.Ref{Scope: "\x00mark"}

func (m *model) touch(r pubsub.Ref, resent bool) {
	for _, x := range m.readers {
		if !x.picks(r) {
			continue
		}
		if !slices.Contains(x.queue, r) {
			x.queue = append(x.queue, r)
		}
		x.resent[r] = x.resent[r] || resent
		_, seen := x.view[r.String()]
		if _, there := m.retained[r]; !seen && !there {
			x.queue = slices.DeleteFunc(x.queue, func(q pubsub.Ref) bool { return q == r })
			delete(x.resent, r)
		}
	}
}

func (x *modelReader) picks(r pubsub.Ref) bool {
	return (x.sel.AllScopes || x.sel.Scope == r.Scope) && (x.sel.Match == nil || x.sel.Match(r.Scope, r.Key))
}

// expected is what the next Drain must give.
func (x *modelReader) expected(retained map[pubsub.Ref]int) (out []pubsub.Change[int]) {
	for _, r := range x.queue {
		if r == mark {
			out = append(out, pubsub.Change[int]{Kind: pubsub.Synchronized})
			continue
		}
		old, seen := x.view[r.String()]
		now, there := retained[r]
		c := pubsub.Change[int]{Scope: r.Scope, Key: r.Key, Old: old, New: now}
		switch {
		case !seen:
			c.Kind = pubsub.Created
		case !there:
			c.Kind = pubsub.Deleted
		case old == now && !x.resent[r]:
			continue
		default:
			c.Kind = pubsub.Modified
		}
		out = append(out, c)
	}
	return out
}

func (x *modelReader) drain(t *rapid.T, retained map[pubsub.Ref]int) {
	want := x.expected(retained)
	got := x.sub.Drain()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("drained\n %v\nwant\n %v", got, want)
	}
	for _, c := range got {
		if c.Kind != pubsub.Synchronized {
			step(t, x.view, c)
		} else if x.synced {
			t.Fatalf("synchronized twice")
		} else {
			x.synced = true
		}
	}
	if x.woken > 1 || (len(got) > 0 && x.woken == 0) {
		t.Fatalf("woken %d times for %d changes", x.woken, len(got))
	}
	x.queue, x.resent, x.woken = nil, map[pubsub.Ref]bool{}, 0
}

func (m *model) subscribe(topic *pubsub.Topic[int], sel pubsub.Selector) {
	x := &modelReader{sel: sel, view: map[string]int{}, resent: map[pubsub.Ref]bool{}}
	for _, e := range topic.All() {
		if r := (pubsub.Ref{Scope: e.Scope, Key: e.Key}); x.picks(r) {
			x.queue = append(x.queue, r)
		}
	}
	x.queue = append(x.queue, mark)
	m.readers = append(m.readers, x)
	x.sub = topic.Subscribe(sel, func() { x.woken++ })
}

var refs = rapid.Custom(func(t *rapid.T) pubsub.Ref {
	return pubsub.Ref{
		Scope: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "scope"),
		Key:   rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"),
	}
})

// actions are what may happen, each to the topic and to the model.
func (m *model) actions(topic *pubsub.Topic[int]) map[string]func(*rapid.T) {
	even := func(_, key string) bool { return key[0]%2 == 0 }
	selectors := []pubsub.Selector{{Scope: "1"}, {Scope: "2"}, {AllScopes: true}, {AllScopes: true, Match: even}}
	p := topic.Publisher("app")
	return map[string]func(*rapid.T){
		"publish": func(t *rapid.T) {
			r, v := refs.Draw(t, "ref"), rapid.IntRange(1, 3).Draw(t, "value")
			must(t, p.Publish(r.Scope, r.Key, v))
			if old, was := m.retained[r]; !was || old != v {
				m.retained[r] = v
				m.touch(r, false)
			}
		},
		"unpublish": func(t *rapid.T) {
			r := refs.Draw(t, "ref")
			must(t, p.Unpublish(r.Scope, r.Key))
			if _, was := m.retained[r]; was {
				delete(m.retained, r)
				m.touch(r, false)
			}
		},
		"resend": func(t *rapid.T) {
			r := refs.Draw(t, "ref")
			if _, was := m.retained[r]; was {
				must(t, p.Resend(r.Scope, r.Key))
				m.touch(r, true)
			}
		},
		"subscribe": func(t *rapid.T) {
			if len(m.readers) < 6 {
				m.subscribe(topic, rapid.SampledFrom(selectors).Draw(t, "selector"))
			}
		},
		"drain": func(t *rapid.T) {
			if len(m.readers) > 0 {
				rapid.SampledFrom(m.readers).Draw(t, "reader").drain(t, m.retained)
			}
		},
	}
}

// Readers that drain at random times end with exactly what is retained and see
// no change that does not go on from what they saw last.
func TestReadersFollowTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		topic := pubsub.NewTopic[int]("test")
		m := &model{retained: map[pubsub.Ref]int{}}
		t.Repeat(m.actions(topic))
		for _, x := range m.readers {
			x.drain(t, m.retained)
			want := map[string]int{}
			for r, v := range m.retained {
				if x.picks(r) {
					want[r.String()] = v
				}
			}
			if fmt.Sprint(x.view) != fmt.Sprint(want) {
				t.Fatalf("a reader ended with %v, retained is %v", x.view, want)
			}
		}
	})
}
