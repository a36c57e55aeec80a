package actors

import (
	"edgespan/appnet"
	"edgespan/netinst"
	"edgespan/pubsub"
)

// reporter derives reported-state: one parameter for each network and adapter,
// from what their owners say. Host ops roll up into these.
type reporter struct {
	topics   *Topics
	networks *pubsub.Subscription[netinst.NetworkInstanceStatus]
	apps     *pubsub.Subscription[appnet.AppNetworkStatus]
	out      *pubsub.Publisher[Parameter]
	adapters map[string][]string // ids by app
}

func (r *reporter) start(t *Topics, wake func()) {
	r.topics = t
	r.adapters = map[string][]string{}
	r.out = t.Reported.Publisher(ownerConfig)
	r.networks = t.NetworkStatus.Subscribe(pubsub.Selector{}, wake)
	r.apps = t.AppStatus.Subscribe(pubsub.Selector{}, wake)
}

func (r *reporter) stop() {
	if r.networks != nil {
		r.networks.Close()
		r.apps.Close()
	}
}

func (r *reporter) drain() {
	for _, ch := range r.networks.Drain() {
		id := "ni/" + ch.Key
		switch ch.Kind {
		case pubsub.Deleted:
			must(r.out.Unpublish("", id))
		case pubsub.Created, pubsub.Modified:
			s := ch.New
			target := "present"
			if _, wanted := r.topics.NetworkConfig.Get("", ch.Key); !wanted {
				target = "absent"
			}
			must(r.out.Publish("", id, Parameter{
				ID: id, Kind: "network-instance", Target: target, State: string(s.State), Generation: s.Generation, Error: s.Error,
			}))
		}
	}
	for _, ch := range r.apps.Drain() {
		switch ch.Kind {
		case pubsub.Deleted:
			r.replace(ch.Key, nil)
		case pubsub.Created, pubsub.Modified:
			r.replace(ch.Key, adapterParameters(ch.New))
		}
	}
}

// replace publishes an app's parameters and withdraws those it no longer has.
func (r *reporter) replace(app string, ps []Parameter) {
	keep := map[string]bool{}
	var ids []string
	for _, p := range ps {
		keep[p.ID] = true
		ids = append(ids, p.ID)
		must(r.out.Publish("", p.ID, p))
	}
	for _, id := range r.adapters[app] {
		if !keep[id] {
			must(r.out.Unpublish("", id))
		}
	}
	r.adapters[app] = ids
}

func adapterParameters(s appnet.AppNetworkStatus) []Parameter {
	var ps []Parameter
	for _, a := range s.Adapters {
		p := Parameter{
			ID: "adapter/" + adapterID(s.UUID.String(), a.Index), Kind: "app-adapter", Target: "present",
			State: string(netinst.Present), Generation: a.TargetVersion, Error: a.Error,
		}
		if !a.Activated {
			p.State = string(netinst.WaitingForDependencies)
			if a.Error != "" {
				p.State = string(netinst.CreatingFailed)
			}
		}
		ps = append(ps, p)
	}
	return ps
}
