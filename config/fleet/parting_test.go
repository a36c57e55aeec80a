package fleet

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
)

// parts is a PeerConfiguration with some parameters whose target is present.
func parts(ids string) *peer.Configuration {
	c := &peer.Configuration{}
	for _, id := range strings.Fields(ids) {
		c.Parameters = append(c.Parameters,
			peer.DeclaredParameter{ID: id, Kind: peer.KindExecutor, Target: stateloop.ToBePresent})
	}
	return c
}

func ids(gone []peer.Leftover) string {
	out := make([]string, len(gone))
	for i, g := range gone {
		out[i] = g.ID
	}
	return strings.Join(out, " ")
}

// says returns a report of parameters that are Absent ("-x") or not ("x").
func says(r ReportReceived, settled bool, text string) ReportReceived {
	r.Parts, r.Settled = map[string]bool{}, settled
	for _, id := range strings.Fields(text) {
		id, absent := strings.CutPrefix(id, "-")
		r.Parts[id] = absent
	}
	return r
}

// What was pushed is expected to become absent until the node reports it absent, in its answer to the current desired
// config.
func TestWhatMayBeOnANodeIsForgottenOnItsWordOnly(t *testing.T) {
	ab, c := Digest{"A", "ab"}, Digest{"A", "c"}
	n := New("n", Memory{Adopted: true}, Defaults("me"))
	for i, s := range []struct {
		event     Event
		has, left string
	}{
		{Known{Joined: true}, "", ""},
		{Connected{"1", "me"}, "", ""},
		{with(want(ab, 1), func(w *Desired) { w.With = parts("x y") }), "", ""},
		{has(a, 0), "x y", ""},                                                        // pushed: it may be there from now on
		{says(has(ab, 1), true, "-x -y"), "x y", ""},                                  // what is desired is kept
		{with(want(c, 2), func(w *Desired) { w.With = parts("y z") }), "x y z", "x"},  // pushed
		{says(has(ab, 1), true, "-x y"), "x y z", "x"},                                // answers the one before
		{says(runs(c, 2, PendingConfig{}), true, "-x y z"), "x y z", "x"},             // it may still be undone
		{says(has(c, 2), true, "x y z"), "x y z", "x"},                                // its removal failed, for example
		{says(has(c, 2), false, "y z"), "x y z", "x"},                                 // the node has not reached it yet
		{has(c, 2), "x y z", "x"},                                                     // the controller did not request parts
		{says(has(c, 2), false, "-x y z"), "y z", ""},                                 // it is gone
		{with(want(ab, 3), func(w *Desired) { w.With = parts("x y") }), "x y z", "z"}, // A, B, A
		{says(has(ab, 3), true, "x y"), "x y", ""},                                    // no longer reported
		{want(a, 4), "x y", "x y"},                                                    // without a descriptor
		{says(has(a, 4), true, ""), "", ""},
	} {
		n.Step(noon, s.event)
		m := n.Memory()
		if got, left := ids(m.Has), ids(m.Leftovers(n.desired.With)); got != s.has || left != s.left ||
			n.HasLeftovers() != (left != "") {
			t.Errorf("step %d, %T: has %q, left %q, parting %v; want %q, %q", i+1, s.event, got, left, n.HasLeftovers(), s.has,
				s.left)
		}
	}
}

// Whatever is pushed, reported and lost in between: what is on a node and not desired is among what must become absent,
// also for another controller with the stored state.
func TestPropertyNothingOnANodeIsForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var saved Memory
		var on, asked []string // on the node; of the desired configuration
		n := New("n", saved, Defaults("me"))
		counter, now := uint64(0), noon
		d, running := a, a
		var desired Desired
		apply := func(effects []Effect) {
			for _, e := range effects {
				switch e := e.(type) {
				case Save:
					saved = e.Memory
				case Push:
					if e.Whole { // it creates what is desired, and may fail to remove
						on = append(on, asked...)
						running = e.Digest
					}
				}
			}
		}
		step := func(e Event) { apply(n.Step(now, e)) }
		begin := func() {
			step(Known{Joined: true})
			step(Connected{"1", "me"})
			if counter > 0 {
				step(desired)
			}
		}
		begin()
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now = now.Add(Defaults("").Interval)
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0, 1:
				asked = rapid.SliceOfDistinct(rapid.SampledFrom([]string{"u", "v", "w", "x"}), rapid.ID[string]).Draw(t, "asked")
				counter++
				d = Digest{"A", strings.Join(asked, "")}
				desired = with(want(d, counter), func(w *Desired) { w.With = parts(strings.Join(asked, " ")) })
				step(desired)
			case 2:
				n = New("n", saved, Defaults("me"))
				begin()
			default:
				on = slices.DeleteFunc(on, func(id string) bool {
					return running == d && !slices.Contains(asked, id) && rapid.Bool().Draw(t, "removed")
				})
				r := has(running, counter)
				said := map[string]bool{}
				for _, id := range on {
					said[id] = false
				}
				r.Parts, r.Settled = said, rapid.Bool().Draw(t, "settled")
				step(r)
			}
			known := map[string]bool{}
			for _, g := range n.Memory().Has {
				known[g.ID] = true
			}
			for _, id := range on {
				if !known[id] {
					t.Fatalf("%s is on the node, and the controller has %q", id, ids(n.Memory().Has))
				}
			}
		}
	})
}
