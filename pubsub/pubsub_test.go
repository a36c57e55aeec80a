package pubsub_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"edgespan/pubsub"
)

// doc is a value that == cannot compare, like the configs of the real topics.
type doc struct {
	Name string
	Tags []string
}

func text(s string) doc {
	if s == "" {
		return doc{}
	}
	return doc{Name: s, Tags: []string{s}}
}

// say spells changes as "Created nat1/web a" and "Modified nat1/web a>b".
func say(changes []pubsub.Change[doc]) string {
	var lines []string
	for _, c := range changes {
		ref := pubsub.Ref{Scope: c.Scope, Key: c.Key}
		switch c.Kind {
		case pubsub.Created:
			lines = append(lines, fmt.Sprintf("%s %s %s%s", c.Kind, ref, c.Old.Name, c.New.Name))
		case pubsub.Modified:
			lines = append(lines, fmt.Sprintf("%s %s %s>%s", c.Kind, ref, c.Old.Name, c.New.Name))
		case pubsub.Deleted:
			lines = append(lines, fmt.Sprintf("%s %s %s%s", c.Kind, ref, c.Old.Name, c.New.Name))
		default:
			lines = append(lines, c.Kind.String())
		}
	}
	return strings.Join(lines, ", ")
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func must(t interface {
	Helper()
	Fatal(...any)
}, err error,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// act runs one word of a test table on scope nat1: "web=a" publishes, "-web"
// unpublishes, "!web" resends, "drain" drains.
func act(t *testing.T, p *pubsub.Publisher[doc], s *pubsub.Subscription[doc], word string) {
	t.Helper()
	switch key, value, publish := strings.Cut(word, "="); {
	case publish:
		must(t, p.Publish("nat1", key, text(value)))
	case word[0] == '-':
		must(t, p.Unpublish("nat1", word[1:]))
	case word[0] == '!':
		must(t, p.Resend("nat1", word[1:]))
	case word == "drain":
		s.Drain()
	default:
		t.Fatalf("no such action %q", word)
	}
}

// What a reader that drains only at the end is told, sentence by sentence.
func TestDrain(t *testing.T) {
	for _, tt := range []struct{ name, do, want string }{
		{"a first publish is Created", "web=a", "Created nat1/web a"},
		{"a changed publish is Modified with the old value", "web=a drain web=b", "Modified nat1/web a>b"},
		{"an unpublish is Deleted with the old value", "web=a drain -web", "Deleted nat1/web a"},
		{"an equal publish is no event", "web=a drain web=a", ""},
		{"an unpublish of an absent key is no event", "-web", ""},
		{"a resend delivers the retained value once more", "web=a drain !web", "Modified nat1/web a>a"},
		{"a resend is delivered once", "web=a !web drain", ""},
		{"create and modify is Created with the newest", "web=a web=b web=c", "Created nat1/web c"},
		{"create and delete is nothing", "web=a -web", ""},
		{"create, delete and create is Created", "web=a -web web=b", "Created nat1/web b"},
		{"modify and modify is one, from what was last delivered", "web=a drain web=b web=c", "Modified nat1/web a>c"},
		{"modify and delete is Deleted with what was last delivered", "web=a drain web=b -web", "Deleted nat1/web a"},
		{"delete and create is Modified with what was last delivered", "web=a drain -web web=b", "Modified nat1/web a>b"},
		{"delete and create of the same is nothing", "web=a drain -web web=a", ""},
		{"there and back is nothing", "web=a drain web=b web=a", ""},
		{"a resend survives there and back", "web=a drain web=b !web web=a", "Modified nat1/web a>a"},
		{"a resend survives a later equal publish", "web=a drain !web web=a", "Modified nat1/web a>a"},
		{"a resend survives delete and create", "web=a drain !web -web web=a", "Modified nat1/web a>a"},
		{"a resend and a change are one change", "web=a drain !web web=b", "Modified nat1/web a>b"},
		{"a resend of a value not yet delivered is its creation", "web=a !web", "Created nat1/web a"},
		{"a resend and a delete is Deleted", "web=a drain !web -web", "Deleted nat1/web a"},
		{"resends do not add up", "web=a drain !web !web !web", "Modified nat1/web a>a"},
		{"first touched is first told", "c=1 a=1 b=1 c=2", "Created nat1/c 2, Created nat1/a 1, Created nat1/b 1"},
		{"what came to nothing lost its place", "a=1 b=1 -a a=2", "Created nat1/b 1, Created nat1/a 2"},
		{"from the middle too", "a=1 b=1 c=1 -b", "Created nat1/a 1, Created nat1/c 1"},
		{"and from the end", "a=1 b=1 -b c=1", "Created nat1/a 1, Created nat1/c 1"},
		{"a deleted key keeps its place", "a=1 b=1 drain -a b=2", "Deleted nat1/a 1, Modified nat1/b 1>2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			topic := pubsub.NewTopic[doc]("test")
			p := topic.Publisher("web-app")
			s := topic.Subscribe(pubsub.Selector{Scope: "nat1"}, nil)
			expect(t, "after subscribing", say(s.Drain()), "Synchronized")
			for _, word := range strings.Fields(tt.do) {
				act(t, p, s, word)
			}
			expect(t, tt.do, say(s.Drain()), tt.want)
			expect(t, "a second drain", say(s.Drain()), "")
		})
	}
}

// What a reader that subscribed in the middle and drains at the end is told.
func TestReplay(t *testing.T) {
	for _, tt := range []struct{ name, before, after, want string }{
		{"of nothing is Synchronized", "", "", "Synchronized"},
		{"is in order of keys, then Synchronized", "c=1 a=1 b=1", "",
			"Created nat1/a 1, Created nat1/b 1, Created nat1/c 1, Synchronized"},
		{"has the newest values only", "a=1 a=2 b=1 -b", "", "Created nat1/a 2, Synchronized"},
		{"conflates with what comes before the first drain", "a=1 b=1", "b=2 -a", "Created nat1/b 2, Synchronized"},
		{"stands before what is new", "b=1", "a=1", "Created nat1/b 1, Synchronized, Created nat1/a 1"},
		{"that came to nothing is Synchronized", "a=1", "-a", "Synchronized"},
		{"of a key that came back stands after the mark", "a=1 b=1", "-a a=2",
			"Created nat1/b 1, Synchronized, Created nat1/a 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			topic := pubsub.NewTopic[doc]("test")
			p := topic.Publisher("web-app")
			for _, word := range strings.Fields(tt.before) {
				act(t, p, nil, word)
			}
			s := topic.Subscribe(pubsub.Selector{Scope: "nat1"}, nil)
			for _, word := range strings.Fields(tt.after) {
				act(t, p, s, word)
			}
			expect(t, tt.before+" | "+tt.after, say(s.Drain()), tt.want)
			must(t, p.Publish("nat1", "later", text("x")))
			expect(t, "later, without a second mark", say(s.Drain()), "Created nat1/later x")
		})
	}
}

