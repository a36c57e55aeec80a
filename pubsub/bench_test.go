package pubsub_test

import (
	"fmt"
	"testing"

	"edgespan/pubsub"
)

// The readers drain as actors do: whenever they were woken.
func BenchmarkPublish(b *testing.B) {
	for _, readers := range []int{0, 1, 100} {
		b.Run(fmt.Sprintf("readers=%d", readers), func(b *testing.B) {
			topic := pubsub.NewTopic[int]("bench")
			subs := make([]*pubsub.Subscription[int], readers)
			for i := range subs {
				subs[i] = topic.Subscribe(pubsub.Selector{Scope: "nat1"}, func() {
					if subs[i] != nil {
						subs[i].Drain()
					}
				})
				subs[i].Drain()
			}
			p := topic.Publisher("app")
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := p.Publish("nat1", "web#0", i); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What a reader that never drains costs its publisher.
func BenchmarkPublishToStuckReaders(b *testing.B) {
	topic := pubsub.NewTopic[int]("bench")
	for range 100 {
		topic.Subscribe(pubsub.Selector{Scope: "nat1"}, func() {})
	}
	p := topic.Publisher("app")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := p.Publish("nat1", "web#0", i); err != nil {
			b.Fatal(err)
		}
	}
}

// A bridge manager reads its own scope, so networks do not pay for each other.
func BenchmarkPublishAmongOtherScopes(b *testing.B) {
	topic := pubsub.NewTopic[int]("bench")
	for i := range 1000 {
		topic.Subscribe(pubsub.Selector{Scope: fmt.Sprint("nat", i)}, func() {})
	}
	p := topic.Publisher("app")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := p.Publish("nat1", "web#0", i); err != nil {
			b.Fatal(err)
		}
	}
}

// Publishing is on every path of the daemon: it must not make garbage where
// nobody has to be told.
func TestPublishAllocatesNothingUnlessSomebodyIsToldOfIt(t *testing.T) {
	topic := pubsub.NewTopic[int]("bench")
	p := topic.Publisher("app")
	stuck := topic.Subscribe(pubsub.Selector{Scope: "nat1"}, func() {})
	defer stuck.Close()
	must(t, p.Publish("nat1", "web#0", 0))
	n := 0
	for name, publish := range map[string]func() error{
		"an equal publish":           func() error { return p.Publish("nat1", "web#0", n) },
		"a publish to stuck readers": func() error { n++; return p.Publish("nat1", "web#0", n) },
	} {
		allocs := testing.AllocsPerRun(100, func() {
			if err := publish(); err != nil {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s makes %.0f allocations", name, allocs)
		}
	}
}
