package state

import (
	"fmt"

	"edgespan/config"
)

// Peer is what is known of a node beside its parameters.
type Peer struct {
	Online     bool
	Generation config.Generation // the one that it reports as fully applied
}

// Report is the state of one node in short (the seed's PeerStatusReport).
type Report struct {
	Derived
	Online   bool
	Wanted   config.Generation
	Reported config.Generation
	// Ready says that the node is online, that it has applied what is wanted, and that every
	// parameter is in a final state.
	Ready bool
	Why   string // it is not ready; "" if it is
	// How many parameters there are of each class, and how many somebody should look at,
	// those that were dropped included.
	Final, Transitional, Failed, Review int
}

// Summarize derives the report of a node.
func Summarize(peer Peer, want Config, reports []Reported) Report {
	r := Report{Derived: Derive(want, reports), Online: peer.Online, Wanted: want.Generation, Reported: peer.Generation}
	var first Parameter // that is not in a final state, failures before others
	for _, p := range r.Parameters {
		class := p.State.Class()
		switch class {
		case Final:
			r.Final++
		case Transitional:
			r.Transitional++
		case Failed:
			r.Failed++
		}
		if p.Review {
			r.Review++
		}
		if class != Final && (first.ID == "" || class == Failed && first.State.Class() != Failed) {
			first = p
		}
	}
	for _, d := range r.Dropped {
		if d.Review == Yes {
			r.Review++
		}
	}
	switch {
	case !r.Online:
		r.Why = "it is offline"
	case r.Wanted == config.Generation{}:
		r.Why = "nothing is wanted of it yet"
	case r.Reported != r.Wanted:
		r.Why = fmt.Sprintf("it runs %s, wanted is %s", orNone(r.Reported), r.Wanted)
	case !r.Derived.Ready:
		r.Why = fmt.Sprintf("%d of %d parameters are not in their final state: %s is %s", r.Transitional+r.Failed, len(r.Parameters), first.ID, first.State)
		if first.Detail != "" {
			r.Why += ": " + first.Detail
		}
	}
	r.Ready = r.Why == ""
	return r
}

func orNone(g config.Generation) string {
	if g == (config.Generation{}) {
		return "none"
	}
	return g.String()
}
