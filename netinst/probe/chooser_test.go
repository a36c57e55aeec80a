package probe

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// town is a network with the ports wan (cost 0) and lte (cost 10), and the chooser that chooses between them.
type town struct {
	*testing.T
	c      *Chooser
	now    time.Time
	ports  map[string]*Port
	watch  []ID
	runs   map[ID]*Outcomes
	record Record
	port   string // in use
	choice Choice
	moves  int
	timers map[uint64]time.Time
}

func newTown(t *testing.T, config Config) *town {
	w := &town{T: t, c: New(Record{}), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), runs: map[ID]*Outcomes{},
		timers: map[uint64]time.Time{}, ports: map[string]*Port{
			"wan": {Label: "wan", IfName: "eth0", Selectors: []string{"uplink"}, Reach: Out,
				Gateway: netip.MustParseAddr("192.0.2.1"), Servers: []netip.Addr{netip.MustParseAddr("198.51.100.53")},
				Neighbours: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}},
			"lte": {Label: "lte", IfName: "wwan0", Selectors: []string{"uplink"}, Reach: Out, Cost: 10,
				Servers: []netip.Addr{netip.MustParseAddr("198.51.100.54")}},
		}}
	w.step(Configured{Config: config, Selectors: []string{"uplink"}, At: w.now})
	w.see()
	return w
}

func (w *town) see() {
	var list []Port
	for _, label := range slices.Sorted(maps.Keys(w.ports)) {
		list = append(list, *w.ports[label])
	}
	w.step(PortsSeen{list, w.now})
}

func (w *town) step(e Event) {
	for _, eff := range w.c.Step(e) {
		switch e := eff.(type) {
		case Watch:
			w.watch = e.IDs
		case Choose:
			w.choice = e.Choices["uplink"]
			if w.choice.Port != w.port {
				w.port, w.moves = w.choice.Port, w.moves+1
			}
		case Journal:
			w.record = e.Record
		case Timer:
			w.timers[e.Token] = w.now.Add(e.After)
		}
	}
}

// pass lets time pass, with the timers that end in it.
func (w *town) pass(d time.Duration) {
	end := w.now.Add(d)
	for len(w.timers) > 0 {
		token := slices.MinFunc(slices.Collect(maps.Keys(w.timers)), func(a, b uint64) int {
			return w.timers[a].Compare(w.timers[b])
		})
		at := w.timers[token]
		if at.After(end) {
			break
		}
		delete(w.timers, token)
		w.now = at
		w.step(TimerDue{token, at})
	}
	w.now = end
}

// answer ends one shot of each probe of a port; fault is "" for an answer, and remote tells gateways from the others.
func (w *town) answer(label, fault string, remote bool) {
	for _, id := range w.watch {
		if id.Port != label || (id.Method != ARP) != remote {
			continue
		}
		o := w.runs[id]
		if o == nil {
			o = &Outcomes{ID: id}
			w.runs[id] = o
		}
		*o = o.Add(Outcome{At: w.now, Took: 10 * time.Millisecond, Error: fault})
		w.step(OutcomesSeen{*o, w.now})
	}
}

// none ends one shot of each remote probe of a port, which can't be sent.
func (w *town) none(label string) {
	for _, id := range w.watch {
		if id.Port == label && id.Method != ARP {
			o := w.runs[id]
			if o == nil {
				o = &Outcomes{ID: id}
				w.runs[id] = o
			}
			*o = o.Add(Outcome{At: w.now, Error: "no route", None: true})
			w.step(OutcomesSeen{*o, w.now})
		}
	}
}

// second is one second in which each probe of the ports that work answers, and those of others do not.
func (w *town) seconds(n int, dead ...string) {
	for range n {
		w.pass(time.Second)
		for label := range w.ports {
			for _, remote := range []bool{false, true} {
				fault := ""
				if slices.Contains(dead, label) || remote && slices.Contains(dead, label+" far") {
					fault = "no answer"
				}
				w.answer(label, fault, remote)
			}
		}
	}
}

