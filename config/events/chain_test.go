package events

import (
	"strings"
	"testing"
	"time"
)

// of returns an event with a cause.
func of(kind, object, text string, c Cause) Event {
	return Event{Time: noon, Kind: kind, Object: object, Text: text, Cause: c}
}

// The first words of each story are what happens, its last event's chain is what is wanted, by text.
func TestWhatLedToAnEvent(t *testing.T) {
	first := of(Config, "config", "generation 1", Cause{Config: 1, Generation: "j:1", By: "uid 0 (root)"})
	second := of(Config, "config", "generation 2", Cause{Config: 2, Generation: "j:2", By: "node.yaml"})
	apply := Cause{Config: 1, Apply: "1.2.3", Began: BeganConfig}
	failed := of(Failed, "adapter/x/0", "add link failed", apply)
	failed.Op = "add link"
	recovered := of(Recovered, "adapter/x/0", "add link, after 2 attempts", Cause{Config: 1, Apply: "1.2.4", Began: BeganRetry})
	recovered.Op = "add link"
	ports := Cause{Config: 1, Apply: "1.2.5", Began: BeganPorts}
	late := of(Applied, "ni/a", "2 changes", ports)
	late.Time = noon.Add(time.Minute)
	for _, one := range []struct {
		name    string
		story   []Event
		related []string
		want    string
	}{
		{"a state by its apply by its config", []Event{first, of(Applied, "ni/a", "9 changes", apply),
			of(State, "ni/a", "Present", apply)}, nil, "generation 1 < 9 changes"},
		{"a failure counts more than what worked", []Event{first, failed, of(Applied, "ni/a", "9 changes", apply),
			of(State, "ni/a", "Failed", apply)}, nil, "generation 1 < add link failed"},
		{"an apply that changed nothing", []Event{first, of(State, "ni/a", "Present", apply)}, nil, "generation 1"},
		{"the config of the object, not the newest", []Event{first, second, of(State, "ni/a", "Creating", Cause{Config: 1})},
			nil, "generation 1"},
		{"a refused config is none", []Event{second, {Time: noon, Kind: Config, Object: "config", Text: "refused",
			Error: "x", Cause: Cause{Config: 2}}, of(State, "ni/a", "Creating", Cause{Config: 2})}, nil, "generation 2"},
		{"a config that is no longer stored", []Event{second, of(State, "ni/a", "Creating", Cause{Config: 1})}, nil, ""},
		{"a port that went", []Event{first, of(Port, "port/wan", "up -> down", Cause{}), of(Applied, "ni/a", "2 changes", ports),
			of(State, "ni/a", "Waiting", ports)}, nil, "generation 1 < up -> down < 2 changes"},
		{"not one that went long before", []Event{first, of(Port, "port/wan", "up -> down", Cause{}), late}, nil,
			"generation 1"},
		{"an uplink of the network itself", []Event{first, of(Uplink, "ni/b", "wan -> lte", Cause{}),
			of(Applied, "ni/a", "2 changes", ports)}, nil, "generation 1"},
		{"what is over", []Event{first, failed, recovered}, nil, "generation 1 < add link failed"},
		{"an app by its adapter", []Event{first, failed, of(State, "app/x", "pending", Cause{Config: 1})},
			[]string{"ni/a"}, "generation 1 < add link failed"},
		{"an app by its network", []Event{first, of(State, "app/x", "pending", Cause{Config: 1}),
			of(Applied, "ni/a", "9 changes", apply), of(State, "app/x", "ready", Cause{Config: 1})}, []string{"ni/a"},
			"generation 1 < 9 changes"},
		{"an app whose network did nothing since", []Event{first, of(Applied, "ni/a", "9 changes", apply),
			of(State, "app/x", "ready", Cause{Config: 1}), of(State, "app/x", "pending", Cause{Config: 1})},
			[]string{"ni/a"}, "generation 1"},
		{"of another network's apply nothing", []Event{first, of(Applied, "ni/b", "9 changes", Cause{Config: 1, Apply: "1.9.3"}),
			of(State, "ni/a", "Present", apply)}, nil, "generation 1"},
	} {
		l := NewLog(Limits{Events: 100, Bytes: 1 << 20}, 1)
		var e Event
		for _, e = range one.story {
			e = l.Add(e, one.related...).Event
		}
		var got []string
		for _, o := range Chain(l.Events(), e) {
			got = append(got, o.Text)
		}
		if s := strings.Join(got, " < "); s != one.want {
			t.Errorf("%s: %s, want %s", one.name, s, one.want)
		}
	}
}

func TestAChainInWords(t *testing.T) {
	l := NewLog(Limits{Events: 100, Bytes: 1 << 20}, 1)
	l.Add(of(Config, "config", "generation 1 from apply: networks 1, apps 0, ports 0",
		Cause{Config: 1, Generation: "j:1", Source: "apply", By: "uid 0 (root)"}))
	apply := Cause{Config: 1, Apply: "1.2.3", Began: BeganConfig}
	failed := of(Failed, "ni/a", "add link es1 failed", apply)
	failed.Name, failed.Op, failed.Command, failed.Error = "blue", "add link es1", "ip link add es1", "File exists"
	l.Add(failed)
	e := l.Add(of(State, "ni/a", "Creating -> CreatingFailed", apply)).Event
	e.Chain = Chain(l.Events(), e)
	want := `event 1: config: generation 1 from apply: networks 1, apps 0, ports 0, as j:1, by uid 0 (root)
apply 1.2.3, since its config changed
event 2: ni/a (blue): add link es1 failed: ip link add es1: File exists
event 3: ni/a: Creating -> CreatingFailed`
	if got := strings.Join(Why(e), "\n"); got != want {
		t.Errorf("%s", got)
	}
	if got := Why(l.Add(of(State, "ni/b", "Creating", Cause{Config: 7})).Event); len(got) != 2 ||
		got[0] != "config 7 of this node, whose event is no longer stored" {
		t.Errorf("%q", got)
	}
	if got := Why(l.Add(of(Crash, "actor/x", "crashed", Cause{})).Event); len(got) != 2 || got[0] != "no cause is known" {
		t.Errorf("%q", got)
	}
}

// A list that a peer sends may say anything.
func TestAChainOfLiesEnds(t *testing.T) {
	var list []Event
	for i := range uint64(1000) {
		list = append(list, Event{Seq: i + 1, Time: noon, Kind: State, Cause: Cause{Event: i}})
	}
	list = append(list, Event{Seq: 5000, Cause: Cause{Event: 5000}}, Event{Seq: 5001, Cause: Cause{Event: 5002}},
		Event{Seq: 5002, Cause: Cause{Event: 5001}})
	for _, e := range list {
		if n := len(Chain(list, e)); n > longestChain+1 {
			t.Fatalf("%d events led to %d", n, e.Seq)
		}
	}
}
