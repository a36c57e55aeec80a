package pubsub_test

import (
	"errors"
	"fmt"
	"testing"

	"edgespan/pubsub"
)

func TestAKeyHasOneOwner(t *testing.T) {
	topic := pubsub.NewTopic[doc]("app-adapter-status")
	must(t, topic.Publisher("ni/1").Publish("1", "web#0", text("a")))
	s := topic.Subscribe(pubsub.Selector{AllScopes: true}, nil)
	s.Drain()
	other := topic.Publisher("ni/2")
	for name, err := range map[string]error{
		"publish":       other.Publish("1", "web#0", text("b")),
		"equal publish": other.Publish("1", "web#0", text("a")),
		"unpublish":     other.Unpublish("1", "web#0"),
		"resend":        other.Resend("1", "web#0"),
	} {
		var owned *pubsub.OwnedError
		if !errors.As(err, &owned) || owned.Owner != "ni/1" || owned.By != "ni/2" {
			t.Errorf("%s by another owner: %v", name, err)
			continue
		}
		expect(t, name, err.Error(), "app-adapter-status 1/web#0: owned by ni/1, not by ni/2")
	}
	expect(t, "what readers saw of it", say(s.Drain()), "")
	must(t, other.Publish("2", "web#0", text("c"))) // the same key of another scope is another key
}

func TestAnUnpublishedKeyIsFree(t *testing.T) {
	topic := pubsub.NewTopic[doc]("test")
	p := topic.Publisher("a")
	must(t, p.Publish("", "k", text("1")))
	must(t, p.Unpublish("", "k"))
	must(t, topic.Publisher("b").Publish("", "k", text("2")))
}

// After a crash and restart the actor has the same owner name and just goes on.
func TestARestartedOwnerGoesOn(t *testing.T) {
	topic := pubsub.NewTopic[doc]("test")
	must(t, topic.Publisher("ni/1").Publish("", "1", text("a")))
	again := topic.Publisher("ni/1")
	must(t, again.Publish("", "1", text("b")))
	must(t, again.Resend("", "1"))
	must(t, again.Unpublish("", "1"))
}

func TestTake(t *testing.T) {
	topic := pubsub.NewTopic[doc]("network-instance-status")
	ni, router := topic.Publisher("ni/1"), topic.Publisher("router")
	must(t, ni.Publish("", "1", text("a")))
	s := topic.Subscribe(pubsub.Selector{}, nil)
	s.Drain()

	router.Adopt("", "1")
	router.Adopt("", "absent")
	expect(t, "taking is no event", say(s.Drain()), "")
	expect(t, "owners", owners(topic), "1:router")
	if err := ni.Publish("", "1", text("b")); err == nil {
		t.Error("the former owner may still publish")
	}
	ni.Adopt("", "1") // the network instance came back
	must(t, ni.Publish("", "1", text("b")))
	expect(t, "the new status", say(s.Drain()), "Modified 1 a>b")
}

// Scopes are uuids of networks, which come and go for as long as the daemon runs.
func TestAScopeThatIsGoneIsForgotten(t *testing.T) {
	topic := pubsub.NewTopic[doc]("test")
	p := topic.Publisher("app")
	for i := range 10 {
		scope := fmt.Sprint(i)
		s := topic.Subscribe(pubsub.Selector{Scope: scope}, nil)
		must(t, p.Publish(scope, "k", text("a")))
		must(t, p.Unpublish(scope, "k"))
		s.Close()
	}
	if n := topic.Scopes(); n != 0 {
		t.Errorf("%d scopes are kept", n)
	}
}

// A bridge manager that starts again takes the keys of its scope back.
func TestTakeAllPassesEveryKeyOfAScope(t *testing.T) {
	topic := pubsub.NewTopic[doc]("app-adapter-status")
	router, other := topic.Publisher("router"), topic.Publisher("ni/2")
	must(t, router.Publish("1", "web#0", text("a")))
	must(t, router.Publish("1", "db#0", text("b")))
	must(t, other.Publish("2", "web#1", text("c")))
	refs := topic.Publisher("ni/1").AdoptAll("1")
	expect(t, "refs", fmt.Sprint(refs), "[1/db#0 1/web#0]")
	expect(t, "owners", owners(topic), "1/db#0:ni/1 1/web#0:ni/1 2/web#1:ni/2")
}

func TestAPublisherNeedsAnOwner(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("an empty owner was accepted")
		}
	}()
	pubsub.NewTopic[doc]("test").Publisher("")
}

func owners(topic *pubsub.Topic[doc]) string {
	s := ""
	for i, e := range topic.All() {
		if i > 0 {
			s += " "
		}
		s += pubsub.Ref{Scope: e.Scope, Key: e.Key}.String() + ":" + e.Owner
	}
	return s
}