func (w *town) uses(port, when string) {
	w.Helper()
	if w.port != port {
		w.Fatalf("%s: %s is in use, not %s (%+v)", when, w.port, port, w.choice)
	}
}

func TestThePortOfLowestCostThatWorksIsChosen(t *testing.T) {
	w := newTown(t, Config{})
	w.uses("wan", "before any outcome")
	w.seconds(20)
	w.uses("wan", "both work")
	w.seconds(7, "wan far")
	w.uses("wan", "seven failures")
	w.seconds(1, "wan far")
	w.uses("lte", "the eighth failure, though the gateway answers")
	if want := "lte: works; wan: no target answers (dns 198.51.100.53: no answer)"; w.choice.Why != want {
		t.Errorf("%q, want %q", w.choice.Why, want)
	}
	w.seconds(3)
	w.uses("lte", "wan works again")
	w.seconds(9)
	w.uses("lte", "wan is held")
	w.seconds(2)
	w.uses("wan", "wan has worked for its hold-down")
	if w.moves != 3 {
		t.Errorf("%d moves", w.moves)
	}
}

func TestWhatTheHostShowsCountsAtOnce(t *testing.T) {
	for name, reach := range map[string]Reach{"link": Down, "address": NoAddress, "gateway": NoRoute} {
		w := newTown(t, Config{})
		w.seconds(20)
		w.ports["wan"].Reach = reach
		w.see()
		w.uses("lte", "no "+name)
		w.ports["wan"].Reach = Out
		w.see()
		w.uses("lte", name+" is back, and held")
		w.seconds(11)
		w.uses("wan", "the hold-down is over")
	}
}

func TestAPortThatTogglesMovesTheNetworkOnce(t *testing.T) {
	w := newTown(t, Config{})
	w.seconds(20)
	w.moves = 0
	for range 10 {
		w.ports["wan"].Reach = Down
		w.see()
		w.pass(150 * time.Millisecond)
		w.ports["wan"].Reach = Out
		w.see()
		w.pass(150 * time.Millisecond)
	}
	if w.uses("lte", "after ten toggles"); w.moves != 1 {
		t.Errorf("%d moves", w.moves)
	}
	w.seconds(11)
	w.uses("wan", "its first hold-down is over")
	for hold := 20; hold <= 80; hold *= 2 { // it fails in service each time
		w.seconds(1)
		w.ports["wan"].Reach = Down
		w.see()
		w.ports["wan"].Reach = Out
		w.see()
		w.seconds(hold - 1)
		w.uses("lte", fmt.Sprint("held for ", hold))
		w.seconds(2)
		w.uses("wan", fmt.Sprint("after ", hold))
	}
}

func TestIfNothingWorksThePortInUseStays(t *testing.T) {
	w := newTown(t, Config{})
	w.seconds(20)
	w.seconds(8, "wan far")
	w.uses("lte", "wan's far side is dead")
	w.seconds(30, "wan", "lte")
	w.uses("lte", "both are dead")
	w.seconds(4, "wan")
	w.uses("lte", "it works again")
}

func TestAGatewayThatDoesNotAnswerIsOutrankedByATarget(t *testing.T) {
	w := newTown(t, Config{})
	w.seconds(20)
	for range 20 {
		w.pass(time.Second)
		w.answer("wan", "no answer", false)
		w.answer("wan", "", true)
	}
	w.uses("wan", "its target answers")
	delete(w.ports, "lte")
	w.ports["wan"].Servers = nil
	w.see()
	for _, id := range w.watch {
		if id.Method != ARP || id.Interval != aloneInterval {
			t.Errorf("%v, want the gateway alone, and seldom", id)
		}
	}
}

func TestWhatCannotBeProbedSaysNothing(t *testing.T) {
	w := newTown(t, Config{})
	for range 20 {
		w.pass(time.Second)
		w.answer("wan", "", false)
		w.none("wan")
	}
	w.uses("wan", "its gateway answers, and there is no route to the target")
	for range 8 {
		w.pass(time.Second)
		w.answer("wan", "no answer", false)
		w.none("wan")
	}
	w.uses("lte", "its gateway does not answer")
}

