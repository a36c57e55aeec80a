package stateloop

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"edgespan/config"
)

// Health summarises a node or a cluster as a colour, from worst to best: Red, Yellow, Unknown, Green.
type Health string

// The values of Health.
const (
	Red     Health = "red"     // a parameter needs review
	Yellow  Health = "yellow"  // a parameter is on its way or may need review, or the node reports a bad item
	Unknown Health = "unknown" // the node is offline, or has not reported
	Green   Health = "green"
)

// severity orders the values of Health: the worse, the higher.
var severity = map[Health]int{Green: 0, Unknown: 1, Yellow: 2, Red: 3}

// worseHealth returns the worse of two values.
func worseHealth(a, b Health) Health {
	if severity[b] > severity[a] {
		return b
	}
	return a
}

// HealthItem is one good or bad item that a node reports about itself, independent of its parameters.
type HealthItem struct {
	Name   string
	Good   bool
	Detail string
}

// Peer holds the facts about a node other than its parameters.
type Peer struct {
	Name       string
	Online     bool
	Clusters   []string // of which it is a member, in display order
	Health     []HealthItem
	LastReport time.Time // zero for never
}

// PeerStatusReport is the state of one node, for people. It is derived: the node's own report is an
// EdgePeerConfigurationState.
type PeerStatusReport struct {
	PeerConfigurationState        // its Ready covers the parameters only; the field Ready below hides it
	Name                   string // of the peer
	Online                 bool
	Clusters               []string // membership
	Health                 Health
	Items                  []HealthItem // the general health that the node reports
	Counts                 map[State]int
	Reviews                int // number of parameters that need review, including ignored ones
	Desired                config.Generation
	Applied                config.Generation // as reported by the node; zero for none
	LastReport             time.Time         // zero for never
	// Ready reports that the node is online, has applied the desired config, and every parameter is in a final state.
	Ready bool
	Why   string // why it is not ready; "" if it is
}

// Age returns the age of the last report, or false if there is none. A report from the future, by another clock, is
// new.
func (r PeerStatusReport) Age(now time.Time) (time.Duration, bool) {
	if r.LastReport.IsZero() {
		return 0, false
	}
	return max(0, now.Sub(r.LastReport)), true
}

// Summarize derives the status report of a node.
func Summarize(peer Peer, want Config, got EdgePeerConfigurationState) PeerStatusReport {
	r := PeerStatusReport{
		PeerConfigurationState: Derive(want, got), Name: peer.Name, Online: peer.Online, Clusters: peer.Clusters,
		Items:  peer.Health,
		Counts: map[State]int{}, Desired: want.Generation, Applied: got.Generation, LastReport: peer.LastReport,
	}
	for _, p := range r.Parameters {
		r.Counts[p.State]++
		if p.Review == ReviewYes {
			r.Reviews++
		}
	}
	for _, i := range r.Ignored {
		if i.Review == ReviewYes {
			r.Reviews++
		}
	}
	r.Health, r.Why = r.healthOf(), r.notReadyReason()
	r.Ready = r.Why == ""
	return r
}

// healthOf returns the health of a node. A reported failure needs review whether the node is online or not; all other
// states of an offline node are unknown. A bad item of the general health gives at most Yellow: a network that is
// coming up is a bad item too, and a lasting problem fails a parameter, which gives Red.
func (r PeerStatusReport) healthOf() Health {
	if r.Reviews > 0 {
		return Red
	}
	if !r.Online || r.LastReport.IsZero() {
		return Unknown
	}
	health := Green
	for _, p := range r.Parameters {
		if p.Review == ReviewMaybe || p.State.Class() == Transitional {
			health = Yellow
		}
	}
	for _, i := range r.Ignored {
		if i.Review == ReviewMaybe {
			health = Yellow
		}
	}
	for _, i := range r.Items {
		if !i.Good {
			health = Yellow
		}
	}
	return health
}

// notReadyReason returns the reason why the node is not ready, "" if it is.
func (r PeerStatusReport) notReadyReason() string {
	switch {
	case !r.Online:
		return "it is offline"
	case r.Desired == config.Generation{}:
		return "it has no desired config yet"
	case r.Applied != r.Desired:
		return fmt.Sprintf("it runs %s, desired is %s", formatGeneration(r.Applied), r.Desired)
	}
	return describeUnfinished(r.Parameters)
}

// waitsFor begins a reason that only names another parameter.
const waitsFor = "waits for "

// describeUnfinished names a parameter that is not in its final state, the reason, and the number of such parameters.
// It names the first failed one, else the first that waits for no other parameter, else the first. The count comes
// last, since lists cut long texts. It returns "" if all are in their final state.
func describeUnfinished(params []DerivedParameter) string {
	rank := func(p DerivedParameter) int {
		switch {
		case p.State.Class() == Failed:
			return 0
		case !strings.HasPrefix(p.Reason, waitsFor):
			return 1
		}
		return 2
	}
	count, first := 0, DerivedParameter{}
	for _, p := range params {
		if p.State.Class() == Final && !p.Stale {
			continue
		}
		if count++; count == 1 || rank(p) < rank(first) {
			first = p
		}
	}
	if count == 0 {
		return ""
	}
	why := joinNonEmpty(fmt.Sprintf("%s is %s", first.ID, first.State), first.Reason)
	return fmt.Sprintf("%s; %d of %d parameters are not in their final state", why, count, len(params))
}

// formatGeneration formats a generation for people. A generation read from a file has only a number.
func formatGeneration(g config.Generation) string {
	switch {
	case g == config.Generation{}:
		return "none"
	case g.Authority == "":
		return strconv.FormatUint(g.Counter, 10)
	}
	return g.String()
}

// NewlyIgnored returns the ignored IDs to log after a change: those that were not ignored before, or whose state or
// review changed. A changed message alone is not logged.
func NewlyIgnored(before, after PeerConfigurationState) []IgnoredParameter {
	type shown struct {
		reported State
		review   Review
	}
	was := make(map[string]shown, len(before.Ignored))
	for _, i := range before.Ignored {
		was[i.ID] = shown{i.Reported, i.Review}
	}
	var out []IgnoredParameter
	for _, i := range after.Ignored {
		if old, known := was[i.ID]; !known || old != (shown{i.Reported, i.Review}) {
			out = append(out, i)
		}
	}
	return out
}
