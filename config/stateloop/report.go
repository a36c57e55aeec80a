package stateloop

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"edgespan/config"
)

// Health is a traffic light, from worst to best: Red, Yellow, Unknown, Green.
type Health string

// The lights.
const (
	Red     Health = "red"     // a parameter needs review
	Yellow  Health = "yellow"  // a parameter is on its way or may need review, or the node reports a bad item
	Unknown Health = "unknown" // the node is offline, or has not reported
	Green   Health = "green"
)

// severity orders lights: the worse, the higher.
var severity = map[Health]int{Green: 0, Unknown: 1, Yellow: 2, Red: 3}

// worse returns the worse of two lights.
func worse(a, b Health) Health {
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

// PeerStatusReport is the state of one node, for people.
type PeerStatusReport struct {
	PeerConfigurationState        // Ready covers the whole node here
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

// Summarize derives the report of a node.
func Summarize(peer Peer, want Config, got EdgePeerConfigurationState) PeerStatusReport {
	r := PeerStatusReport{
		PeerConfigurationState: Derive(want, got), Name: peer.Name, Online: peer.Online, Clusters: peer.Clusters,
		Items:  peer.Health,
		Counts: map[State]int{}, Desired: want.Generation, Applied: got.Generation, LastReport: peer.LastReport,
	}
	for _, p := range r.Parameters {
		r.Counts[p.State]++
		if p.Review == Yes {
			r.Reviews++
		}
	}
	for _, i := range r.Ignored {
		if i.Review == Yes {
			r.Reviews++
		}
	}
	r.Health, r.Why = r.light(), r.why()
	r.Ready = r.Why == ""
	return r
}

// light returns the health of a node. A reported failure needs review whether the node is online or not; all other
// states of an offline node are unknown. A bad item of the general health gives at most Yellow: a network that is
// coming up is a bad item too, and a lasting problem fails a parameter, which gives Red.
func (r PeerStatusReport) light() Health {
	if r.Reviews > 0 {
		return Red
	}
	if !r.Online || r.LastReport.IsZero() {
		return Unknown
	}
	light := Green
	for _, p := range r.Parameters {
		if p.Review == Maybe || p.State.Class() == Transitional {
			light = Yellow
		}
	}
	for _, i := range r.Ignored {
		if i.Review == Maybe {
			light = Yellow
		}
	}
	for _, i := range r.Items {
		if !i.Good {
			light = Yellow
		}
	}
	return light
}

// why returns the reason why the node is not ready, "" if it is.
func (r PeerStatusReport) why() string {
	switch {
	case !r.Online:
		return "it is offline"
	case r.Desired == config.Generation{}:
		return "it has no desired config yet"
	case r.Applied != r.Desired:
		return fmt.Sprintf("it runs %s, desired is %s", orNone(r.Applied), r.Desired)
	}
	return unfinished(r.Parameters)
}

// waitsFor begins a reason that only names another parameter.
const waitsFor = "waits for "

// unfinished names a parameter that is not in its final state, the reason, and the number of such parameters: the first
// failed one, else the first that waits for no other parameter, else the first. The count comes last, since lists cut
// long texts. It returns "" if all are in their final state.
func unfinished(ps []DerivedParameter) string {
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
	for _, p := range ps {
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
	why := joined(fmt.Sprintf("%s is %s", first.ID, first.State), first.Reason)
	return fmt.Sprintf("%s; %d of %d parameters are not in their final state", why, count, len(ps))
}

// orNone formats a generation for people. Offline, only the file has a number.
func orNone(g config.Generation) string {
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
	type told struct {
		reported State
		review   Review
	}
	was := make(map[string]told, len(before.Ignored))
	for _, i := range before.Ignored {
		was[i.ID] = told{i.Reported, i.Review}
	}
	var out []IgnoredParameter
	for _, i := range after.Ignored {
		if old, known := was[i.ID]; !known || old != (told{i.Reported, i.Review}) {
			out = append(out, i)
		}
	}
	return out
}
