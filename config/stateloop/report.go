package stateloop

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"edgespan/config"
)

// Health is a traffic light, the worse the earlier: Red, Yellow, Unknown, Green.
type Health string

// The lights.
const (
	Red     Health = "red"     // a parameter is for review
	Yellow  Health = "yellow"  // one is on its way or may be for review, or the node says that something of it is bad
	Unknown Health = "unknown" // the node is offline, or has not reported
	Green   Health = "green"
)

// severity orders lights, the worse the higher.
var severity = map[Health]int{Green: 0, Unknown: 1, Yellow: 2, Red: 3}

// worse is the worse of two lights.
func worse(a, b Health) Health {
	if severity[b] > severity[a] {
		return b
	}
	return a
}

// HealthItem is one thing that a node says is good or bad of it, whatever its parameters are.
type HealthItem struct {
	Name   string
	Good   bool
	Detail string
}

// Peer is what is known of a node beside its parameters.
type Peer struct {
	Name       string
	Online     bool
	Clusters   []string // that it is a member of, in the order in which they are shown
	Health     []HealthItem
	LastReport time.Time // zero for never
}

// PeerStatusReport is the state of one node, for people.
type PeerStatusReport struct {
	PeerConfigurationState        // Ready is of the whole here
	Name                   string // of the peer
	Online                 bool
	Clusters               []string // membership
	Health                 Health
	Items                  []HealthItem // the general health that the node reports
	Counts                 map[State]int
	Reviews                int // parameters that are for review, ignored ones included
	Desired                config.Generation
	Applied                config.Generation // that the node reports; zero for none
	LastReport             time.Time         // zero for never
	// Ready says that the node is online, that it has applied what is wanted, and that every
	// parameter is in a final state.
	Ready bool
	Why   string // it is not ready; "" if it is
}

// Age is how old the last report is; false if there is none. A report from the future, by
// another clock, is new.
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

// light is the health of a node. A failure that was reported is for review whether the node is
// still there or not; of anything else nobody knows without the node. A bad item of its
// general health is no reason for more than Yellow: a network on its way is one too, and what
// does not resolve itself fails a parameter, which is Red.
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

// why says why the node is not ready, "" if it is.
func (r PeerStatusReport) why() string {
	switch {
	case !r.Online:
		return "it is offline"
	case r.Desired == config.Generation{}:
		return "nothing is wanted of it yet"
	case r.Applied != r.Desired:
		return fmt.Sprintf("it runs %s, wanted is %s", orNone(r.Applied), r.Desired)
	}
	return unfinished(r.Parameters)
}

// waitsFor begins a reason that is nothing but what another parameter is.
const waitsFor = "waits for "

// unfinished names a parameter that is not in its final state, why, and how many there are: the
// first that failed, else the first that waits for no other parameter, else the first. The count
// is last: lists cut what is long. It is "" if all are in their final state.
func unfinished(ps []Parameter) string {
	rank := func(p Parameter) int {
		switch {
		case p.State.Class() == Failed:
			return 0
		case !strings.HasPrefix(p.Reason, waitsFor):
			return 1
		}
		return 2
	}
	count, first := 0, Parameter{}
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

// orNone is a generation for a person. Offline nobody counts but the file.
func orNone(g config.Generation) string {
	switch {
	case g == config.Generation{}:
		return "none"
	case g.Authority == "":
		return strconv.FormatUint(g.Counter, 10)
	}
	return g.String()
}

// NewlyIgnored are the ignored ids that are to be logged after a change: those that were not
// ignored before, or were with another state or review. A message that alone is another says
// nothing new of the id.
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
