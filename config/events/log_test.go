package events

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// at returns a State event of an object, some seconds after noon.
func at(seconds int, object, text string) Event {
	return Event{Time: noon.Add(time.Duration(seconds) * time.Second), Kind: State, Object: object, Text: text}
}

// texts returns the events as "object:text", with "*N" for one that happened N times.
func texts(list []Event) string {
	var out []string
	for _, e := range list {
		s := e.Object + ":" + e.Text
		if e.Count > 1 {
			s += fmt.Sprintf("*%d", e.Count)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// Each script adds events "second object:text" to a ring of six.
func TestWhatALogKeeps(t *testing.T) {
	for _, one := range []struct{ name, script, want string }{
		{"all while there is room", "0 a:1, 1 b:1, 2 a:2", "a:1 b:1 a:2"},
		{"the newest ones of one object", "0 a:1, 0 a:2, 0 a:3, 0 a:4, 0 a:5, 0 a:6, 0 a:7", "a:2 a:3 a:4 a:5 a:6 a:7"},
		{"what repeats is counted", "0 a:1, 1 a:1, 2 a:1", "a:1*3"},
		{"also if it alternates", "0 a:up, 1 a:down, 2 a:up, 3 a:down", "a:up*2 a:down*2"},
		{"and anew after a while", "0 a:1, 601 a:1, 1200 a:1", "a:1 a:1*2"},
		{"an object that flaps leaves the others what they have",
			"0 b:1, 1 c:1, 2 a:1, 3 a:2, 4 a:3, 5 a:4, 6 a:5, 7 a:6, 8 a:7", "b:1 c:1 a:4 a:5 a:6 a:7"},
		{"others displace what is beyond its share",
			"0 a:1, 0 a:2, 0 a:3, 0 a:4, 0 a:5, 0 a:6, 1 b:1, 1 c:1, 1 d:1", "a:4 a:5 a:6 b:1 c:1 d:1"},
		{"with more objects than room the oldest go", "0 a:1, 0 b:1, 0 c:1, 0 d:1, 0 e:1, 0 f:1, 0 g:1, 0 h:1",
			"c:1 d:1 e:1 f:1 g:1 h:1"},
	} {
		l := NewLog(Limits{Events: 6, Bytes: 1 << 20}, 1)
		there := map[uint64]Event{}
		for _, line := range strings.Split(one.script, ", ") {
			second, what, _ := strings.Cut(line, " ")
			object, text, _ := strings.Cut(what, ":")
			var n int
			fmt.Sscan(second, &n)
			c := l.Add(at(n, object, text))
			if _, old := there[c.Event.Seq]; old != c.Repeats {
				t.Errorf("%s: %s: repeats is %v", one.name, line, c.Repeats)
			}
			there[c.Event.Seq] = c.Event
			for _, seq := range c.Dropped {
				delete(there, seq)
			}
		}
		list := l.Events()
		if got := texts(list); got != one.want {
			t.Errorf("%s: %s, want %s", one.name, got, one.want)
		}
		for _, e := range list {
			if !reflect.DeepEqual(there[e.Seq], e) {
				t.Errorf("%s: a reader of changes has %+v, the log %+v", one.name, there[e.Seq], e)
			}
		}
		if len(there) != len(list) {
			t.Errorf("%s: a reader of changes has %d events, the log %d", one.name, len(there), len(list))
		}
	}
}

func TestALogIsBoundedInBytes(t *testing.T) {
	l := NewLog(Limits{Events: 1000, Bytes: 8 << 10}, 1)
	for i := range 200 {
		e := at(i, fmt.Sprint("ni/", i%7), fmt.Sprint(i))
		e.Error = strings.Repeat("x", 100<<10)
		l.Add(e)
		size := 0
		for _, e := range l.Events() {
			size += len(Encode(e))
		}
		if size > 8<<10 || size != l.bytes {
			t.Fatalf("%d bytes after %d events; the log counts %d", size, i, l.bytes)
		}
	}
	if n := len(l.Events()); n < 5 {
		t.Errorf("%d are kept", n)
	}
}

func TestNumbersRiseOverRestarts(t *testing.T) {
	l := NewLog(Limits{Events: 10, Bytes: 1 << 20}, FirstSeq(1))
	a, again := l.Add(at(0, "a", "1")).Event, l.Add(at(1, "a", "1")).Event
	if a.Seq != 1<<20+1 || again.Seq != a.Seq || again.Changed() != a.Seq+1 || again.Count != 2 || !again.At().Equal(noon.Add(time.Second)) {
		t.Fatalf("%+v, %+v", a, again)
	}
	// The next start does not know what the last second before a power cut has numbered.
	for name, stored := range map[string][]Event{"all": {again}, "some": {a}, "none": nil} {
		next := NewLog(Limits{Events: 10, Bytes: 1 << 20}, FirstSeq(2))
		early := next.Add(at(5, "b", "early")).Event
		next.Restore(stored)
		late := next.Add(at(6, "b", "late")).Event
		if early.Seq <= again.Changed() || late.Seq <= early.Seq || len(next.Events()) != len(stored)+2 {
			t.Errorf("%s: %v then %v, %s", name, early.Seq, late.Seq, texts(next.Events()))
		}
	}
	// A journal that lost its number counts from a lower one: the file's numbers count.
	low := NewLog(Limits{Events: 10, Bytes: 1 << 20}, FirstSeq(0))
	low.Restore([]Event{again})
	if e := low.Add(at(7, "b", "x")).Event; e.Seq != again.Changed()+1 {
		t.Errorf("%+v", e)
	}
	// What happens again after a start is another event.
	if c := low.Add(at(8, "a", "1")); c.Repeats {
		t.Errorf("%+v", c)
	}
	// What the log has is not restored twice.
	if got := low.Restore(low.Events()); texts(low.Events()) != "a:1*2 b:x a:1" || len(got) != 0 {
		t.Errorf("%s, %v", texts(low.Events()), got)
	}
}

func TestNewestThatFit(t *testing.T) {
	l := NewLog(Limits{Events: 10, Bytes: 1 << 20}, 1)
	for i := range 5 {
		l.Add(at(i, "a", fmt.Sprint(i)))
	}
	l.Add(at(9, "a", "1"))
	all, others := Newest(l.Events(), 0, 1<<20)
	if texts(all) != "a:0 a:2 a:3 a:4 a:1*2" || others != 0 {
		t.Errorf("%s, %d", texts(all), others)
	}
	if got, others := Newest(l.Events(), 4, 1<<20); texts(got) != "a:4 a:1*2" || others != 0 {
		t.Errorf("%s, %d", texts(got), others)
	}
	if got, others := Newest(l.Events(), 0, 260); texts(got) != "a:4 a:1*2" || others != 3 {
		t.Errorf("%s, %d", texts(got), others)
	}
	if got, others := Newest(l.Events(), 6, 1<<20); len(got) != 0 || others != 0 {
		t.Errorf("%s, %d", texts(got), others)
	}
}

func TestEventsOfAPeerAreCleaned(t *testing.T) {
	good := Event{Seq: 7, Time: noon, Kind: State, Object: "ni/x", Text: "a"}
	for name, change := range map[string]func(*Event){
		"no number":            func(e *Event) { e.Seq = 0 },
		"a number beyond JSON": func(e *Event) { e.Seq = 1 << 60 },
		"another kind":         func(e *Event) { e.Kind = "joke" },
		"no time":              func(e *Event) { e.Time = time.Time{} },
		"a time beyond JSON":   func(e *Event) { e.Time = noon.AddDate(9000, 0, 0) },
		"its own cause":        func(e *Event) { e.Cause.Event = 7 },
		"a negative count":     func(e *Event) { e.Count = -1 },
		"no last time":         func(e *Event) { e.Count = 2 },
	} {
		e := good
		change(&e)
		if got, ok := e.OfPeer(); ok {
			t.Errorf("%s: %+v", name, got)
		}
	}
	bad := "\x1b[2J\x07\u202eabc\n\xff" + strings.Repeat("x", 1<<20)
	e := Event{Seq: 7, Time: noon, Kind: State, Object: bad, Name: bad, Text: bad, Op: bad, Command: bad, Error: bad,
		Chain: []Event{good}, Cause: Cause{Generation: bad, Source: bad, By: bad, Apply: bad, Began: bad}}
	got, ok := e.OfPeer()
	if !ok || got.Chain != nil || len(Encode(got)) > 8<<10 {
		t.Fatalf("%v, %d bytes", ok, len(Encode(got)))
	}
	for _, text := range []string{got.Object, got.Name, got.Text, got.Op, got.Command, got.Error, got.Cause.Generation,
		got.Cause.Source, got.Cause.By, got.Cause.Apply, got.Cause.Began, strings.Join(Why(got), "")} {
		if strings.ContainsAny(text, "\x1b\x07\u202e\n\xff") || !strings.Contains(text, "abc ?") {
			t.Errorf("%.40q", text)
		}
	}
}