// Programs such as NetworkManager move the host's default route away from a port whose far side is dead. With a strict
// rp_filter, its targets can't be asked then.
func TestATargetThatCannotBeAskedAnyMoreStillFails(t *testing.T) {
	w := newTown(t, Config{})
	w.seconds(20)
	w.seconds(10, "wan far")
	w.uses("lte", "the far side of wan is dead")
	for range 200 {
		w.none("wan")
		w.answer("wan", "", false)
		w.answer("lte", "", true)
		w.pass(time.Second)
	}
	w.uses("lte", "nothing answered by wan")
	w.seconds(25)
	w.uses("wan", "its targets are asked again, and answer")
	for range 20 {
		w.none("wan")
		w.pass(time.Second)
	}
	w.uses("wan", "targets that answered can't be asked any more")
}

func TestADrainedPortIsUsedIfNoOtherWorks(t *testing.T) {
	w := newTown(t, Config{})
	w.seconds(20)
	w.step(Drained{map[string]time.Time{"wan": w.now.Add(time.Hour)}, w.now})
	w.uses("lte", "wan is drained")
	w.seconds(8, "lte")
	w.uses("wan", "lte is dead")
	w.seconds(20)
	w.uses("lte", "lte works")
	w.pass(time.Hour)
	w.uses("wan", "the drain is over")
	w.step(Drained{map[string]time.Time{"wan": {}}, w.now})
	w.pass(24 * time.Hour)
	w.uses("lte", "a drain without end")
	w.step(Drained{nil, w.now})
	w.uses("wan", "undrained")
}

// What people are shown of a port: since when it has its class, what it loses, and why it is in no better class.
func TestAScoreSaysSinceWhenAndWhy(t *testing.T) {
	w := newTown(t, Config{})
	began := w.now
	score := func(label string) Score {
		t.Helper()
		for _, s := range w.choice.Ports {
			if s.Label == label {
				return s
			}
		}
		t.Fatalf("no score of %s: %+v", label, w.choice)
		return Score{}
	}
	check := func(when, label string, class Class, since time.Time, loss int, why string) {
		t.Helper()
		if s := score(label); s.Class != class || !s.Since.Equal(since) || s.Loss != loss || s.Why != why {
			t.Errorf("%s: %s is %s since %v with %d %% lost (%s), want %s since %v with %d %% (%s)", when, label, s.Class,
				s.Since.Sub(began), s.Loss, s.Why, class, since.Sub(began), loss, why)
		}
	}
	w.seconds(20)
	check("both work", "wan", Working, began, 0, "")
	w.seconds(8, "wan far")
	failed := w.now
	check("the far side of wan is dead", "wan", NoTarget, failed, 29, "dns 198.51.100.53: no answer")
	w.seconds(40, "wan far")
	check("and stays so", "wan", NoTarget, failed, 100, "dns 198.51.100.53: no answer")
	check("and stays so", "lte", Working, began, 0, "")
	w.seconds(3)
	check("wan works again", "wan", Held, w.now, 91, "works again since a short time")
	w.seconds(60)
	back := score("wan").Since
	w.step(Drained{map[string]time.Time{"wan": w.now.Add(time.Hour)}, w.now})
	drained := w.now
	check("wan is drained", "wan", DrainedPort, drained, 0, "until "+drained.Add(time.Hour).Format(time.RFC3339))
	w.step(Drained{map[string]time.Time{"wan": {}}, w.now.Add(time.Minute)})
	check("for longer", "wan", DrainedPort, drained, 0, "until it is undrained")
	if want := failed.Add(53 * time.Second); !back.Equal(want) {
		t.Errorf("wan was held until %v, want %v", back.Sub(began), want.Sub(began))
	}
}

