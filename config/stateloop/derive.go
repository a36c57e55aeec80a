package stateloop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"edgespan/config"
)

// Derive compares the desired parameters with the reported ones, by the table. The order of the input does not matter:
// it walks both lists side by side, sorted by ID.
func Derive(want Config, got EdgePeerConfigurationState) PeerConfigurationState {
	desired, said := byID(want.Parameters), slices.Clone(got.Parameters)
	slices.SortFunc(said, func(a, b Reported) int { return strings.Compare(a.ID, b.ID) })
	d := PeerConfigurationState{Ready: got.Generation == want.Generation,
		Parameters: make([]DerivedParameter, 0, len(desired))}
	var waiting []int // waiting parameters whose report names no cause
	for _, w := range desired {
		for len(said) > 0 && said[0].ID < w.ID {
			r, n := counting("", want.Generation, said)
			d.Ignored = append(d.Ignored, ignore(r, want.Generation))
			said = said[n:]
		}
		p := DerivedParameter{}
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

// byID returns the desired parameters sorted, each ID once. Of two with the same ID, which the offline form refuses,
// the one with the target present counts, then the one with the later dependencies.
func byID(ws []DesiredParameter) []DesiredParameter {
	out := slices.Clone(ws)
	for i := range out {
		if out[i].Target != ToBeAbsent {
			out[i].Target = ToBePresent
		}
	}
	slices.SortFunc(out, func(a, b DesiredParameter) int {
		if c := strings.Compare(a.ID, b.ID); c != 0 {
			return c
		}
		return -cmp.Or(
			strings.Compare(string(a.Target), string(b.Target)), slices.Compare(a.Dependencies, b.Dependencies),
			strings.Compare(a.Kind, b.Kind),
		)
	})
	return slices.CompactFunc(out, func(a, b DesiredParameter) bool { return a.ID == b.ID })
}

// counting returns the report that counts among the leading reports with the same ID, and the number of these reports.
func counting(target Target, desired config.Generation, said []Reported) (Reported, int) {
	n := 1
	for n < len(said) && said[n].ID == said[0].ID {
		n++
	}
	return slices.MaxFunc(said[:n], func(a, b Reported) int { return compareReports(target, desired, a, b) }), n
}

// compareReports orders two reports about one parameter: the newer one counts; of two with the same time the worse one,
// by the resulting state, then by the reported word, then by the bytes of the message.
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

// cellOf returns the cell of a report.
func cellOf(target Target, r Reported, desired config.Generation) cell {
	return cells[cellKey{target, contracts(r.State, target), r.Generation != desired}]
}

// contracts maps a reported state to a state of the contract, as the table has it. Edgespan nodes also report Creating
// and Removing (the node is working on it) and Unclaimed (the object exists, and no config of the node declares it).
// For a desired parameter these count as no report, which is "". For an undesired one, Creating and Removing need no
// review, and Unclaimed counts as Present. Any other word counts as a failed check.
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

// follow returns the state of a parameter by its cell. Without a report, r holds only the time and the generation.
func follow(w DesiredParameter, c cell, r Reported, want Config) DerivedParameter {
	p := DerivedParameter{ID: w.ID, Kind: w.Kind, Target: w.Target, State: c.state, Review: c.review, Reason: words(r),
		Stale: c.stale, Since: r.Since}
	if !c.stale {
		return p
	}
	word := ""
	if r.State != c.state && slices.Contains(spoken, r.State) {
		word, p.Since = string(r.State), want.Since // the state follows from the target alone
	}
	p.Reason = staleReason(r.Generation, want.Generation, word, p.Reason)
	return p
}

// ignore returns the state of a report about a parameter that is not desired.
func ignore(r Reported, desired config.Generation) IgnoredParameter {
	c := cellOf("", r, desired)
	i := IgnoredParameter{ID: r.ID, Kind: r.Kind, Reported: r.State, Review: c.review, Since: r.Since, Reason: words(r)}
	if i.Reason == "" {
		i.Reason = string(r.State)
	}
	if c.stale {
		i.Reason = staleReason(r.Generation, desired, "", i.Reason)
	}
	return i
}

// words returns the text of a report for people: the node's message, preceded by the reported word if it is unknown.
func words(r Reported) string {
	known := r.State == "" || r.State == Creating || r.State == Removing || r.State == Unclaimed ||
		slices.Contains(spoken, r.State)
	if known {
		return r.Message
	}
	return joined(fmt.Sprintf("the node says %.40q, which is not a known state", string(r.State)), r.Message)
}

// staleReason returns the reason of a stale report: the generation that it answers if that differs, the reported
// state if the derived one differs, and the node's message.
func staleReason(answers, desired config.Generation, word, message string) string {
	which := ""
	if answers != desired {
		which = "generation " + orNone(answers) + ", desired is " + orNone(desired)
	}
	return StaleReport + joined(which, word, message)
}

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

// explain names for each waiting parameter the parameters that it waits for: its dependencies that are not present yet.
// A parameter to remove may wait for its users to be removed. desired belongs to d.Parameters, in the same order.
func (d *PeerConfigurationState) explain(waiting []int, desired []DesiredParameter) {
	var users map[string][]string // made on first use
	for _, i := range waiting {
		var open []string
		for _, id := range desired[i].Dependencies {
			at, declared := slices.BinarySearchFunc(d.Parameters, id,
				func(p DerivedParameter, id string) int { return strings.Compare(p.ID, id) })
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

// leaving returns, for each ID, the parameters that depend on it and are still being removed.
func (d *PeerConfigurationState) leaving(desired []DesiredParameter) map[string][]string {
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
