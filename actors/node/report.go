package node

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"edgespan/actors/node/api"
	"edgespan/appnet"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/peer"
	"edgespan/config/stateloop/peer/task"
	"edgespan/netinst"
	"edgespan/pubsub"
)

// reporter derives reported-state: one parameter for each network, adapter, part of a
// cluster's network, executor and check, from what their owners say. Host ops roll up into these.
type reporter struct {
	topics   *api.Topics
	networks *pubsub.Subscription[netinst.NetworkInstanceStatus]
	apps     *pubsub.Subscription[appnet.AppNetworkStatus]
	tasks    *pubsub.Subscription[task.Status]
	out      *pubsub.Publisher[api.Parameter]
	adapters map[string][]string // ids by app
	clusters map[uuid.UUID]peer.Network
	parts    map[string][]string // ids by network
	absent   []peer.Parameter    // what is to be absent
}

func (r *reporter) start(t *api.Topics, subs *subscriptions) {
	r.topics = t
	r.adapters, r.parts = map[string][]string{}, map[string][]string{}
	r.out = t.Reported.Publisher(api.OwnerConfig)
	r.networks = subscribe(subs, t.NetworkStatus, pubsub.Selector{})
	r.apps = subscribe(subs, t.AppStatus, pubsub.Selector{})
	r.tasks = subscribe(subs, t.TaskStatus, pubsub.Selector{})
}

// peers takes the configuration whose parts are reported from now on.
func (r *reporter) peers(c peer.Configuration) {
	r.clusters, r.absent = c.Networks(), nil
	for _, p := range c.Parameters {
		if p.Target == stateloop.ToBeAbsent {
			r.absent = append(r.absent, p)
		}
	}
	for network := range r.parts {
		s, is := r.topics.NetworkStatus.Get("", network)
		r.part(network, s, is)
	}
}

func (r *reporter) drain() {
	for _, ch := range r.networks.Drain() {
		id := stateloop.NetworkID(ch.Key)
		switch ch.Kind {
		case pubsub.Deleted:
			must(r.out.Unpublish("", id))
			r.part(ch.Key, netinst.NetworkInstanceStatus{}, false)
		case pubsub.Created, pubsub.Modified:
			s := ch.New
			target := "present"
			if _, wanted := r.topics.NetworkConfig.Get("", ch.Key); !wanted {
				target = "absent"
			}
			r.publish(api.Parameter{
				ID: id, Kind: "network-instance", Target: target, State: string(s.State), Generation: s.Generation, Error: s.Error,
			})
			r.part(ch.Key, s, true)
		}
	}
	for _, ch := range r.apps.Drain() {
		switch ch.Kind {
		case pubsub.Deleted:
			r.replace(r.adapters, ch.Key, nil)
		case pubsub.Created, pubsub.Modified:
			wish, _ := r.topics.AppConfig.Get("", ch.Key)
			r.replace(r.adapters, ch.Key, adapterParameters(ch.New, wish))
		}
	}
	for _, ch := range r.tasks.Drain() {
		switch ch.Kind {
		case pubsub.Deleted:
			must(r.out.Unpublish("", ch.Key))
		case pubsub.Created, pubsub.Modified:
			s := ch.New
			kind := peer.KindExecutor
			if strings.HasPrefix(s.ID, "check/") {
				kind = peer.KindCheck
			}
			r.publish(api.Parameter{
				ID: s.ID, Kind: kind, Target: string(s.Target), State: string(s.State), Generation: s.Version, Error: s.Reason,
				Attempts: s.Attempts, NextTry: s.NextTry,
			})
		}
	}
}

// publish tells of a parameter, and since when it is so.
func (r *reporter) publish(p api.Parameter) {
	was, known := r.topics.Reported.Get("", p.ID)
	p.Since = time.Now()
	if known && was.State == p.State && was.Target == p.Target {
		p.Since = was.Since
	}
	if !known || was != p {
		must(r.out.Publish("", p.ID, p))
	}
}

// replace publishes an object's parameters and withdraws those it no longer has.
func (r *reporter) replace(of map[string][]string, key string, ps []api.Parameter) {
	keep := map[string]bool{}
	var ids []string
	for _, p := range ps {
		keep[p.ID] = true
		ids = append(ids, p.ID)
		r.publish(p)
	}
	for _, id := range of[key] {
		if !keep[id] {
			must(r.out.Unpublish("", id))
		}
	}
	of[key] = ids
}