func TestOutcomesAreSummedUp(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	answer := func(s int) Outcome { return Outcome{At: at(s), Took: time.Duration(s) * time.Millisecond} }
	for _, c := range []struct {
		sentence string
		last     []Outcome
		want     Summary
	}{
		{"nothing was asked", nil, Summary{}},
		{"it answers", []Outcome{answer(2), answer(4)},
			Summary{Asked: true, Latency: 3 * time.Millisecond, Answered: at(4)}},
		{"it failed once", []Outcome{answer(2), {At: at(3), Error: "refused"}, answer(4)}, Summary{Asked: true, Loss: 33,
			Latency: 3 * time.Millisecond, Answered: at(4), Error: "refused", FailedAt: at(3)}},
		{"it fails", []Outcome{answer(2), {At: at(3), Error: "refused"}, {At: at(4), Error: "no answer"}},
			Summary{Asked: true, Failures: 2, Loss: 67, Latency: 2 * time.Millisecond, Answered: at(2), Error: "no answer",
				FailedAt: at(4)}},
		{"the interface has no such probe", []Outcome{{At: at(3), Error: "no ARP", None: true}},
			Summary{Asked: true, None: true}},
	} {
		if got := (Outcomes{Last: c.last}).Summary(); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.sentence, got, c.want)
		}
	}
}

func TestAShotIsLateByWhatItsTargetUsuallyTakes(t *testing.T) {
	answer := func(ms int) Outcome { return Outcome{Lasted: time.Duration(ms) * time.Millisecond} }
	failure := Outcome{Lasted: 800 * time.Millisecond, Error: "no answer"}
	for what, c := range map[string]struct {
		last []Outcome
		want time.Duration
	}{
		"none yet":              {nil, 200 * time.Millisecond},
		"near":                  {[]Outcome{answer(20)}, 200 * time.Millisecond},
		"far":                   {[]Outcome{answer(400), answer(20)}, 500 * time.Millisecond},
		"nearly at the timeout": {[]Outcome{answer(790)}, 800 * time.Millisecond},
		"failures":              {[]Outcome{failure, answer(20), {Lasted: time.Second, None: true}}, 200 * time.Millisecond},
	} {
		if got := (Outcomes{ID: ID{Timeout: 800 * time.Millisecond}, Last: c.last}).Late(); got != c.want {
			t.Errorf("%s: late after %v, want %v", what, got, c.want)
		}
	}
}

func TestARestartMovesNothing(t *testing.T) {
	w := newTown(t, Config{})
	w.seconds(20)
	w.seconds(8, "wan far")
	w.seconds(5)
	w.uses("lte", "wan is held")
	again := newTown(t, Config{})
	again.c, again.port, again.moves, again.now = New(w.record), "", 0, w.now
	again.step(Configured{Selectors: []string{"uplink"}, At: w.now})
	again.see()
	again.uses("lte", "after the restart")
	if again.seconds(11); again.port != "wan" {
		t.Errorf("%s after the hold-down", again.port)
	}
}

// losesHalf lets a minute pass in which every second shot at a port's targets is lost.
func (w *town) losesHalf(label string) {
	for i := range 64 {
		w.pass(time.Second)
		fault := ""
		if i%2 == 0 {
			fault = "no answer"
		}
		w.answer(label, fault, true)
	}
}

func TestLimitsOfLossAndLatency(t *testing.T) {
	w := newTown(t, Config{MaxLoss: 20})
	w.seconds(40)
	w.losesHalf("wan")
	w.uses("lte", "wan loses half")
	if !strings.Contains(w.choice.Why, "loses") {
		t.Errorf("%q", w.choice.Why)
	}
	w.seconds(60)
	w.uses("wan", "it loses none")
	slow := newTown(t, Config{MaxLatency: 5 * time.Millisecond})
	slow.seconds(3)
	slow.uses("wan", "both are as slow")
}

