package stateloop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"edgespan/config"
)

// Derive compares what is wanted with what was reported, by the table. The order of either
// never counts. Both lists are walked side by side in the order of their ids.
func Derive(want Config, got EdgePeerConfigurationState) PeerConfigurationState {
	desired, said := byID(want.Parameters), slices.Clone(got.Parameters)
	slices.SortFunc(said, func(a, b Reported) int { return strings.Compare(a.ID, b.ID) })
	d := PeerConfigurationState{Ready: got.Generation == want.Generation, Parameters: make([]Parameter, 0, len(desired))}
	var waiting []int // that do not say for what
	for _, w := range desired {
		for len(said) > 0 && said[0].ID < w.ID {
			r, n := counting("", want.Generation, said)
			d.Ignored = append(d.Ignored, ignore(r, want.Generation))
			said = said[n:]
		}
		p := Parameter{}
		if len(said) > 0 && said[0].ID == w.ID {
			r, n := counting(w.Target, want.Generation, said)
			p = follow(w, cellOf(w.Target, r, want.Generation), r, want)
			if p.State == WaitingForDependencies && r.Message == "" {
				waiting = append(waiting, len(d.Parameters))
			}
			said = said[n:]
		} else {
			otherwise := got.Generation != want.Generation
			p = follow(w, cells[cellKey{w.Target, "", otherwise}], Reported{Generation: got.Generation, Since: want.Since}, want)
		}
		d.Ready = d.Ready && !p.Stale && p.State.Class() == Final
		d.Parameters = append(d.Parameters, p)
	}
	for len(said) > 0 {
		r, n := counting("", want.Generation, said)
		d.Ignored = append(d.Ignored, ignore(r, want.Generation))
		said = said[n:]
	}
	d.explain(waiting, desired)
	return d
}

// byID is what is wanted, each id once, sorted. Of two wishes about one id, which the offline
// form refuses, the one to be present counts, then that with the later dependencies.
func byID(ws []Desired) []Desired {
	out := slices.Clone(ws)
	for i := range out {
		if out[i].Target != ToBeAbsent {
			out[i].Target = ToBePresent
		}
	}
	slices.SortFunc(out, func(a, b Desired) int {
		if c := strings.Compare(a.ID, b.ID); c != 0 {
			return c
		}
		return -cmp.Or(
			strings.Compare(string(a.Target), string(b.Target)), slices.Compare(a.Dependencies, b.Dependencies),
			strings.Compare(a.Kind, b.Kind),
		)
	})
	return slices.CompactFunc(out, func(a, b Desired) bool { return a.ID == b.ID })
}

// counting is the report that counts of those at the beginning of said that are about one id,
// and how many these are.
func counting(target Target, desired config.Generation, said []Reported) (Reported, int) {
	n := 1
	for n < len(said) && said[n].ID == said[0].ID {
		n++
	}
	return slices.MaxFunc(said[:n], func(a, b Reported) int { return compareReports(target, desired, a, b) }), n
}

// compareReports says which of two reports about one parameter counts: the newer one; of two
// of one time the worse, by what follows from it, then by the word; then the message's bytes.
func compareReports(target Target, desired config.Generation, a, b Reported) int {
	if c := a.Since.Compare(b.Since); c != 0 {
		return c
	}
	x, y := cellOf(target, a, desired), cellOf(target, b, desired)
	return cmp.Or(
		cmp.Compare(badness(x), badness(y)),
		cmp.Compare(slices.Index(spoken, contracts(a.State, target)), slices.Index(spoken, contracts(b.State, target))),
		strings.Compare(a.Message, b.Message),
		strings.Compare(string(a.State), string(b.State)),
		strings.Compare(a.Generation.String(), b.Generation.String()),
		strings.Compare(a.Kind, b.Kind),
	)
}

// badness orders cells: by review, then final before transitional before failed.
func badness(c cell) int {
	return 3*slices.Index([]Review{No, Maybe, Yes}, c.review) +
		slices.Index([]Class{Final, Transitional, Failed}, c.state.Class())
}

// cellOf is the cell of a report.
func cellOf(target Target, r Reported, desired config.Generation) cell {
	return cells[cellKey{target, contracts(r.State, target), r.Generation != desired}]
}

