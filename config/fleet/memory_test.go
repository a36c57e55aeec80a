package fleet

import (
	"reflect"
	"testing"

	"edgespan/config/layers"
)

// What two replicas wrote of a node while it moved between them is put together.
func TestMergeOfMemories(t *testing.T) {
	f := func(d Digest, attempt uint64) Failure { return Failure{Digest: d, Attempt: attempt} }
	m := Memory{Push: Attempt{Number: 5, Digest: a}, Floor: 2, Failures: []Failure{f(a, 5)}}
	m.merge(Memory{Push: Attempt{Number: 4, Digest: b}, Floor: 3, Adopted: true, Releasing: "ben", Failures: []Failure{f(b, 3), f(Digest{Config: "C"}, 4)}})
	want := Memory{Push: Attempt{Number: 5, Digest: a}, Floor: 3, Adopted: true, Releasing: "ben", Failures: []Failure{f(a, 5), f(Digest{Config: "C"}, 4)}}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("%+v\nwant %+v", m, want)
	}
	m.merge(Memory{Push: Attempt{Number: 6, Digest: b}})
	if m.Push.Number != 6 || m.Floor != 3 || !m.Adopted {
		t.Errorf("after a later push: %+v", m)
	}
}

// Two boards may be learnt with versions of the same name: their layers are not shared.
func TestLearntBoardsAreKindsOfTheirOwn(t *testing.T) {
	l := layers.Library{Base: []string{"V_1"}}
	h := Hardware{Learnt: map[string]layers.Library{"x1": l, "x2": l}}
	if h.KindOf(layers.Versions{Board: "x1"}).Name == h.KindOf(layers.Versions{Board: "x2"}).Name {
		t.Error("x1 and x2 are one kind")
	}
}

func TestAClockSetBackHoldsNoQuery(t *testing.T) {
	q := NewQueries(Defaults(""))
	q.Ask(noon, "n", "b")
	if granted, _ := q.Ask(noon.Add(-sec), "n", "b"); !granted {
		t.Error("a query waits for a time that is to come again")
	}
}

// Two replicas make an attempt of one number: the one that the store has was made, the other
// one could not be stored and was not sent.
func TestOfTwoAttemptsOfOneNumberTheStoredOneWasMade(t *testing.T) {
	m := Memory{Push: Attempt{Number: 4, On: "mine"}}
	m.merge(Memory{Push: Attempt{Number: 4, On: "theirs"}})
	if m.Push.On != "theirs" {
		t.Errorf("the last attempt is that of stream %q", m.Push.On)
	}
	m.merge(Memory{Push: Attempt{Number: 3, On: "before"}})
	if m.Push.Number != 4 {
		t.Errorf("the last attempt is %d", m.Push.Number)
	}
}
