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

// Parameter is one declared parameter of the node and what became of it.
type Parameter struct {
	ID         string    `json:"id"` // "ni/<uuid>", "adapter/<app>/<index>", and those of config/stateloop/peer
	Kind       string    `json:"kind"`
	Target     string    `json:"target"`
	State      string    `json:"state"`
	Generation uint64    `json:"generation"`
	Error      string    `json:"error"`
	Since      time.Time `json:"since"`              // when it came to its state
	Attempts   int       `json:"attempts,omitempty"` // that failed, one after the other
	NextTry    time.Time `json:"nextTry,omitzero"`
}

const (
	present = string(stateloop.ToBePresent)
	absent  = string(stateloop.ToBeAbsent)
)

// After is the parameter as it follows what was reported of it before, if anything was: since when it is so, and
// whether that is to be told.
func (p Parameter) After(was Parameter, known bool, now time.Time) (Parameter, bool) {
	p.Since = now
	if known && was.State == p.State && was.Target == p.Target {
		p.Since = was.Since
	}
	return p, !known || was != p
}

// Healthy says whether the parameter is as it is to be, and whether that is a matter of the node's health. What the
// world beyond the node has a part in is not: no push is undone since another peer is away.
func (p Parameter) Healthy() (is, counts bool) {
	switch p.Kind {
	case stateloop.KindNetwork, stateloop.KindAdapter, peer.KindExecutor:
		return (p.State == string(stateloop.Present)) == (p.Target == present) && p.Error == "", true
	}
	return false, false
}

// OfNetwork is a network as a parameter; desired says that the config has it.
func OfNetwork(id string, s netinst.NetworkInstanceStatus, desired bool) Parameter {
	p := Parameter{ID: stateloop.NetworkID(id), Kind: stateloop.KindNetwork, Target: absent, State: string(s.State),
		Generation: s.Generation, Error: s.Error}
	if desired {
		p.Target = present
	}
	return p
}

// OfAdapters are the adapters of an app as parameters: present is wanted of those that its config has and activates,
// absent of all others.
func OfAdapters(s appnet.AppNetworkStatus, desired appnet.AppNetworkConfig) []Parameter {
	var ps []Parameter
	for _, a := range s.Adapters {
		p := Parameter{
			ID: "adapter/" + s.UUID.String() + "/" + strconv.Itoa(a.Index), Kind: stateloop.KindAdapter,
			Target: absent, State: string(stateloop.Absent), Generation: a.TargetVersion, Error: a.Error,
		}
		if _, has := desired.Adapters[a.Index]; has && desired.Activate {
			p.Target, p.State = present, string(a.State(true))
		} else if a.Activated {
			p.State = string(a.State(false))
		}
		ps = append(ps, p)
	}
	return ps
}

// OfTask is an executor or a check as a parameter.
func OfTask(s task.Status) Parameter {
	kind := peer.KindExecutor
	if strings.HasPrefix(s.ID, "check/") {
		kind = peer.KindCheck
	}
	return Parameter{ID: s.ID, Kind: kind, Target: string(s.Target), State: string(s.State), Generation: s.Version,
		Error: s.Reason, Attempts: s.Attempts, NextTry: s.NextTry}
}

// OfParts are the parts of a cluster's network as parameters, as its bridge manager says they are.
func OfParts(id uuid.UUID, n peer.Network, s netinst.NetworkInstanceStatus) []Parameter {
	var ps []Parameter
	for _, part := range s.Parts {
		p := Parameter{Target: present, State: string(part.State), Generation: s.Generation, Error: part.Error}
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
		if p.ID == "" { // of the config before
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

// NetworkIn is the network that a parameter is, or is part of, by the parameter's id; "" for one of another kind.
func NetworkIn(kind, id string) string {
	switch kind {
	case peer.KindNetwork, peer.KindBridge, peer.KindTunnel, peer.KindJoined:
		_, below, _ := strings.Cut(id, "/")
		network, _, _ := strings.Cut(below, "/")
		return network
	}
	return ""
}

// Network is what is known of one network: what is desired of it, and what its bridge manager says.
type Network struct {
	Status         netinst.NetworkInstanceStatus
	Config         netinst.NetworkInstanceConfig
	Known, Desired bool // there is a Status, and a Config
}

// Left is how a parameter is that is to be absent and of which nothing is said. Which part of the network it was is not
// known after a restart: while any of its kind is on its way out, it is not absent.
func Left(p peer.Parameter, n Network) Parameter {
	is, why := left(p.Kind, n)
	return Parameter{ID: p.ID, Kind: p.Kind, Target: absent, State: string(is), Error: why}
}

func left(kind string, n Network) (is stateloop.State, why string) {
	kinds := map[string][]string{
		peer.KindBridge: {}, peer.KindTunnel: {netinst.PartTunnel}, peer.KindJoined: {netinst.PartTunnel, netinst.PartMember},
	}[kind]
	if kinds == nil || !n.Known { // an interface is the host's: it is never removed
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
		is = stateloop.Removing
	}
	for _, part := range s.Parts {
		switch {
		case !slices.Contains(kinds, part.Kind):
		case part.State == netinst.RemovingFailed || part.State == netinst.CheckAbsentFailed:
			return stateloop.State(part.State), part.Error
		case part.State == netinst.Removing:
			is = stateloop.Removing
		}
	}
	return cmp.Or(is, stateloop.Absent), ""
}
