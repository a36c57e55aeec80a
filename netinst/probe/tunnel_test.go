package probe

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// tunnelled is a town whose ports both work, and whose tunnel is heard.
type tunnelled struct {
	*town
	dead   map[string]bool // ports by which the tunnel is not answered
	silent time.Time
}

func newTunnelled(t *testing.T) *tunnelled {
	w := &tunnelled{town: newTown(t, Config{}), dead: map[string]bool{}}
	w.step(Configured{Selectors: []string{"uplink"}, Tunnel: true, At: w.now})
	w.seconds(10)
	w.is("wan", "at first")
	return w
}

func (w *tunnelled) is(port, when string) {
	w.Helper()
	if w.port != port {
		w.Errorf("%s the network uses %s, want %s: %+v", when, w.port, port, w.choice)
	}
}

// hear lets time pass, in which each probe of an uplink is answered.
func (w *tunnelled) hear(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.seconds(5)
		switch {
		case !w.dead[w.port]:
			w.silent = time.Time{}
		case w.silent.IsZero():
			w.silent = w.now
		}
		w.step(TunnelSeen{Heard{Silent: w.silent, Answered: w.silent.IsZero()}, w.now})
	}
}

// A tunnel that the first provider drops leaves by the second, and tries the first again less and less often.
func TestATunnelLeavesAnUplinkByWhichItIsNotAnswered(t *testing.T) {
	w := newTunnelled(t)
	w.dead["wan"] = true
	w.hear(TunnelSilence - 5*time.Second)
	w.is("wan", "before the time is over")
	w.hear(10 * time.Second)
	w.is("lte", "after a minute of silence")
	if !strings.Contains(w.choice.Why, "wan: tunnel not answered (the other end of the tunnel did not answer by it for 1m0s") {
		t.Errorf("why: %s", w.choice.Why)
	}
	w.hear(9 * time.Minute)
	w.is("lte", "nine minutes later")
	var trials []time.Duration
	for last, at := w.now, w.port; len(trials) < 6; at = w.port {
		w.hear(5 * time.Second)
		if at == "lte" && w.port == "wan" {
			trials = append(trials, w.now.Sub(last).Round(time.Minute))
		} else if at == "wan" && w.port == "lte" {
			last = w.now
		}
	}
	want := []time.Duration{time.Minute, 20 * time.Minute, 40 * time.Minute, 80 * time.Minute, 160 * time.Minute,
		320 * time.Minute}
	for i, d := range trials {
		if i > 0 && (d-want[i]).Abs() > time.Minute {
			t.Errorf("trial %d came after %v, want %v", i, d, want[i])
		}
	}
	w.dead["wan"] = false
	w.hear(7 * time.Hour)
	w.is("wan", "once the first provider lets it pass")
	w.hear(maxAway)
	w.is("wan", "later")
}

// A short silence elsewhere blames nobody: the tunnel still keeps away from where it was lost. And a port that is used
// although the tunnel keeps away from it, since there is no other, is not blamed twice.
func TestATunnelKeepsAwayFromWhereItWasLostAlone(t *testing.T) {
	w := newTunnelled(t)
	w.dead["wan"] = true
	w.hear(2 * time.Minute)
	w.is("lte", "after the silence")
	w.dead["lte"] = true
	w.hear(TunnelSilence / 2)
	w.dead["lte"] = false
	w.hear(time.Minute)
	w.is("lte", "after a short silence there")
	w.ports["lte"].Reach = Down
	w.see()
	w.is("wan", "without another")
	w.hear(2 * time.Minute)
	w.ports["lte"].Reach = Out
	w.see()
	w.hear(time.Minute)
	w.is("lte", "once it is back")
	if h := w.c.ports["wan"].away; h.Fails != 1 {
		t.Errorf("wan is blamed %d times", h.Fails)
	}
}

// A network that is no longer one of type vpn keeps away from no port.
func TestANetworkWithoutATunnelKeepsAwayFromNoUplink(t *testing.T) {
	w := newTunnelled(t)
	w.dead["wan"] = true
	w.hear(2 * time.Minute)
	w.is("lte", "after the silence")
	if len(w.record.Aways) != 1 {
		t.Errorf("journalled: %+v", w.record)
	}
	w.step(Configured{Selectors: []string{"uplink"}, At: w.now})
	w.is("wan", "without a tunnel")
	if w.pass(time.Minute); len(w.record.Aways) > 0 {
		t.Errorf("journalled: %+v", w.record)
	}
}

