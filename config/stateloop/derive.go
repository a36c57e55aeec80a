package stateloop

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"edgespan/config"
)

// Derive derives the state of each desired parameter from the table, and lists the reports about other parameters as
// ignored. It sorts both lists by ID and walks them side by side, so their order does not matter.
func Derive(want Config, got EdgePeerConfigurationState) PeerConfigurationState {
	desired, reports := sortDesired(want.Parameters), slices.Clone(got.Parameters)
	slices.SortFunc(reports, func(a, b Reported) int { return strings.Compare(a.ID, b.ID) })
	d := PeerConfigurationState{Ready: got.Generation == want.Generation,
		Parameters: make([]DerivedParameter, 0, len(desired))}
	var waiting []int // waiting parameters whose report names no cause
	for _, param := range desired {
		for len(reports) > 0 && reports[0].ID < param.ID {
			r, n := selectReport("", want.Generation, reports)
			d.Ignored = append(d.Ignored, deriveIgnored(r, want.Generation))
			reports = reports[n:]
		}
		p := DerivedParameter{}
		if len(reports) > 0 && reports[0].ID == param.ID {
			r, n := selectReport(param.Target, want.Generation, reports)
			p = deriveParameter(param, findCell(param.Target, r, want.Generation), r, want)
			if p.State == WaitingForDependencies && r.Message == "" {
				waiting = append(waiting, len(d.Parameters))
			}
			reports = reports[n:]
		} else {
			otherGeneration := got.Generation != want.Generation
			p = deriveParameter(param, cells[cellKey{param.Target, "", otherGeneration}],
				Reported{Generation: got.Generation, Since: want.Since}, want)
		}
		d.Ready = d.Ready && !p.Stale && p.State.Class() == Final
		d.Parameters = append(d.Parameters, p)
	}
	for len(reports) > 0 {
		r, n := selectReport("", want.Generation, reports)
		d.Ignored = append(d.Ignored, deriveIgnored(r, want.Generation))
		reports = reports[n:]
	}
	d.explainWaiting(waiting, desired)
	return d
}

// sortDesired returns the desired parameters sorted by ID, each ID once. Of two with the same ID, which ReadDesired
// rejects, the one with the target present counts, then the one whose dependencies sort last.
func sortDesired(params []DesiredParameter) []DesiredParameter {
	out := slices.Clone(params)
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

// selectReport returns the report that counts among the leading reports with the same ID, and the number of these
// reports.
func selectReport(target Target, desired config.Generation, reports []Reported) (Reported, int) {
	n := 1
	for n < len(reports) && reports[n].ID == reports[0].ID {
		n++
	}
	return slices.MaxFunc(reports[:n], func(a, b Reported) int { return compareReports(target, desired, a, b) }), n
}

// compareReports orders two reports about one parameter: the newer one counts; of two with the same time the worse one,
// by the derived state, then by the reported state, then the one whose message sorts last. The other comparisons only
// make the order total.
func compareReports(target Target, desired config.Generation, a, b Reported) int {
	if c := a.Since.Compare(b.Since); c != 0 {
		return c
	}
	x, y := findCell(target, a, desired), findCell(target, b, desired)
	return cmp.Or(
		cmp.Compare(rankCell(x), rankCell(y)),
		cmp.Compare(slices.Index(reportableStates, mapToTableState(a.State, target)),
			slices.Index(reportableStates, mapToTableState(b.State, target))),
		strings.Compare(a.Message, b.Message),
		strings.Compare(string(a.State), string(b.State)),
		strings.Compare(a.Generation.String(), b.Generation.String()),
		strings.Compare(a.Kind, b.Kind),
	)
}

// rankCell returns a cell's rank, higher for worse: by review, then final before transitional before failed.
func rankCell(c cell) int {
	return 3*slices.Index([]Review{ReviewNo, ReviewMaybe, ReviewYes}, c.review) +
		slices.Index([]Class{Final, Transitional, Failed}, c.state.Class())
}

// findCell returns the table's result for a target and a report.
func findCell(target Target, r Reported, desired config.Generation) cell {
	return cells[cellKey{target, mapToTableState(r.State, target), r.Generation != desired}]
}

// mapToTableState maps a reported state to one that the table has a row for. Edgespan nodes also report Creating and
// Removing (the node is working on it) and Unclaimed (the object exists, and no config of the node declares it). For a
// desired parameter these count as no report, which is "". For an undesired one, Creating and Removing count as
// WaitingForDependencies, which needs no review, and Unclaimed as Present. Any other text counts as a failed check.
func mapToTableState(s State, target Target) State {
	switch {
	case slices.Contains(reportableStates, s):
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

// deriveParameter returns the state of a parameter from its cell of the table. Without a report, r holds only the
// time and the generation.
func deriveParameter(desired DesiredParameter, c cell, r Reported, want Config) DerivedParameter {
	p := DerivedParameter{ID: desired.ID, Kind: desired.Kind, Target: desired.Target, State: c.state, Review: c.review,
		Reason: reportText(r),
		Stale:  c.stale, Since: r.Since}
	if !c.stale {
		return p
	}
	reported := ""
	if r.State != c.state && slices.Contains(reportableStates, r.State) {
		reported, p.Since = string(r.State), want.Since // the state follows from the target alone
	}
	p.Reason = staleReason(r.Generation, want.Generation, reported, p.Reason)
	return p
}

// deriveIgnored returns the state of a report about a parameter that is not desired.
func deriveIgnored(r Reported, desired config.Generation) IgnoredParameter {
	c := findCell("", r, desired)
	i := IgnoredParameter{ID: r.ID, Kind: r.Kind, Reported: r.State, Review: c.review, Since: r.Since,
		Reason: reportText(r)}
	if i.Reason == "" {
		i.Reason = string(r.State)
	}
	if c.stale {
		i.Reason = staleReason(r.Generation, desired, "", i.Reason)
	}
	return i
}

// reportText returns the text of a report for people: the node's message, preceded by the reported state if it is
// unknown.
func reportText(r Reported) string {
	known := r.State == "" || r.State == Creating || r.State == Removing || r.State == Unclaimed ||
		slices.Contains(reportableStates, r.State)
	if known {
		return r.Message
	}
	return joinNonEmpty(fmt.Sprintf("the node says %.40q, which is not a known state", string(r.State)), r.Message)
}

// staleReason returns the reason of a stale report: the generation that it answers if that differs, the reported
// state if the derived one differs, and the node's message.
func staleReason(answers, desired config.Generation, reported, message string) string {
	generations := ""
	if answers != desired {
		generations = "generation " + formatGeneration(answers) + ", desired is " + formatGeneration(desired)
	}
	return StaleReport + joinNonEmpty(generations, reported, message)
}

func joinNonEmpty(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

// explainWaiting adds to the reason of each waiting parameter what it waits for: its dependencies that are not final
// yet, or, if it is to be removed and none is left, its dependents that still exist. waiting holds indexes of
// d.Parameters; desired has the same length and order.
func (d *PeerConfigurationState) explainWaiting(waiting []int, desired []DesiredParameter) {
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
				users = d.removingDependents(desired)
			}
			open = users[p.ID]
		}
		if open == nil {
			continue
		}
		slices.Sort(open)
		why := waitsFor + strings.Join(slices.Compact(open), ", ")
		p.Reason = joinNonEmpty(p.Reason, why)
	}
}

// removingDependents returns, for each ID, the parameters that depend on it and are still being removed.
func (d *PeerConfigurationState) removingDependents(desired []DesiredParameter) map[string][]string {
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