func TestOutcomesThatASubscriberMissedAreJudged(t *testing.T) {
	w := newTown(t, Config{})
	w.seconds(20)
	for _, id := range w.watch {
		if id.Port == "wan" && id.Method == DNS {
			o := *w.runs[id]
			for range 8 {
				o = o.Add(Outcome{At: w.now, Error: "no answer"})
			}
			w.step(OutcomesSeen{o, w.now})
		}
	}
	w.uses("lte", "eight failures in one message")
	o := Outcomes{}
	for range 3 * MaxLast {
		o = o.Add(Outcome{})
	}
	for count, want := range map[uint64]int{0: MaxLast, 3*MaxLast - 5: 5, 3 * MaxLast: 0, 4 * MaxLast: MaxLast} {
		if got := len(o.Since(count)); got != want {
			t.Errorf("%d outcomes after %d, want %d", got, count, want)
		}
	}
}

// A neighbour who makes a port toggle makes the network write little.
func TestWhatTogglesIsJournalledSeldom(t *testing.T) {
	w := newTown(t, Config{})
	w.seconds(20)
	written := 0
	for range 1000 {
		for _, reach := range []Reach{Down, Out} {
			w.ports["wan"].Reach = reach
			before := fmt.Sprint(w.record)
			w.see()
			w.answer("wan", "", true)
			w.pass(10 * time.Millisecond)
			if fmt.Sprint(w.record) != before {
				written++
			}
		}
	}
	if written > 8 {
		t.Errorf("written %d times in 20 s", written)
	}
	w.pass(journalEvery)
	if hold := w.record.Holds["wan"]; hold.Fails != 1 || hold.Failed {
		t.Errorf("at last %+v", hold)
	}
}

func TestOtherServersOfADeadPortDoNotBeginAnew(t *testing.T) {
	for name, every := range map[string]int{"each second": 1, "every 3 s": 3, "every 7 s": 7} {
		w := newTown(t, Config{})
		w.seconds(20)
		for n := range 9 {
			if n%every == 0 {
				w.ports["wan"].Servers = []netip.Addr{netip.AddrFrom4([4]byte{198, 51, 100, byte(60 + n)})}
				w.see()
			}
			w.seconds(1, "wan far")
		}
		w.uses("lte", name)
		w.ports["wan"].Servers = []netip.Addr{netip.MustParseAddr("198.51.100.99")}
		w.see()
		w.seconds(2, "wan far")
		w.uses("lte", "new servers say nothing good")
		w.seconds(13)
		w.uses("wan", "they answer, and the hold-down is over")
	}
	w := newTown(t, Config{})
	w.seconds(20, "wan far", "lte") // both fail
	w.ports["lte"].Servers = []netip.Addr{netip.MustParseAddr("198.51.100.99")}
	w.see()
	w.seconds(1, "wan far")
	w.uses("lte", "its new server has answered once")
}

func TestNewServersOfAPortThatWorksMayLoseSome(t *testing.T) {
	w := newTown(t, Config{})
	w.seconds(20)
	w.seconds(7, "wan far")
	w.seconds(1)
	w.ports["wan"].Servers = append(w.ports["wan"].Servers, netip.MustParseAddr("198.51.100.99"))
	w.see()
	w.ports["wan"].Servers = w.ports["wan"].Servers[1:]
	w.see()
	w.seconds(7, "wan far")
	w.uses("wan", "7 failures in a row, before and after the change of servers")
	w.seconds(1, "wan far")
	w.uses("lte", "8 failures in a row")
}

// Ports that share are those that work at the lowest cost.
func TestEqualPorts(t *testing.T) {
	for _, c := range []struct {
		ports []Score
		want  string
	}{
		{nil, "[]"},
		{[]Score{{Label: "b", Class: Working}, {Label: "a", Class: Working}, {Label: "c", Class: Degraded}}, "[a b]"},
		{[]Score{{Label: "b", Class: Working, Cost: 1}, {Label: "a", Class: Working, Cost: 2}}, "[b]"},
		{[]Score{{Label: "b", Class: Degraded}, {Label: "a", Class: Degraded}}, "[]"},
		{[]Score{{Label: "b", Class: Working}, {Label: "a", Class: Held}}, "[b]"},
	} {
		if got := fmt.Sprint(Choice{Ports: c.ports}.Equals()); got != c.want {
			t.Errorf("%v: %s, want %s", c.ports, got, c.want)
		}
	}
}