// If the other end is away, each uplink is tried from time to time; once it is back, the best one is used at once.
func TestATunnelWhoseOtherEndIsAwayBlamesNoUplink(t *testing.T) {
	w := newTunnelled(t)
	w.dead["wan"], w.dead["lte"] = true, true
	before := w.moves
	w.hear(24 * time.Hour)
	if n := w.moves - before; n < 20 || n > 110 {
		t.Errorf("%d moves in a day", n)
	}
	for w.port != "lte" || !w.c.tunnel.lost { // where it is silent for long, too
		w.hear(5 * time.Second)
	}
	w.dead["wan"], w.dead["lte"] = false, false
	w.hear(10 * time.Second)
	w.is("wan", "once the other end is back")
}

// With one uplink, or another that does not work or is drained, nothing moves.
func TestATunnelWithoutAnotherUplinkStays(t *testing.T) {
	for name, make := range map[string]func(w *tunnelled){
		"missing": func(w *tunnelled) { delete(w.ports, "lte"); w.see() },
		"down":    func(w *tunnelled) { w.ports["lte"].Reach = Down; w.see() },
		"drained": func(w *tunnelled) { w.step(Drained{map[string]time.Time{"lte": {}}, w.now}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newTunnelled(t)
			make(w)
			before := w.moves
			w.dead["wan"] = true
			w.hear(3 * time.Hour)
			if w.is("wan", "without another"); w.moves != before || w.choice.Ports[0].Class != Working {
				t.Errorf("%d moves, %+v", w.moves-before, w.choice)
			}
		})
	}
}

// The other end is away for some minutes while the tunnel is by the second provider, since the first drops it: it does not
// return to the first, whose trials go on as before, also after a restart; and if it is silent for long, it does.
func TestATunnelDoesNotReturnToWhereItIsDropped(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		w := newTunnelled(t)
		w.dead["wan"] = true
		w.hear(2 * time.Minute)
		if w.is("lte", "after the silence"); !w.c.ports["wan"].away.Proven {
			t.Fatalf("answered by lte: %+v", w.c.ports["wan"].away)
		}
		if restarted {
			w = w.restart()
		}
		before := w.moves
		w.dead["lte"] = true
		w.hear(4 * time.Minute)
		w.dead["lte"] = false
		w.hear(time.Minute)
		if w.is("lte", "once the other end is back"); w.moves != before {
			t.Errorf("%d moves", w.moves-before)
		}
		w.dead["lte"] = true
		w.hear(maxRest + 2*time.Minute)
		if w.moves == before {
			t.Error("after a long silence the first is not tried")
		}
		w.dead["wan"] = false
		w.hear(time.Hour)
		w.is("wan", "once the first lets it pass")
		if h := w.c.ports["wan"].away; h.Proven {
			t.Errorf("it is still to blame: %+v", h)
		}
	}
}

// What is not silent yet is no answer: right after a restart, nothing is proven.
func TestARestartProvesNothingOfATunnel(t *testing.T) {
	w := newTunnelled(t)
	w.dead["wan"], w.dead["lte"] = true, true
	w.hear(70 * time.Second)
	w.is("lte", "after the silence")
	w = w.restart()
	w.step(TunnelSeen{Heard{}, w.now})
	if h := w.c.ports["wan"].away; h.Proven || h.Until.IsZero() {
		t.Errorf("after a restart: %+v", h)
	}
}

// restart goes on with what is journalled.
func (w *tunnelled) restart() *tunnelled {
	text, err := json.Marshal(w.record)
	if err != nil {
		w.Fatal(err)
	}
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		w.Fatal(err)
	}
	again := &tunnelled{town: &town{T: w.T, c: New(r), now: w.now, runs: map[ID]*Outcomes{}, timers: map[uint64]time.Time{},
		ports: w.ports, port: w.port}, dead: w.dead}
	again.step(Configured{Selectors: []string{"uplink"}, Tunnel: true, At: w.now})
	again.see()
	return again
}

// A tunnel that calls by one family leaves the port of that family alone, whether or not the other one has another port.
func TestATunnelLeavesAPortOfItsFamily(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		c, now := New(Record{}), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		used := map[string]string{}
		step := func(e Event) {
			for _, eff := range c.Step(e) {
				if eff, is := eff.(Choose); is {
					for s, x := range eff.Choices {
						used[s] = x.Port
					}
				}
			}
		}
		selectors := []string{"uplink", OfIPv6("uplink")}
		var ports []Port
		for i, label := range []string{"lte", "wan"} {
			for j, six := range []bool{false, true} {
				if label == "lte" && six != ipv6 {
					continue // the family by which the tunnel does not call has no other port
				}
				ports = append(ports, Port{Label: label, IfName: label, IPv6: six, Selectors: selectors[j : j+1], Reach: Out, Cost: 1 - i,
					Servers: addrs("198.51.100.1")})
			}
		}
		step(Configured{Selectors: selectors, Ports: ports, Tunnel: true, At: now})
		silent := now
		var trials []time.Duration
		for range 12 * 60 * 3 { // three hours
			before := used[selectors[1]]
			if !ipv6 {
				before = used[selectors[0]]
			}
			h := Heard{Silent: silent, IPv4: !ipv6, IPv6: ipv6}
			if before == "lte" { // which lets it pass
				h.Silent, h.Answered, silent = time.Time{}, true, now
			}
			step(TunnelSeen{h, now})
			after, other := used[selectors[1]], used[selectors[0]]
			if !ipv6 {
				after, other = other, after
			}
			if other != "wan" {
				t.Fatalf("IPv6 %v: the other family uses %s", ipv6, other)
			}
			if before == "lte" && after == "wan" {
				trials = append(trials, now.Sub(c.ports[map[bool]string{false: "wan", true: OfIPv6("wan")}[ipv6]].away.Last))
			}
			now = now.Add(5 * time.Second)
		}
		if len(trials) < 3 || trials[1] < 19*time.Minute || trials[2] < 39*time.Minute {
			t.Errorf("IPv6 %v: trials after %v", ipv6, trials)
		}
	}
}

