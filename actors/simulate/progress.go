package simulate

import (
	"fmt"
	"slices"
	"strings"

	"edgespan/config/fleet"
	"edgespan/config/httpapi/fleetapi"
)

// Progress is the state of a fleet.
type Progress struct {
	Nodes         int                   `json:"nodes"`
	Converged     int                   `json:"converged"` // including nodes that failed as requested
	FailedAsAsked map[InjectedFault]int `json:"failedAsAsked"`
	Waiting       []Waiting             `json:"waiting"` // the rest, largest group first
}

// Waiting is a group of nodes that are not where they should be, for one reason.
type Waiting struct {
	State string   `json:"state"`
	Why   string   `json:"why"` // of the first node
	Nodes int      `json:"nodes"`
	Names []string `json:"names"` // some of them
}

// someNames is how many nodes are named for each reason.
const someNames = 5

// Count checks the nodes of a plan against their controller's report: a node that runs its desired generation,
// confirmed, has converged, and so has one that failed as requested.
func Count(names []string, plan []InjectedFault, seen []fleetapi.Node) Progress {
	t := Progress{Nodes: len(names), FailedAsAsked: map[InjectedFault]int{}, Waiting: []Waiting{}}
	byName := make(map[string]*fleetapi.Node, len(seen))
	for i := range seen {
		byName[seen[i].Name] = &seen[i]
	}
	rest := map[string]*Waiting{}
	for i, name := range names {
		state, why := waitingState(plan[i], byName[name])
		switch {
		case state == "" && plan[i].Fails():
			t.FailedAsAsked[plan[i]]++
			t.Converged++
		case state == "":
			t.Converged++
		default:
			w := rest[state]
			if w == nil {
				w = &Waiting{State: state, Why: why, Names: []string{}}
				rest[state] = w
			}
			w.Nodes++
			if len(w.Names) < someNames {
				w.Names = append(w.Names, name)
			}
		}
	}
	for _, w := range rest {
		t.Waiting = append(t.Waiting, *w)
	}
	slices.SortFunc(t.Waiting, func(a, b Waiting) int {
		if a.Nodes != b.Nodes {
			return b.Nodes - a.Nodes
		}
		return strings.Compare(a.State, b.State)
	})
	return t
}

// waitingState returns the state in which a node waits, "" for one that is where it should be.
func waitingState(fault InjectedFault, n *fleetapi.Node) (state, why string) {
	switch {
	case n == nil:
		return string(fleet.UnknownNode), "unknown to the controller"
	case fault == Hang && n.State == string(fleet.Pushing), fault != Hang && fault.Fails() &&
		n.State == string(fleet.RolledBack):
		return "", ""
	case fault.Fails() && n.State == string(fleet.InSync):
		return "not failed", "it was asked to " + string(fault) + " and took the config"
	case n.State != string(fleet.InSync):
		return n.State, n.Why
	case !n.Online:
		return string(fleet.Offline), n.Why
	case n.Desired.Generation == "" || n.Desired != n.Running:
		return "another config", fmt.Sprintf("runs %s, desired %s", n.Running.Generation, n.Desired.Generation)
	}
	return "", ""
}

// Done reports whether every node is where it should be.
func (t Progress) Done() bool { return t.Converged == t.Nodes }

// String returns the last line of a simulation.
func (t Progress) String() string {
	line := fmt.Sprintf("converged %d of %d", t.Converged, t.Nodes)
	var failed []string
	for _, f := range AllFaults {
		if n := t.FailedAsAsked[f]; n > 0 {
			failed = append(failed, fmt.Sprintf("%d %s", n, f))
		}
	}
	if len(failed) > 0 {
		line += ", of these failed as asked: " + strings.Join(failed, ", ")
	}
	return line
}