func TestSelector(t *testing.T) {
	oneApp := func(_, key string) bool { return strings.HasPrefix(key, "web#") }
	for _, tt := range []struct {
		name string
		sel  pubsub.Selector
		want string
	}{
		{"one scope", pubsub.Selector{Scope: "nat1"}, "nat1/db#0 nat1/web#0"},
		{"the empty scope is a scope", pubsub.Selector{}, "web#0"},
		{"a scope without keys", pubsub.Selector{Scope: "nat9"}, ""},
		{"all scopes", pubsub.Selector{AllScopes: true}, "web#0 nat1/db#0 nat1/web#0 nat2/web#1"},
		{"all scopes, whatever scope is named", pubsub.Selector{Scope: "nat1", AllScopes: true},
			"web#0 nat1/db#0 nat1/web#0 nat2/web#1"},
		{"matching keys of one scope", pubsub.Selector{Scope: "nat1", Match: oneApp}, "nat1/web#0"},
		{"matching keys of all scopes", pubsub.Selector{AllScopes: true, Match: oneApp}, "web#0 nat1/web#0 nat2/web#1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			topic := pubsub.NewTopic[doc]("test")
			p := topic.Publisher("app")
			live := topic.Subscribe(tt.sel, nil)
			for _, r := range []pubsub.Ref{{"", "web#0"}, {"nat1", "db#0"}, {"nat1", "web#0"}, {"nat2", "web#1"}} {
				must(t, p.Publish(r.Scope, r.Key, text("a")))
			}
			late := topic.Subscribe(tt.sel, nil)
			for name, s := range map[string]*pubsub.Subscription[doc]{"live": live, "late": late} {
				var refs []string
				for _, c := range s.Drain() {
					if c.Kind != pubsub.Synchronized {
						refs = append(refs, pubsub.Ref{Scope: c.Scope, Key: c.Key}.String())
					}
				}
				expect(t, name, strings.Join(refs, " "), tt.want)
			}
		})
	}
}

