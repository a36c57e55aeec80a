package node

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"edgespan/actors/node/api"
	"edgespan/appnet"
	"edgespan/config/stateloop"
	"edgespan/config/stateloop/nodestate"
	"edgespan/config/stateloop/peer"
	"edgespan/config/stateloop/peer/task"
	"edgespan/netinst"
	"edgespan/pubsub"
)

// reporter derives reported-state: one parameter for each network, adapter, part of a cluster's network, executor and
// check, from the statuses that their owners publish. Host ops are included in these.
type reporter struct {
	topics   *api.Topics
	networks *pubsub.Subscription[netinst.NetworkInstanceStatus]
	apps     *pubsub.Subscription[appnet.AppNetworkStatus]
	tasks    *pubsub.Subscription[task.Status]
	out      *pubsub.Publisher[nodestate.ParameterStatus]
	adapters map[string][]string // ids by app
	clusters map[uuid.UUID]peer.Network
	parts    map[string][]string      // ids by network
	absent   []peer.DeclaredParameter // parameters that must be absent
}

func (r *reporter) start(t *api.Topics, subs *subscriptions) {
	r.topics = t
	r.adapters, r.parts = map[string][]string{}, map[string][]string{}
	r.out = t.Reported.Publisher(api.OwnerConfig)
	r.networks = subscribe(subs, t.NetworkStatus, pubsub.Selector{})
	r.apps = subscribe(subs, t.AppStatus, pubsub.Selector{})
	r.tasks = subscribe(subs, t.TaskStatus, pubsub.Selector{})
}

// setPeers sets the configuration whose parts are reported from now on.
func (r *reporter) setPeers(c peer.Configuration) {
	r.clusters, r.absent = c.Networks(), nil
	for _, p := range c.Parameters {
		if p.Target == stateloop.ToBeAbsent {
			r.absent = append(r.absent, p)
		}
	}
	for network := range r.parts {
		s, ok := r.topics.NetworkStatus.Get("", network)
		r.reportParts(network, s, ok)
	}
}

func (r *reporter) drain() {
	for _, ch := range r.networks.Drain() {
		switch ch.Kind {
		case pubsub.Deleted:
			must(r.out.Unpublish("", stateloop.NetworkID(ch.Key)))
			r.reportParts(ch.Key, netinst.NetworkInstanceStatus{}, false)
		case pubsub.Created, pubsub.Modified:
			_, desired := r.topics.NetworkConfig.Get("", ch.Key)
			r.publish(nodestate.NetworkParameter(ch.Key, ch.New, desired))
			r.reportParts(ch.Key, ch.New, true)
		}
	}
	for _, ch := range r.apps.Drain() {
		switch ch.Kind {
		case pubsub.Deleted:
			r.replace(r.adapters, ch.Key, nil)
		case pubsub.Created, pubsub.Modified:
			desired, _ := r.topics.AppConfig.Get("", ch.Key)
			r.replace(r.adapters, ch.Key, nodestate.AdapterParameters(ch.New, desired, r.inactive))
		}
	}
	for _, ch := range r.tasks.Drain() {
		switch ch.Kind {
		case pubsub.Deleted:
			must(r.out.Unpublish("", ch.Key))
		case pubsub.Created, pubsub.Modified:
			r.publish(nodestate.TaskParameter(ch.New))
		}
	}
}

// inactive reports whether the config deactivates a network.
func (r *reporter) inactive(network uuid.UUID) bool {
	c, known := r.topics.NetworkConfig.Get("", network.String())
	return known && c.Inactive
}

// publish publishes a parameter with the time since which it has this state.
func (r *reporter) publish(p nodestate.ParameterStatus) {
	was, known := r.topics.Reported.Get("", p.ID)
	if now, pending := p.KeepSince(was, known, time.Now()); pending {
		must(r.out.Publish("", p.ID, now))
	}
}

// replace publishes an object's parameters and withdraws those it no longer has.
func (r *reporter) replace(of map[string][]string, key string, ps []nodestate.ParameterStatus) {
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
	if of[key] = ids; ids == nil {
		delete(of, key)
	}
}

// reportParts reports the parts of a cluster's network from the bridge manager's status.
func (r *reporter) reportParts(network string, s netinst.NetworkInstanceStatus, ok bool) {
	id, err := uuid.Parse(network)
	n, cluster := r.clusters[id]
	if err != nil || !ok || !cluster {
		r.replace(r.parts, network, nil)
		return
	}
	r.replace(r.parts, network, nodestate.ClusterParameters(id, n, s))
}

// absentParameters returns the parameters that must be absent and have no status: they are absent, except parts of a
// network that has not yet applied the config.
func (r *reporter) absentParameters() []nodestate.ParameterStatus {
	var out []nodestate.ParameterStatus
	for _, p := range r.absent {
		if _, reported := r.topics.Reported.Get("", p.ID); reported {
			continue
		}
		var n nodestate.Network
		id := nodestate.NetworkOfParameter(p.Kind, p.ID)
		n.Status, n.Known = r.topics.NetworkStatus.Get("", id)
		n.Config, n.Desired = r.topics.NetworkConfig.Get("", id)
		out = append(out, nodestate.AbsentParameter(p, n))
	}
	return out
}

// networkOf returns the network that a parameter is or belongs to, "" for none.
func (r *reporter) networkOf(p nodestate.ParameterStatus) string {
	if p.Kind == peer.KindInterface { // its id names no network
		for id := range r.parts {
			if slices.Contains(r.parts[id], p.ID) {
				return id
			}
		}
	}
	return nodestate.NetworkOfParameter(p.Kind, p.ID)
}
