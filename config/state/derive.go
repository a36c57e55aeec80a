package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"edgespan/config"
)

// Derive compares what is wanted with what was reported, by the table. The order of either
// never counts.
func Derive(want Config, got EdgePeerConfigurationState) PeerConfigurationState {
	wanted, said := oneWish(want.Parameters), make(map[string]Reported, len(got.Parameters))
	for _, r := range got.Parameters {
		old, twice := said[r.ID]
		if w := wanted[r.ID]; !twice || compareReports(w.Target, want.Generation, r, old) > 0 {
			said[r.ID] = r
		}
	}
	d := PeerConfigurationState{Ready: got.Generation == want.Generation, Parameters: make([]Parameter, 0, len(wanted))}
	waiting := waits{wanted: wanted, final: make(map[string]bool, len(wanted))}
	for id, w := range wanted {
		waiting.final[id] = cellFor(w, said, got.Generation != want.Generation, want.Generation).state.Class() == Final
	}
	for id, w := range wanted {
		c := cellFor(w, said, got.Generation != want.Generation, want.Generation)
		r, has := said[id]
		if !has {
			r = Reported{Generation: got.Generation, Since: want.Since}
		}
		if c.state == WaitingForDependencies && r.Message == "" {
			r.Message = waiting.of(w)
		}
		p := follow(w, c, r, want)
		d.Ready = d.Ready && !p.Stale && p.State.Class() == Final
		d.Parameters = append(d.Parameters, p)
	}
	for id, r := range said {
		if _, has := wanted[id]; !has {
			d.Ignored = append(d.Ignored, ignore(r, want.Generation))
		}
	}
	slices.SortFunc(d.Parameters, func(a, b Parameter) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(d.Ignored, func(a, b IgnoredParameter) int { return strings.Compare(a.ID, b.ID) })
	return d
}

// oneWish is what is wanted by id. Of two wishes about one id, which config/peer and the
// offline form refuse, the one to be present counts, then that with the later dependencies.
func oneWish(ws []Wanted) map[string]Wanted {
	out := make(map[string]Wanted, len(ws))
	for _, w := range ws {
		if w.Target != ToBeAbsent {
			w.Target = ToBePresent
		}
		if old, twice := out[w.ID]; !twice || cmp.Or(
			strings.Compare(string(w.Target), string(old.Target)),
			slices.Compare(w.Dependencies, old.Dependencies), strings.Compare(w.Kind, old.Kind),
		) > 0 {
			out[w.ID] = w
		}
	}
	return out
}

// compareReports says which of two reports about one parameter counts: the newer one; of two
// of one time the worse, by what follows from it, then by the word; then the message's bytes.
func compareReports(target Target, wanted config.Generation, a, b Reported) int {
	if c := a.Since.Compare(b.Since); c != 0 {
		return c
	}
	x, y := cellOf(target, a, wanted), cellOf(target, b, wanted)
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
	return 3*slices.Index([]Review{No, Maybe, Yes}, c.review) + slices.Index([]Class{Final, Transitional, Failed}, c.state.Class())
}

// cellOf is the cell of a report.
func cellOf(target Target, r Reported, wanted config.Generation) cell {
	return cells[cellKey{target, contracts(r.State, target), r.Generation != wanted}]
}

// cellFor is the cell of a wish, whether it was reported or not.
func cellFor(w Wanted, said map[string]Reported, otherwise bool, wanted config.Generation) cell {
	if r, has := said[w.ID]; has {
		return cellOf(w.Target, r, wanted)
	}
	return cells[cellKey{w.Target, "", otherwise}]
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
func follow(w Wanted, c cell, r Reported, want Config) Parameter {
	p := Parameter{ID: w.ID, Kind: w.Kind, Target: w.Target, State: c.state, Review: c.review, Reason: words(r), Stale: c.stale, Since: r.Since}
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
func ignore(r Reported, wanted config.Generation) IgnoredParameter {
	c := cellOf("", r, wanted)
	i := IgnoredParameter{ID: r.ID, Kind: r.Kind, Reported: r.State, Review: c.review, Since: r.Since, Reason: words(r)}
	if i.Reason == "" {
		i.Reason = string(r.State)
	}
	if c.stale {
		i.Reason = stale(r.Generation, wanted, "", i.Reason)
	}
	return i
}

// words are what a report says for a person: the node's message, and a word that is not known.
func words(r Reported) string {
	known := r.State == "" || r.State == Creating || r.State == Removing || r.State == Unclaimed || slices.Contains(spoken, r.State)
	if known {
		return r.Message
	}
	return joined(fmt.Sprintf("the node says %.40q, which is no known state", string(r.State)), r.Message)
}

// stale is the reason of a stale report: which generation it answers where that is another
// one, what it said where the state says otherwise, and the node's message.
func stale(answers, wanted config.Generation, word, message string) string {
	which := ""
	if answers != wanted {
		which = "generation " + orNone(answers) + ", wanted is " + orNone(wanted)
	}
	return StaleReport + joined(which, word, message)
}

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

// waits knows which parameters are in a final state.
type waits struct {
	wanted     map[string]Wanted
	final      map[string]bool
	dependents map[string][]string // of each to be absent, those to be absent that depend on it; nil before it is asked for
}

// of names what a parameter waits for: what it depends on and is not there yet. One that is
// to be absent may wait for those that need it to go.
func (s *waits) of(w Wanted) string {
	var open []string
	for _, id := range w.Dependencies {
		if is, declared := s.final[id]; !declared {
			open = append(open, id+", which is not declared")
		} else if !is {
			open = append(open, id)
		}
	}
	if open == nil && w.Target == ToBeAbsent {
		open = s.users(w.ID)
	}
	if open == nil {
		return ""
	}
	slices.Sort(open)
	return "waits for " + strings.Join(slices.Compact(open), ", ")
}

// users are those to be absent that depend on id and are still there.
func (s *waits) users(id string) []string {
	if s.dependents == nil {
		s.dependents = map[string][]string{}
		for _, w := range s.wanted {
			if w.Target != ToBeAbsent || s.final[w.ID] {
				continue
			}
			for _, d := range w.Dependencies {
				s.dependents[d] = append(s.dependents[d], w.ID)
			}
		}
	}
	return s.dependents[id]
}