// A bridge manager that starts late receives all pending AppAdapterConfig by
// subscribing to the scope of its uuid (seed eve-bridge-manager).
func TestLateBridgeManagerReceivesPendingAdapterConfigs(t *testing.T) {
	topic := pubsub.NewTopic[doc]("app-adapter-config")
	must(t, topic.Publisher("app/web").Publish("nat1", "web#0", text("a")))
	must(t, topic.Publisher("app/db").Publish("nat1", "db#0", text("b")))
	must(t, topic.Publisher("app/db").Publish("nat2", "db#1", text("c")))
	s := topic.Subscribe(pubsub.Selector{Scope: "nat1"}, nil)
	expect(t, "nat1", say(s.Drain()), "Created nat1/db#0 b, Created nat1/web#0 a, Synchronized")
}

func TestGetListAll(t *testing.T) {
	topic := pubsub.NewTopic[doc]("test")
	p := topic.Publisher("app")
	must(t, p.Publish("nat2", "x", text("3")))
	must(t, p.Publish("nat1", "b", text("2")))
	must(t, p.Publish("nat1", "a", text("1")))

	if v, ok := topic.Get("nat1", "b"); !ok || v.Name != "2" {
		t.Errorf("Get of a retained key: %v %v", v, ok)
	}
	if v, ok := topic.Get("nat2", "b"); ok || v.Name != "" {
		t.Errorf("Get of an absent key: %v %v", v, ok)
	}
	list := topic.List("nat1")
	if len(list) != 2 || list["a"].Name != "1" || list["b"].Name != "2" {
		t.Errorf("List: %v", list)
	}
	list["c"] = text("4") // the caller's own map
	if _, ok := topic.Get("nat1", "c"); ok {
		t.Error("writing to a List changed the topic")
	}
	if list := topic.List("nat9"); list == nil || len(list) != 0 {
		t.Errorf("List of an unknown scope: %v, want an empty map", list)
	}
	var all []string
	for _, e := range topic.All() {
		all = append(all, e.Scope+"/"+e.Key+"="+e.Value.Name+" of "+e.Owner)
	}
	expect(t, "All", strings.Join(all, ", "), "nat1/a=1 of app, nat1/b=2 of app, nat2/x=3 of app")
	must(t, p.Unpublish("nat2", "x"))
	if _, ok := topic.Get("nat2", "x"); ok {
		t.Error("an unpublished value is still retained")
	}
}

func TestCloseEndsTheView(t *testing.T) {
	for _, sel := range []pubsub.Selector{{Scope: "nat1"}, {AllScopes: true}} {
		topic := pubsub.NewTopic[doc]("test")
		p := topic.Publisher("app")
		woken := 0
		s := topic.Subscribe(sel, func() { woken++ })
		other := topic.Subscribe(sel, nil)
		s.Drain()
		must(t, p.Publish("nat1", "web", text("a")))
		s.Close()
		s.Close()
		must(t, p.Publish("nat1", "web", text("b")))
		expect(t, "closed", say(s.Drain()), "")
		expect(t, "the other reader", say(other.Drain()), "Synchronized, Created nat1/web b")
		if woken != 2 {
			t.Errorf("woken %d times, want 2: the replay and the publish before Close", woken)
		}
		other.Close()
		must(t, p.Publish("nat1", "web", text("c")))
	}
}

func TestKindString(t *testing.T) {
	for k, want := range map[pubsub.Kind]string{
		pubsub.Created: "Created", pubsub.Modified: "Modified", pubsub.Deleted: "Deleted",
		pubsub.Synchronized: "Synchronized", 0: "Kind(0)",
	} {
		expect(t, "kind", k.String(), want)
	}
}

func TestResendOfAnAbsentKeyIsAnError(t *testing.T) {
	topic := pubsub.NewTopic[doc]("app-adapter-config")
	err := topic.Publisher("app").Resend("nat1", "web#0")
	if !errors.Is(err, pubsub.ErrNotRetained) {
		t.Fatalf("got %v", err)
	}
	expect(t, "message", err.Error(), "resend app-adapter-config nat1/web#0: no value is retained")
}
