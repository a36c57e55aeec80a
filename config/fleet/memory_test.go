package fleet

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"edgespan/config/layers"
	"edgespan/config/stateloop/peer"
)

// What two replicas wrote about a node while it moved between them is merged.
func TestMergeOfMemories(t *testing.T) {
	f := func(d Digest, attempt uint64) ConfigFailure { return ConfigFailure{Digest: d, Attempt: attempt} }
	m := Memory{Push: Attempt{Number: 5, Digest: a}, Floor: 2, Failures: []ConfigFailure{f(a, 5)}}
	m.merge(Memory{Push: Attempt{Number: 4, Digest: b}, Floor: 3, Adopted: true, Releasing: "ben",
		Failures: []ConfigFailure{f(b, 3), f(Digest{Config: "C"}, 4)}})
	want := Memory{Push: Attempt{Number: 5, Digest: a}, Floor: 3, Adopted: true, Releasing: "ben",
		Failures: []ConfigFailure{f(a, 5), f(Digest{Config: "C"}, 4)}}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("%+v\nwant %+v", m, want)
	}
	m.merge(Memory{Push: Attempt{Number: 6, Digest: b}})
	if m.Push.Number != 6 || m.Floor != 3 || !m.Adopted {
		t.Errorf("after a later push: %+v", m)
	}
}

// Two boards may report versions with the same name: their layers are not shared.
func TestLearntBoardsAreKindsOfTheirOwn(t *testing.T) {
	l := layers.Library{Base: []string{"V_1"}}
	h := Hardware{Learnt: map[string]layers.Library{"x1": l, "x2": l}}
	if h.KindOf(layers.Versions{Board: "x1"}).Name == h.KindOf(layers.Versions{Board: "x2"}).Name {
		t.Error("x1 and x2 are one kind")
	}
}

func TestAClockSetBackHoldsNoQuery(t *testing.T) {
	q := NewQueries(Defaults(""))
	q.Allow(noon, "n", "b")
	if granted, _ := q.Allow(noon.Add(-sec), "n", "b"); !granted {
		t.Error("a query waits for a time that is to come again")
	}
}

// Two replicas make an attempt with the same number: the stored one was made; the other could not be stored and was not
// sent.
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

// In a rolling upgrade two versions write the memory of one node in turns.
func TestWhatANewerVersionKeepsIsKept(t *testing.T) {
	m, err := ParseMemory([]byte(`{"push":{"number":50,"newInside":1},"adopted":true,"newField":{"a":[1]}}`))
	if err != nil || m.Push.Number != 50 || !m.Adopted {
		t.Fatalf("%+v, %v", m, err)
	}
	long, err := ParseMemory([]byte(`{"failures":[{"digest":{"config":"` + strings.Repeat("y", 65) +
		`"}},{"digest":{"config":"A"}}]}`))
	if err != nil || len(long.Failures) != 1 || long.Failures[0].Digest.Config != "A" {
		t.Errorf("failures of what no digest is are read as %+v, %v", long.Failures, err)
	}
	n := New("n", Memory{}, Defaults("r"))
	n.Step(noon, Recalled{m})
	n.Step(noon, Retry{}) // it is written
	text, err := json.Marshal(n.Memory())
	if err != nil || !strings.Contains(string(text), `"newField":{"a":[1]}`) ||
		!strings.Contains(string(text), `"floor":50`) {
		t.Errorf("written as %s, %v", text, err)
	}
	for _, bad := range []string{`null`, `[]`, `{"push":7}`, `{`, `{} {}`} {
		if got, err := ParseMemory([]byte(bad)); err == nil {
			t.Errorf("%s is read as %+v", bad, got)
		}
	}
}

// A field that is known is never kept twice, under its name and as a newer version's.
func TestEveryFieldOfAMemoryIsItsOwn(t *testing.T) {
	m := Memory{
		Push: Attempt{Number: 1}, Failures: []ConfigFailure{{Attempt: 1}}, Floor: 1, Adopted: true, Releasing: "x",
		Has: []peer.Leftover{{ID: "x"}},
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &fields); err != nil || len(fields) != reflect.TypeFor[Memory]().NumField()-1 {
		t.Fatalf("%s: has not every field but the private one; %v", text, err)
	}
	if back, err := ParseMemory(text); err != nil || back.other != nil {
		t.Errorf("%v is kept as of a newer version; %v", back.other, err)
	}
}

// A node whose memory can't be read is not judged: it could get attempts of numbers that were
// given, failed configs, and removals that nobody adopted.
func TestANodeWhoseMemoryCannotBeReadIsLeftAlone(t *testing.T) {
	n := New("n", Memory{}, Defaults("r"))
	var did []Effect
	for _, e := range []Event{
		Unread{"it is of a later version"}, Known{Joined: true, Topology: true}, Connected{Stream: "1", Replica: "r"},
		want(a, 1), has(b, 0),
		Rejected{Attempt: 1, Digest: a}, Retry{}, AdoptionDecided{Replace: true},
	} {
		did = append(did, n.Step(noon, e)...)
	}
	for _, e := range did {
		switch e.(type) {
		case Push, Save, Confirm, Compare:
			t.Errorf("it does %T", e)
		}
	}
	if why := strings.Join(n.Explain(noon), " "); n.State(noon) != ConfigError ||
		!strings.Contains(why, "it is of a later version") || !n.Unread() {
		t.Errorf("%s: %s", n.State(noon), why)
	}
	did = n.Step(noon, Recalled{Memory{Push: Attempt{Number: 50}, Adopted: true}})
	pushed := uint64(0)
	for _, e := range did {
		if p, ok := e.(Push); ok {
			pushed = p.Attempt
		}
	}
	if pushed != 51 {
		t.Errorf("read again attempt %d is made: %+v", pushed, did)
	}
}

// What joins again after it was forgotten counts on, also where not all of its memory can be read.
func TestAMemoryThatIsDamagedCountsOn(t *testing.T) {
	at := noon.Unix()
	for _, c := range []struct {
		old   string
		want  string
		whole bool
	}{
		{`{"push":{"number":50,"digest":{"Config":"a"}},"floor":3,"adopted":true,"has":[{"ID":"x"}]}`, "50 50 false 1", true},
		{`{"push":{"number":50,"digest":7},"has":[{"ID":"x"}]}`, "50 50 false 1", false},
		{`{"push":{"number":50},"has":"of another form","adopted":true}`, "50 50 false 0", false},
		{`{"push":"of another form","has":[{"ID":"x"}]}`, fmt.Sprint(at, at, false, 1), false},
		{`{"push":{"number":-1}}`, fmt.Sprint(at, at, false, 0), false},
		{`{"pu`, fmt.Sprint(at, at, false, 0), false},
		{``, fmt.Sprint(at, at, false, 0), false},
		{`null`, fmt.Sprint(at, at, false, 0), false},
	} {
		m, whole := RejoinMemory([]byte(c.old), noon)
		if got := fmt.Sprint(m.Push.Number, m.Floor, m.Adopted, len(m.Has)); got != strings.ReplaceAll(c.want, "  ", " ") ||
			whole != c.whole || m.Push.Digest != (Digest{}) {
			t.Errorf("%s: %s, whole %t; want %s", c.old, got, whole, c.want)
		}
	}
}
