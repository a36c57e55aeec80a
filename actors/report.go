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
			wish, _ := r.topics.AppConfig.Get("", ch.Key)
			r.replace(ch.Key, adapterParameters(ch.New, wish))
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

// adapterParameters are the adapters of an app as parameters: present is wanted of
// those that its config has and activates, absent of all others.
func adapterParameters(s appnet.AppNetworkStatus, wish appnet.AppNetworkConfig) []Parameter {
	var ps []Parameter
	for _, a := range s.Adapters {
		p := Parameter{
			ID: "adapter/" + adapterID(s.UUID.String(), a.Index), Kind: "app-adapter",
			Target: "absent", State: "Absent", Generation: a.TargetVersion, Error: a.Error,
		}
		if _, has := wish.Adapters[a.Index]; has && wish.Activate {
			p.Target, p.State = "present", string(adapterState(a))
		} else if a.Activated {
			p.State = string(netinst.Removing)
		}
		ps = append(ps, p)
	}
	return ps
}

// adapterState is the state of an adapter that is wanted.
func adapterState(a appnet.AdapterStatus) netinst.NIState {
	switch {
	case a.Activated:
		return netinst.Present
	case a.Error != "" && !a.Waiting:
		return netinst.CreatingFailed
	}
	return netinst.WaitingForDependencies
}
