package events

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestWhatIsCollected(t *testing.T) {
	l := NewLog(Limits{Events: 100, Bytes: 1 << 20}, 1)
	var c Collected
	limits := Limits{Events: 4, Bytes: 1 << 20}
	// ask asks as a controller does, and returns what it then has.
	ask := func(bytes int) string {
		last := l.Last()
		after, asks := c.Wants(last)
		if !asks {
			return "asks nothing: " + texts(c.Events())
		}
		list, others := Newest(l.Events(), after, bytes)
		data, err := json.Marshal(Answer{Events: list, Others: others})
		if err != nil {
			t.Fatal(err)
		}
		c.Put(noon.Add(time.Hour), data, last, limits)
		return texts(c.Events())
	}
	want := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	want(ask(1000), "asks nothing: ")
	l.Add(at(0, "a", "1"))
	l.Add(at(1, "b", "1"))
	want(ask(1000), "a:1 b:1")
	want(ask(1000), "asks nothing: a:1 b:1")
	l.Add(at(2, "a", "1"))
	want(ask(1000), "a:1*2 b:1")
	for i := range 5 {
		l.Add(at(i, "c", fmt.Sprint(i)))
	}
	want(ask(1000), "c:1 c:2 c:3 c:4")
	want(ask(1000), "asks nothing: c:1 c:2 c:3 c:4")
	l = NewLog(Limits{Events: 100, Bytes: 1 << 20}, 1) // the node lost its state
	l.Add(at(0, "new", "1"))
	want(ask(1000), "new:1")
	if n := c.Drop(); n == 0 || c.bytes != 0 {
		t.Errorf("%d, %d", n, c.bytes)
	}
	want(ask(1000), "new:1")
}

// inFile returns how many bytes events have in a file.
func inFile(list []Event) (bytes int) {
	for _, e := range list {
		bytes += len(Encode(e))
	}
	return bytes
}

// What is counted is what the events take in memory: short ones take several times their length in a file.
func TestCollectedEventsAreCountedAsTheMemoryThatTheyTake(t *testing.T) {
	if size := int(reflect.TypeFor[Event]().Size()); size != eventBytes {
		t.Errorf("an Event has %d bytes", size)
	}
	var a Answer
	for i := range uint64(200) {
		a.Events = append(a.Events, Event{Seq: i + 1, Time: noon, Kind: State, Object: "ni/a", Text: "x"})
	}
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	counted, all := 0, make([]Collected, 500)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range all {
		counted += all[i].Put(noon, data, 200, Limits{Events: 200, Bytes: 32 << 10})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int(after.HeapAlloc) - int(before.HeapAlloc); used > counted*5/4 || used < counted*3/4 {
		t.Errorf("%d bytes are counted, %d are used", counted, used)
	}
	if grown := all[0].Trim(Limits{Events: 25, Bytes: 4 << 10}); len(all[0].Events()) != 25 || all[0].Events()[0].Seq != 176 ||
		grown >= 0 || all[0].bytes != counted/len(all)+grown {
		t.Errorf("%d events, %d bytes more", len(all[0].Events()), grown)
	}
	if _, asks := all[0].Wants(200); asks {
		t.Error("what was dropped is asked for again")
	}
	runtime.KeepAlive(all)
}

// A node whose clock is fast, or which lies, has no events after the time at which it was asked.
func TestNoEventIsAfterNow(t *testing.T) {
	late := noon.Add(1000 * time.Hour)
	data, err := json.Marshal(Answer{Events: []Event{{Seq: 1, Time: late, Kind: State}, {Seq: 2, Time: noon, Kind: State},
		{Seq: 3, Time: noon, Count: 2, Last: late, Rev: 4, Kind: State}}})
	if err != nil {
		t.Fatal(err)
	}
	var c Collected
	now := noon.Add(time.Minute)
	c.Put(now, data, 4, Limits{Events: 10, Bytes: 1 << 20})
	if e := c.Events(); len(e) != 3 || !e[0].Time.Equal(now) || !e[1].Time.Equal(noon) || !e[2].Time.Equal(noon) ||
		!e[2].Last.Equal(now) {
		t.Errorf("%+v", e)
	}
}

// A node may answer anything.
func TestAHostileAnswer(t *testing.T) {
	limits := Limits{Events: 50, Bytes: 4 << 10}
	long, err := json.Marshal(Answer{Events: []Event{{Seq: 1, Time: noon, Kind: State, Text: strings.Repeat("x", 1<<20)}}})
	if err != nil {
		t.Fatal(err)
	}
	var many []Event
	for i := range uint64(5000) {
		many = append(many, Event{Seq: 5000 - i, Time: noon.Add(time.Duration(i)), Kind: State, Object: fmt.Sprint(i)})
	}
	flood, err := json.Marshal(Answer{Events: many})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"nothing": nil, "null": []byte("null"), "no JSON": []byte("{"), "another type": []byte(`{"events":{"a":1}}`),
		"a wrong time": []byte(`{"events":[{"seq":1,"time":"yesterday","kind":"state"}]}`),
		"no node's":    []byte(`{"events":[{"seq":0},{"seq":18446744073709551615,"kind":"state"},{"seq":1,"kind":"x"}]}`),
		"a long one":   long, "very many": flood,
		"deep": []byte(`{"events":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`),
	} {
		var c Collected
		grown := c.Put(noon.Add(time.Hour), data, 7, limits)
		if grown != c.bytes || inFile(c.Events()) > limits.Bytes || len(c.Events()) > limits.Events {
			t.Errorf("%s: %d events, %d bytes, grown by %d", name, len(c.Events()), c.bytes, grown)
		}
		if _, again := c.Wants(7); again && c.last == 7 {
			t.Errorf("%s: it is asked again for the same number", name)
		}
		if name == "a long one" && (len(c.Events()) != 1 || len(c.Events()[0].Text) > 2*maxLine) {
			t.Errorf("%s: %d events", name, len(c.Events()))
		}
	}
	var c Collected
	for _, n := range []uint64{0, 1 << 60} {
		if _, asks := c.Wants(n); asks {
			t.Errorf("it asks for %d", n)
		}
	}
}