// A restart goes on where it was, and a record of a clock that was ahead keeps no tunnel away for ever.
func TestATunnelKeepsAwayOverARestart(t *testing.T) {
	w := newTunnelled(t)
	w.dead["wan"] = true
	w.hear(2 * time.Minute)
	w.is("lte", "after the silence")
	text, err := json.Marshal(w.record)
	if err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]time.Duration{"right": 0, "a year ahead": 365 * 24 * time.Hour} {
		var r Record
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		h := r.Aways["wan"]
		if h.Fails != 1 {
			t.Fatalf("journalled: %s", text)
		}
		h.Until, h.Last = h.Until.Add(wrong), h.Last.Add(wrong)
		r.Aways["wan"] = h
		again := &tunnelled{town: &town{T: t, c: New(r), now: w.now, runs: map[ID]*Outcomes{}, timers: map[uint64]time.Time{},
			ports: w.ports, port: "lte"}, dead: map[string]bool{}}
		again.step(Configured{Selectors: []string{"uplink"}, Tunnel: true, At: w.now})
		again.see()
		again.hear(5 * time.Minute)
		again.is("lte", name+": soon after the restart")
		again.hear(10 * time.Minute)
		again.is("wan", name+": after the time away")
	}
}

// In any history of paths that let the tunnel pass or not: no tunnel is dead for longer than it takes to try all ports if
// one lets it pass all the time, it moves a bounded number of times, and it never leaves the only port that works.
func TestATunnelFindsAPathInAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels := []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "ports")]
		c, now, port := New(Record{}), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), ""
		var ports []Port
		for i, label := range labels {
			ports = append(ports, Port{Label: label, IfName: "eth" + label, Selectors: []string{"uplink"}, Reach: Out,
				Cost: rapid.IntRange(0, 2).Draw(t, "cost"), Servers: []netip.Addr{netip.AddrFrom4([4]byte{198, 51, 100, byte(i)})}})
		}
		var moves []time.Time
		step := func(e Event) {
			for _, eff := range c.Step(e) {
				if eff, is := eff.(Choose); is {
					if to := eff.Choices["uplink"].Port; to != port {
						port, moves = to, append(moves, now)
					}
				}
			}
		}
		step(Configured{Selectors: []string{"uplink"}, Tunnel: true, At: now})
		step(PortsSeen{ports, now})
		passes, since := map[string]bool{}, map[string]time.Time{}
		var silent, lost time.Time
		for range rapid.IntRange(1, 12).Draw(t, "phases") {
			for _, label := range labels {
				if on := rapid.Bool().Draw(t, label+" lets it pass"); on != passes[label] {
					passes[label], since[label] = on, now
				}
			}
			for range rapid.SampledFrom([]int{1, 6, 60, 600}).Draw(t, "ten seconds") {
				now = now.Add(10 * time.Second)
				switch {
				case passes[port]:
					silent, lost = time.Time{}, time.Time{}
				case silent.IsZero():
					silent, lost = now, now
				}
				step(TunnelSeen{Heard{Silent: silent, Answered: silent.IsZero()}, now})
				for _, label := range labels {
					good := now.Sub(since[label])
					if limit := maxRest + 4*time.Minute; passes[label] && good > limit && !lost.IsZero() && now.Sub(lost) > limit {
						t.Fatalf("dead for %v at %s while %s lets it pass for %v", now.Sub(lost), port, label, good)
					}
				}
				if n := len(moves); n > 4*len(labels) && now.Sub(moves[n-4*len(labels)-1]) < firstAway {
					t.Fatalf("%d moves within %v", 4*len(labels), now.Sub(moves[n-4*len(labels)-1]))
				}
			}
		}
		if len(labels) == 1 && len(moves) > 1 {
			t.Fatalf("%d moves with one port", len(moves))
		}
	})
}
