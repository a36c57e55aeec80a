package stateloop

import (
	"fmt"
	"slices"
	"strings"
)

// ClusterMember is one peer of a cluster and the IDs of the parameters that belong to the cluster.
type ClusterMember struct {
	Report     PeerStatusReport
	Parameters []string // ids
}

// MemberStatus is the state of one peer of a cluster.
type MemberStatus struct {
	Report     PeerStatusReport   // of the whole peer
	Parameters []DerivedParameter // of the cluster, by ID
	Health     Health             // of its connection and these parameters
	Ready      bool               // it is online, and these parameters are in their final state
	Why        string             // why it is not ready; "" if it is
}

// ClusterStatus is the state of one cluster, for people.
type ClusterStatus struct {
	Name    string
	Members []MemberStatus // by the name of the peer
	Health  Health         // the worst of its members' health; Unknown without members
	Counts  map[State]int  // of the cluster's parameters
	Ready   bool           // there is a member, and every member is ready
	Why     string         // why it is not ready; "" if it is
}

// SummarizeCluster combines the status reports of a cluster's members.
func SummarizeCluster(name string, members []ClusterMember) ClusterStatus {
	s := ClusterStatus{Name: name, Health: Unknown, Counts: map[State]int{}}
	var notReady []string
	for i, m := range members {
		status := m.summarize()
		if i == 0 {
			s.Health = status.Health
		}
		s.Health = worseHealth(s.Health, status.Health)
		for _, p := range status.Parameters {
			s.Counts[p.State]++
		}
		s.Members = append(s.Members, status)
	}
	slices.SortFunc(s.Members, func(a, b MemberStatus) int { return strings.Compare(a.Report.Name, b.Report.Name) })
	for _, m := range s.Members {
		if !m.Ready {
			notReady = append(notReady, m.Report.Name+": "+m.Why)
		}
	}
	switch {
	case len(members) == 0:
		s.Why = "it has no members"
	case len(notReady) > 0:
		s.Why = fmt.Sprintf("%s; %d of %d members are not ready", notReady[0], len(notReady), len(members))
	}
	s.Ready = s.Why == ""
	return s
}

// summarize returns the state of the member. It leaves out parameters that its status report does not have yet.
func (m ClusterMember) summarize() MemberStatus {
	out := MemberStatus{Report: m.Report}
	var missing []string
	for _, id := range slices.Compact(slices.Sorted(slices.Values(m.Parameters))) {
		at, has := slices.BinarySearchFunc(m.Report.Parameters, id,
			func(p DerivedParameter, id string) int { return strings.Compare(p.ID, id) })
		if has {
			out.Parameters = append(out.Parameters, m.Report.Parameters[at])
		} else {
			missing = append(missing, id)
		}
	}
	switch {
	case !m.Report.Online:
		out.Why = "it is offline"
	case missing != nil:
		out.Why = "nothing is known of " + strings.Join(missing, ", ")
	default:
		out.Why = describeUnfinished(out.Parameters)
	}
	out.Ready = out.Why == ""
	out.Health = out.healthOf(missing != nil)
	return out
}

// healthOf returns the health of a member, counting only the cluster's parameters, by the same rules as for a peer.
// Other parameters of the node, such as an executor or another network, do not affect the health of a cluster.
func (m MemberStatus) healthOf(missing bool) Health {
	health := Green
	for _, p := range m.Parameters {
		switch {
		case p.Review == ReviewYes:
			return Red
		case p.Review == ReviewMaybe || p.State.Class() == Transitional:
			health = Yellow
		}
	}
	switch {
	case !m.Report.Online || m.Report.LastReport.IsZero():
		return Unknown
	case missing:
		return Yellow
	}
	return health
}