// contracts is a node's word as one of the contract's, which the table has. The words that
// our nodes have beside them: it is at it (Creating, Removing), or has something that no
// config of it has (Unclaimed). Of what is wanted that says no more than no report does, which
// is ""; of what is not, the first two are no matter for review and the last is as if it were
// Present. Any other word is a check that failed.
func contracts(s State, target Target) State {
	switch {
	case slices.Contains(spoken, s):
		return s
	case s == Creating || s == Removing || s == Unclaimed:
		switch {
		case target != "":
			return ""
		case s == Unclaimed:
			return Present
		}
		return WaitingForDependencies
	case target == ToBeAbsent:
		return CheckAbsentFailed
	}
	return CheckPresentFailed
}

// follow is what follows for a parameter by its cell; of no report r has the time and the
// generation only.
func follow(w Desired, c cell, r Reported, want Config) Parameter {
	p := Parameter{ID: w.ID, Kind: w.Kind, Target: w.Target, State: c.state, Review: c.review, Reason: words(r),
		Stale: c.stale, Since: r.Since}
	if !c.stale {
		return p
	}
	word := ""
	if r.State != c.state && slices.Contains(spoken, r.State) {
		word, p.Since = string(r.State), want.Since // the state follows from the target alone
	}
	p.Reason = stale(r.Generation, want.Generation, word, p.Reason)
	return p
}

// ignore is what becomes of a report about a parameter that is not wanted.
func ignore(r Reported, desired config.Generation) IgnoredParameter {
	c := cellOf("", r, desired)
	i := IgnoredParameter{ID: r.ID, Kind: r.Kind, Reported: r.State, Review: c.review, Since: r.Since, Reason: words(r)}
	if i.Reason == "" {
		i.Reason = string(r.State)
	}
	if c.stale {
		i.Reason = stale(r.Generation, desired, "", i.Reason)
	}
	return i
}

// words are what a report says for a person: the node's message, and a word that is not known.
func words(r Reported) string {
	known := r.State == "" || r.State == Creating || r.State == Removing || r.State == Unclaimed ||
		slices.Contains(spoken, r.State)
	if known {
		return r.Message
	}
	return joined(fmt.Sprintf("the node says %.40q, which is not a known state", string(r.State)), r.Message)
}

// stale is the reason of a stale report: which generation it answers where that is another
// one, what it said where the state says otherwise, and the node's message.
func stale(answers, desired config.Generation, word, message string) string {
	which := ""
	if answers != desired {
		which = "generation " + orNone(answers) + ", wanted is " + orNone(desired)
	}
	return StaleReport + joined(which, word, message)
}

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

// explain names what each of the waiting waits for: what it depends on and is not there yet.
// One that is to be absent may wait for those that need it to go. Wanted are the wishes of
// d.Parameters, in their order.
func (d *PeerConfigurationState) explain(waiting []int, desired []Desired) {
	var users map[string][]string // made when first asked for
	for _, i := range waiting {
		var open []string
		for _, id := range desired[i].Dependencies {
			at, declared := slices.BinarySearchFunc(d.Parameters, id,
				func(p Parameter, id string) int { return strings.Compare(p.ID, id) })
			switch {
			case !declared:
				open = append(open, id+", which is not declared")
			case d.Parameters[at].State.Class() != Final:
				open = append(open, id)
			}
		}
		p := &d.Parameters[i]
		if open == nil && p.Target == ToBeAbsent {
			if users == nil {
				users = d.leaving(desired)
			}
			open = users[p.ID]
		}
		if open == nil {
			continue
		}
		slices.Sort(open)
		why := waitsFor + strings.Join(slices.Compact(open), ", ")
		p.Reason = joined(p.Reason, why)
	}
}

// leaving are, of each id, those that depend on it, are to be absent and still there.
func (d *PeerConfigurationState) leaving(desired []Desired) map[string][]string {
	out := map[string][]string{}
	for i, p := range d.Parameters {
		if p.Target == ToBeAbsent && p.State.Class() != Final {
			for _, id := range desired[i].Dependencies {
				out[id] = append(out[id], p.ID)
			}
		}
	}
	return out
}
