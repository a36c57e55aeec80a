package nodestate

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
	"edgespan/config/stateloop/peer/task"
	"edgespan/netinst"
)

// ParameterStatus is one declared parameter of the node with its reported state.
type ParameterStatus struct {
	ID         string    `json:"id"` // "ni/<uuid>", "adapter/<app>/<index>", and those of config/stateloop/peer
	Kind       string    `json:"kind"`
	Target     string    `json:"target"`
	State      string    `json:"state"`
	Generation uint64    `json:"generation"`
	Error      string    `json:"error"`
	Since      time.Time `json:"since"`              // start of the present state
	Attempts   int       `json:"attempts,omitempty"` // consecutive failures
	NextTry    time.Time `json:"nextTry,omitzero"`
}

const (
	present = string(stateloop.ToBePresent)
	absent  = string(stateloop.ToBeAbsent)
)

// KeepSince returns the parameter with the time since which it has its state, given the previous report of it, if
// known. It also reports whether the parameter differs from that report and must be published.
func (p ParameterStatus) KeepSince(was ParameterStatus, known bool, now time.Time) (ParameterStatus, bool) {
	p.Since = now
	if known && was.State == p.State && was.Target == p.Target {
		p.Since = was.Since
	}
	return p, !known || was != p
}

// Healthy reports whether the parameter is in its desired state, and whether it counts for the node's health.
// Parameters in which other nodes have a part do not count: no push is undone because a peer is away.
func (p ParameterStatus) Healthy() (ok, counts bool) {
	switch p.Kind {
	case stateloop.KindNetwork, stateloop.KindAdapter, peer.KindExecutor:
		return (p.State == string(stateloop.Present)) == (p.Target == present) && p.Error == "", true
	}
	return false, false
}

// NetworkParameter returns a network as a parameter; desired reports whether the config has the network.
func NetworkParameter(id string, s netinst.NetworkInstanceStatus, desired bool) ParameterStatus {
	p := ParameterStatus{ID: stateloop.NetworkID(id), Kind: stateloop.KindNetwork, Target: absent, State: string(s.State),
		Generation: s.Generation, Error: s.Error}
	if desired {
		p.Target = present
	}
	return p
}

// AdapterParameters returns the adapters of an app as parameters: the target is present for those that the config has
// and activates, and absent for all others, also those of networks that the config deactivates, as inactive
// tells.
func AdapterParameters(s appnet.AppNetworkStatus, desired appnet.AppNetworkConfig,
	inactive func(network uuid.UUID) bool) []ParameterStatus {
	var ps []ParameterStatus
	for _, a := range s.Adapters {
		p := ParameterStatus{
			ID: "adapter/" + s.UUID.String() + "/" + strconv.Itoa(a.Index), Kind: stateloop.KindAdapter,
			Target: absent, State: string(stateloop.Absent), Generation: a.TargetVersion, Error: a.Error,
		}
		spec, has := desired.Adapters[a.Index]
		active := has && desired.Activate
		waits := active && inactive(spec.NetworkInstance)
		switch {
		case active && !waits:
			p.Target, p.State = present, string(a.State(true))
		case a.Activated:
			p.State = string(a.State(false))
		case waits:
			p.Error = "" // that its network is not activated
		}
		ps = append(ps, p)
	}
	return ps
}

// TaskParameter returns an executor or a check as a parameter.
func TaskParameter(s task.Status) ParameterStatus {
	kind := peer.KindExecutor
	if strings.HasPrefix(s.ID, "check/") {
		kind = peer.KindCheck
	}
	return ParameterStatus{ID: s.ID, Kind: kind, Target: string(s.Target), State: string(s.State), Generation: s.Version,
		Error: s.Reason, Attempts: s.Attempts, NextTry: s.NextTry}
}

// ClusterParameters returns the parts of a cluster's network as parameters, by the report of its bridge manager.
func ClusterParameters(id uuid.UUID, n peer.Network, s netinst.NetworkInstanceStatus) []ParameterStatus {
	var ps []ParameterStatus
	for _, part := range s.Parts {
		p := ParameterStatus{Target: present, State: string(part.State), Generation: s.Generation, Error: part.Error}
		joins := ""
		switch part.Kind {
		case netinst.PartBridge:
			p.ID, p.Kind = n.Bridge, peer.KindBridge
		case netinst.PartTunnel:
			p.ID, p.Kind = n.Tunnels[part.Name], peer.KindTunnel
			joins = p.ID
		case netinst.PartMember:
			p.ID, p.Kind = n.Members[part.Name], peer.KindInterface
			joins = p.ID
		}
		if p.ID == "" { // a part of the previous config
			continue
		}
		ps = append(ps, p)
		if joins != "" {
			p.ID, p.Kind = peer.JoinedID(id, joins), peer.KindJoined
			ps = append(ps, p)
		}
	}
	return ps
}

// NetworkOfParameter returns the network that a parameter is or belongs to, from the parameter's ID; "" for other
// kinds.
func NetworkOfParameter(kind, id string) string {
	switch kind {
	case peer.KindNetwork, peer.KindBridge, peer.KindTunnel, peer.KindJoined:
		_, below, _ := strings.Cut(id, "/")
		network, _, _ := strings.Cut(below, "/")
		return network
	}
	return ""
}

// Network is the config of one network and the report of its bridge manager.
type Network struct {
	Status         netinst.NetworkInstanceStatus
	Config         netinst.NetworkInstanceConfig
	Known, Desired bool // whether Status and Config are set
}

// AbsentParameter returns the state of a parameter with the target absent that no report names. After a restart its
// part of the network is unknown, so it is not absent while any part of its kind is being removed.
func AbsentParameter(p peer.DeclaredParameter, n Network) ParameterStatus {
	state, why := absentState(p.Kind, n)
	return ParameterStatus{ID: p.ID, Kind: p.Kind, Target: absent, State: string(state), Error: why}
}

func absentState(kind string, n Network) (state stateloop.State, why string) {
	kinds := map[string][]string{
		peer.KindBridge: {}, peer.KindTunnel: {netinst.PartTunnel}, peer.KindJoined: {netinst.PartTunnel, netinst.PartMember},
	}[kind]
	if kinds == nil || !n.Known { // an interface belongs to the host and is never removed
		return stateloop.Absent, ""
	}
	s := n.Status
	if !n.Desired {
		if s.State == netinst.RemovingFailed || s.State == netinst.CheckAbsentFailed {
			return stateloop.State(s.State), s.Error
		}
		return stateloop.Removing, ""
	}
	if s.Generation != n.Config.Generation {
		state = stateloop.Removing
	}
	for _, part := range s.Parts {
		switch {
		case !slices.Contains(kinds, part.Kind):
		case part.State == netinst.RemovingFailed || part.State == netinst.CheckAbsentFailed:
			return stateloop.State(part.State), part.Error
		case part.State == netinst.Removing:
			state = stateloop.Removing
		}
	}
	return cmp.Or(state, stateloop.Absent), ""
}
