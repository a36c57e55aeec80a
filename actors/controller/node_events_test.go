package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"edgespan/config/events"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
)

// eventful makes a node answer questions for events from a log, and returns a function that adds one.
func (n *fakeNode) eventful(first uint64) (add func(object, text string)) {
	log := events.NewLog(events.Limits{Events: 1000, Bytes: 1 << 20}, first)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = func(q events.Request) []byte {
		list, others := events.Newest(log.Events(), q.After, q.Bytes)
		text, err := json.Marshal(events.Answer{Events: list, Others: others})
		if err != nil {
			panic(err)
		}
		return text
	}
	return func(object, text string) {
		n.mu.Lock()
		defer n.mu.Unlock()
		log.Add(events.Event{Time: time.Now(), Kind: events.State, Object: object, Name: "blue", Text: text})
		n.lastEvent = log.Last()
	}
}

// saw returns the events that a controller answers, as "node object text".
func (r *rig) saw(c *Controller, q fleetapi.EventQuery) (lines []string, silent []string) {
	r.Helper()
	if q.Last == 0 {
		q.Last = 1000
	}
	got, err := c.Events(r.Context(), q)
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range got.Events {
		line := e.Node + " " + e.Object + " " + e.Text
		if e.Count > 1 {
			line += fmt.Sprintf("*%d", e.Count)
		}
		lines = append(lines, line)
	}
	return lines, got.Silent
}

func (r *rig) sees(c *Controller, q fleetapi.EventQuery, want ...string) {
	r.Helper()
	if got, silent := r.saw(c, q); strings.Join(got, ", ") != strings.Join(want, ", ") || len(silent) > 0 {
		r.Errorf("events: %q, silent %q; want %q", got, silent, want)
	}
}

// Every replica shows the events of every node, wherever its stream is, and also once it is offline.
func TestEventsOfNodesAtSeveralReplicas(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		one, two, old := r.node(a, "n1"), r.node(b, "n2"), r.node(a, "n3")
		first, second := one.eventful(100), two.eventful(1)
		old.mu.Lock()
		old.lastEvent = 0 // of an older release
		old.mu.Unlock()
		first("ni/x", "Creating")
		second("ni/y", "Creating")
		first("ni/x", "Present")
		r.pass(20 * time.Second)
		for _, c := range []*Controller{a, b} {
			r.sees(c, fleetapi.EventQuery{}, "n1 ni/x Creating", "n1 ni/x Present", "n2 ni/y Creating")
			r.sees(c, fleetapi.EventQuery{Node: "n1", Object: "ni/blue", Last: 1}, "n1 ni/x Present")
			r.sees(c, fleetapi.EventQuery{Node: "n2", Kind: events.State}, "n2 ni/y Creating")
			r.sees(c, fleetapi.EventQuery{Node: "n2", Kind: events.Failed})
			r.sees(c, fleetapi.EventQuery{Node: "n3"})
			r.sees(c, fleetapi.EventQuery{Since: time.Now()})
		}
		first("ni/x", "Present") // it repeats: counted, with the next report
		r.pass(20 * time.Second)
		r.sees(b, fleetapi.EventQuery{Node: "n1"}, "n1 ni/x Creating", "n1 ni/x Present*2")

		one.cut()
		r.pass(20 * time.Second)
		for _, c := range []*Controller{a, b} {
			r.sees(c, fleetapi.EventQuery{Node: "n1"}, "n1 ni/x Creating", "n1 ni/x Present*2")
		}
		first("ni/x", "Removing")
		one.connect(b)
		r.pass(20 * time.Second)
		for _, c := range []*Controller{a, b} {
			r.sees(c, fleetapi.EventQuery{Node: "n1"}, "n1 ni/x Creating", "n1 ni/x Present*2", "n1 ni/x Removing")
		}
		var missing *ops.NotFoundError
		if _, err := a.Events(r.Context(), fleetapi.EventQuery{Node: "none", Last: 1}); !errors.As(err, &missing) {
			t.Errorf("%v", err)
		}
	})
}

// A replica that does not answer is named.
func TestEventsOfASilentReplica(t *testing.T) {
	onRig(t, func(r *rig) {
		a, b := r.start("a"), r.start("b")
		one, two := r.node(a, "n1"), r.node(b, "n2")
		one.eventful(1)("ni/x", "Present")
		two.eventful(1)("ni/y", "Present")
		r.pass(20 * time.Second)
		r.store.Fail(errors.New("cut off"))
		got, silent := r.saw(a, fleetapi.EventQuery{})
		r.store.Fail(nil)
		if strings.Join(got, ", ") != "n1 ni/x Present" || strings.Join(silent, ", ") != "b" {
			t.Errorf("%q, silent %q", got, silent)
		}
	})
}

// A node that answers far too much, or reports another number each time, is asked ever less, keeps no more than its
// share, and delays no other node.
func TestANodeThatFloodsWithEvents(t *testing.T) {
	onRig(t, func(r *rig) {
		c := r.start("a")
		long, liar, good := r.node(c, "long"), r.node(c, "liar"), r.node(c, "good")
		add := good.eventful(1)
		long.mu.Lock()
		long.lastEvent = 1
		long.events = func(events.Request) []byte { return make([]byte, 4<<20) }
		long.mu.Unlock()
		seq := uint64(0)
		liar.mu.Lock()
		liar.lastEvent = 1
		liar.events = func(q events.Request) []byte {
			liar.lastEvent++
			var a events.Answer
			for range 500 {
				seq++
				a.Events = append(a.Events, events.Event{Seq: seq, Time: time.Now(), Kind: events.State,
					Object: fmt.Sprint("ni/", seq), Text: strings.Repeat("\x1b[2J", 20)})
			}
			text, err := json.Marshal(a)
			if err != nil {
				panic(err)
			}
			return text
		}
		liar.mu.Unlock()
		for range 180 { // an hour
			long.mu.Lock()
			long.lastEvent++
			long.mu.Unlock()
			add("ni/x", fmt.Sprint(time.Now()))
			r.pass(20 * time.Second)
		}
		long.mu.Lock()
		asked := long.heard["events"]
		long.mu.Unlock()
		liar.mu.Lock()
		lied := liar.heard["events"]
		liar.mu.Unlock()
		if asked < 1 || asked > 3 || lied > 400 {
			t.Errorf("the first was asked %d times, the second %d times", asked, lied)
		}
		got, _ := r.saw(c, fleetapi.EventQuery{Node: "liar"})
		if len(got) > 200 || strings.Contains(strings.Join(got, ""), "\x1b") {
			t.Errorf("%d events of the second are kept", len(got))
		}
		if got, _ := r.saw(c, fleetapi.EventQuery{Node: "good"}); len(got) < 150 {
			t.Errorf("%d events of the third are kept", len(got))
		}
		r.wants(c, "good", "InSync")
	})
}
