package pubsub_test

import (
	"fmt"
	"maps"
	"sync"
	"testing"

	"edgespan/pubsub"
)

func TestWakeComesOnceBetweenDrains(t *testing.T) {
	topic := pubsub.NewTopic[doc]("test")
	p := topic.Publisher("app")
	woken := 0
	s := topic.Subscribe(pubsub.Selector{}, func() { woken++ })
	count := func(what string, want int) {
		t.Helper()
		if woken != want {
			t.Errorf("%s: woken %d times, want %d", what, woken, want)
		}
	}
	count("the replay of an empty topic, for Synchronized", 1)
	must(t, p.Publish("", "a", text("1")))
	count("a change before the first drain", 1)
	s.Drain()
	count("a drain", 1)
	must(t, p.Publish("", "a", text("2")))
	count("a change", 2)
	must(t, p.Publish("", "a", text("3")))
	must(t, p.Publish("", "b", text("1")))
	must(t, p.Resend("", "b"))
	must(t, p.Unpublish("", "b"))
	count("more changes", 2)
	s.Drain()
	must(t, p.Publish("", "a", text("3")))
	must(t, p.Unpublish("", "absent"))
	count("an equal publish and an absent key", 2)
	must(t, p.Publish("elsewhere", "a", text("1")))
	count("another scope", 2)
	must(t, p.Resend("", "a"))
	count("a resend", 3)
	s.Drain()
	s.Drain()
	must(t, p.Unpublish("", "a"))
	count("a delete", 4)
}

// A wake that uses the topic would deadlock if a lock were held.
func TestWakeHoldsNoLock(t *testing.T) {
	for _, kind := range []string{"plain", "journalled"} {
		t.Run(kind, func(t *testing.T) {
			topic := pubsub.NewTopic[doc]("test")
			if kind == "journalled" {
				topic = journalled(newMemory())
			}
			p := topic.Publisher("app")
			var s *pubsub.Subscription[doc]
			seen := ""
			s = topic.Subscribe(pubsub.Selector{}, func() {
				if s == nil {
					return // the replay
				}
				seen += say(s.Drain()) + "; "
				if v, _ := topic.Get("", "k"); v.Name == "1" {
					must(t, p.Publish("", "k", text("2")))
				}
			})
			s.Drain()
			must(t, p.Publish("", "k", text("1")))
			expect(t, "seen", seen, "Created k 1; Modified k 1>2; ")
		})
	}
}

// A reader that never drains holds what is retained now and what it once saw,
// however many keys came and went.
func TestASlowReaderCostsOneEntryAKey(t *testing.T) {
	topic := pubsub.NewTopic[doc]("test")
	p := topic.Publisher("app")
	s := topic.Subscribe(pubsub.Selector{}, func() {})
	s.Drain()
	must(t, p.Publish("", "k", text("old")))
	s.Drain()
	for i := range 1000 {
		must(t, p.Publish("", "k", text(fmt.Sprint(i))))
		must(t, p.Resend("", "k"))
		key := fmt.Sprint("passing-", i)
		must(t, p.Publish("", key, text("x")))
		must(t, p.Unpublish("", key))
	}
	if n := s.Pending(); n != 1 {
		t.Errorf("%d pending entries, want 1", n)
	}
	expect(t, "drain", say(s.Drain()), "Modified k old>999")
}

// What a reader is told before the mark is all that there is: what it knew from an
// earlier subscription and is not told again has gone meanwhile.
func TestAReaderThatComesBackLearnsWhatWentMeanwhile(t *testing.T) {
	topic := pubsub.NewTopic[int]("test")
	p := topic.Publisher("app")
	known := map[string]int{}
	for round := range 3 {
		for i := range 10 {
			must(t, p.Publish("", fmt.Sprint("k", 10*round+i), i))
		}
		for i := range 5 { // of this round, and of the one that the reader has seen
			must(t, p.Unpublish("", fmt.Sprint("k", 10*round+i)))
			must(t, p.Unpublish("", fmt.Sprint("k", 10*round-1-i)))
		}
		s := topic.Subscribe(pubsub.Selector{}, nil)
		reported, synchronized := map[string]int{}, false
		for _, c := range s.Drain() {
			switch c.Kind {
			case pubsub.Synchronized:
				synchronized = true
			case pubsub.Created:
				reported[c.Key] = c.New
			case pubsub.Modified, pubsub.Deleted:
				t.Errorf("round %d: a new reader is told of %v", round, c)
			}
		}
		for k := range known {
			if _, still := reported[k]; !still {
				delete(known, k)
			}
		}
		maps.Copy(known, reported)
		if want := topic.List(""); !synchronized || !maps.Equal(known, want) {
			t.Errorf("round %d: the reader knows %v, synchronized %v; retained is %v", round, known, synchronized, want)
		}
		s.Close()
	}
}

// Many publishers and readers at once; each reader must end with exactly what
// is retained, woken for every last change. Run under -race.
func TestConcurrentPublishersAndReaders(t *testing.T) {
	const publishers, rounds, keys = 4, 300, 5
	topic := pubsub.NewTopic[int]("test")
	var readers, writers sync.WaitGroup
	views := make([]map[string]int, 4)
	for i := range views {
		wake := make(chan struct{}, 1)
		s := topic.Subscribe(pubsub.Selector{AllScopes: i%2 == 0}, func() {
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		readers.Go(func() {
			defer s.Close()
			view := map[string]int{}
			for finished := false; !finished; {
				<-wake
				for _, c := range s.Drain() {
					switch {
					case c.Key == "end":
						finished = true
					case c.Kind != pubsub.Synchronized:
						step(t, view, c)
					}
				}
			}
			views[i] = view
		})
	}
	for i := range publishers {
		writers.Go(func() {
			p := topic.Publisher(fmt.Sprint("app-", i))
			for n := range rounds {
				key := fmt.Sprint(i, "-", n%keys)
				switch {
				case n%7 == 3:
					must(t, p.Unpublish("", key))
				default:
					must(t, p.Publish("", key, n))
				}
				if n%50 == 0 {
					topic.Subscribe(pubsub.Selector{}, nil).Close()
					topic.List("")
				}
			}
		})
	}
	writers.Wait()
	retained := fmt.Sprint(topic.List(""))
	must(t, topic.Publisher("end").Publish("", "end", 1))
	readers.Wait()
	for i, view := range views {
		expect(t, fmt.Sprint("view of reader ", i), fmt.Sprint(view), retained)
	}
}

// step applies one change to a view and checks that it goes on from there.
func step[V comparable](t interface{ Errorf(string, ...any) }, view map[string]V, c pubsub.Change[V]) {
	key := pubsub.Ref{Scope: c.Scope, Key: c.Key}.String()
	old, had := view[key]
	switch c.Kind {
	case pubsub.Created:
		if had {
			t.Errorf("Created %s, which the reader has", key)
		}
		view[key] = c.New
	case pubsub.Modified:
		if !had || old != c.Old {
			t.Errorf("Modified %s from %v, reader saw %v %v", key, c.Old, old, had)
		}
		view[key] = c.New
	case pubsub.Deleted:
		if !had || old != c.Old {
			t.Errorf("Deleted %s from %v, reader saw %v %v", key, c.Old, old, had)
		}
		delete(view, key)
	default:
		t.Errorf("unexpected %s", c.Kind)
	}
}