// part reports what the bridge manager says of the parts of a cluster's network.
func (r *reporter) part(network string, s netinst.NetworkInstanceStatus, is bool) {
	id, err := uuid.Parse(network)
	n, cluster := r.clusters[id]
	if err != nil || !is || !cluster {
		r.replace(r.parts, network, nil)
		delete(r.parts, network)
		return
	}
	var ps []api.Parameter
	for _, p := range s.Parts {
		out := api.Parameter{Target: "present", State: string(p.State), Generation: s.Generation, Error: p.Error}
		joins := ""
		switch p.Kind {
		case netinst.PartBridge:
			out.ID, out.Kind = n.Bridge, peer.KindBridge
		case netinst.PartTunnel:
			out.ID, out.Kind = n.Tunnels[p.Name], peer.KindTunnel
			joins = out.ID
		case netinst.PartMember:
			out.ID, out.Kind = n.Members[p.Name], peer.KindInterface
			joins = out.ID
		}
		if out.ID == "" { // of the config before
			continue
		}
		ps = append(ps, out)
		if joins != "" {
			out.ID, out.Kind = peer.JoinedID(id, joins), peer.KindJoined
			ps = append(ps, out)
		}
	}
	r.replace(r.parts, network, ps)
}

// gone are the parameters that are to be absent and of which nobody says anything: they are
// absent, but for what is part of a network that has not got there yet.
func (r *reporter) gone() []api.Parameter {
	var out []api.Parameter
	for _, p := range r.absent {
		if _, told := r.topics.Reported.Get("", p.ID); told {
			continue
		}
		is, why := r.left(p)
		out = append(out, api.Parameter{ID: p.ID, Kind: p.Kind, Target: "absent", State: string(is), Error: why})
	}
	return out
}

// left is how a part of a network is that is to be absent. Which part of the network it was is
// not known after a restart: while any of its kind is on its way out, it is not absent.
func (r *reporter) left(p peer.Parameter) (is stateloop.State, why string) {
	kinds := map[string][]string{
		peer.KindBridge: {}, peer.KindTunnel: {netinst.PartTunnel}, peer.KindJoined: {netinst.PartTunnel, netinst.PartMember},
	}[p.Kind]
	if kinds == nil { // an interface is the host's: it is never removed
		return stateloop.Absent, ""
	}
	_, below, _ := strings.Cut(p.ID, "/")
	network, _, _ := strings.Cut(below, "/")
	s, seen := r.topics.NetworkStatus.Get("", network)
	c, wanted := r.topics.NetworkConfig.Get("", network)
	if !seen {
		return stateloop.Absent, ""
	}
	if !wanted {
		if s.State == netinst.RemovingFailed || s.State == netinst.CheckAbsentFailed {
			return stateloop.State(s.State), s.Error
		}
		return stateloop.Removing, ""
	}
	if s.Generation != c.Generation {
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

// network is the one that a parameter is, or is part of; "" for none.
func (r *reporter) network(p api.Parameter) string {
	switch p.Kind {
	case peer.KindNetwork, peer.KindBridge, peer.KindTunnel, peer.KindJoined:
		_, below, _ := strings.Cut(p.ID, "/")
		network, _, _ := strings.Cut(below, "/")
		return network
	case peer.KindInterface:
		for id := range r.parts {
			if slices.Contains(r.parts[id], p.ID) {
				return id
			}
		}
	}
	return ""
}

// adapterParameters are the adapters of an app as parameters: present is wanted of
// those that its config has and activates, absent of all others.
func adapterParameters(s appnet.AppNetworkStatus, wish appnet.AppNetworkConfig) []api.Parameter {
	var ps []api.Parameter
	for _, a := range s.Adapters {
		p := api.Parameter{
			ID: "adapter/" + api.AdapterID(s.UUID.String(), a.Index), Kind: "app-adapter",
			Target: "absent", State: "Absent", Generation: a.TargetVersion, Error: a.Error,
		}
		if _, has := wish.Adapters[a.Index]; has && wish.Activate {
			p.Target, p.State = "present", string(a.State(true))
		} else if a.Activated {
			p.State = string(a.State(false))
		}
		ps = append(ps, p)
	}
	return ps
}

// reportedPorts are the ports as the controller needs them for the tunnels of others: by
// label, without addresses that lead nowhere but to the link.
func reportedPorts(all map[string]netinst.PortStatus) []nodeproto.Port {
	var out []nodeproto.Port
	for label, s := range all {
		if !s.Exists {
			continue
		}
		p := nodeproto.Port{Label: label, MTU: s.LinkMTU}
		for _, a := range s.Addresses {
			if !a.Addr().IsLinkLocalUnicast() {
				p.Addresses = append(p.Addresses, a.Addr().String())
			}
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b nodeproto.Port) int { return cmp.Compare(a.Label, b.Label) })
	return out
}
