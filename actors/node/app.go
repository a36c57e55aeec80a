package node

import (
	"errors"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"

	"edgespan/actors/node/cores"
	"edgespan/appnet"
	"edgespan/netinst"
	"edgespan/pubsub"
	"edgespan/pubsub/tape"
)

// appEnded tells the router that an app is removed completely.
type appEnded struct{ app uuid.UUID }

// app is the actor of one app network. It owns no logic: appnet.Machine does.
type app struct {
	d    *deps
	id   uuid.UUID
	key  string
	mach *appnet.Machine
	reel *tape.Reel

	subs     subscriptions
	config   *pubsub.Subscription[appnet.AppNetworkConfig]
	statuses *pubsub.Subscription[netinst.AppAdapterStatus]
	// networks are those that the config names, or where something of the app is left.
	networks []followed
	desired  []*pubsub.Subscription[netinst.NetworkInstanceConfig] // one for each that config names

	adapterPub *pubsub.Publisher[netinst.AppAdapterConfig]
	statusPub  *pubsub.Publisher[appnet.AppNetworkStatus]
	recordPub  *pubsub.Publisher[appnet.JournalRecord]
	syncedPub  *pubsub.Publisher[uint64]
	ready      bool        // everything published before the actor started has been read
	named      []uuid.UUID // the networks that the config names
	syncedOn   []uuid.UUID // where publishSynced has published
	timers     timers
}

// followed is a network whose status an app follows.
type followed struct {
	id     uuid.UUID
	status *pubsub.Subscription[netinst.NetworkInstanceStatus]
}

func (d *deps) newApp(id uuid.UUID) actor.Actor { return &app{d: d, id: id, key: id.String()} }

func (a *app) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		a.started(c)
	case *actor.Stopping, *actor.Restarting:
		if _, again := c.Message().(*actor.Restarting); again {
			a.named = nil // until it starts again the config may name others, and nothing else would withdraw these
		}
		a.timers.stop()
		a.subs.close()
		a.unfollowConfigs()
		for _, n := range a.networks {
			n.status.Close()
		}
		a.withdrawSynced()
	case wake:
		a.drain(c)
	case appnet.Event:
		a.step(c, msg)
	}
}

func (a *app) started(c actor.Context) {
	t := a.d.topics
	record, _ := t.AppRecords.Get("", a.key)
	var left []appnet.PublishedConfig
	for _, e := range t.AdapterConfig.ListStem(a.key) {
		if scope, err := uuid.Parse(e.Scope); err == nil {
			left = append(left, appnet.PublishedConfig{Scope: scope, Config: e.Value})
		}
	}
	a.reel = a.d.tape.Reel(cores.App, a.key)
	a.mach = appnet.NewMachine(a.id, record.Above(a.d.storage.Floor()), left)

	name := "app/" + a.key
	a.adapterPub, a.statusPub, a.recordPub = t.AdapterConfig.Publisher(name), t.AppStatus.Publisher(name),
		t.AppRecords.Publisher(name)
	a.recordPub.Adopt("", a.key)
	a.syncedPub = t.AppSynced.Publisher(name)

	a.subs = subscriptions{wake: waker(c)}
	a.config = subscribe(&a.subs, t.AppConfig, pubsub.Selector{Key: a.key})
	a.networks, a.syncedOn = nil, nil
	for _, p := range left {
		a.followStatus(c, p.Scope)
	}
	a.statuses = subscribe(&a.subs, t.AdapterStatus, pubsub.Selector{Stem: a.key})
	a.drain(c)
	a.step(c, appnet.Synchronized{})
	a.ready = true
	a.publishSynced()
}

func (a *app) unfollowConfigs() {
	for _, w := range a.desired {
		w.Close()
	}
	a.desired = nil
}

func (a *app) drain(c actor.Context) {
	for _, n := range a.networks {
		a.drainNetwork(c, n.status)
	}
	for _, ch := range a.statuses.Drain() {
		scope, err := uuid.Parse(ch.Scope)
		if err != nil {
			continue // the synchronized marker
		}
		switch ch.Kind {
		case pubsub.Deleted:
			a.step(c, appnet.AdapterStatusGone{Scope: scope, Key: ch.Old.Key()})
		case pubsub.Created, pubsub.Modified:
			a.followStatus(c, scope)
			a.step(c, appnet.AdapterStatusChanged{Scope: scope, Status: ch.New})
		}
	}
	for _, ch := range a.config.Drain() {
		switch ch.Kind {
		case pubsub.Deleted:
			a.step(c, appnet.ConfigDeleted{Order: a.d.epoch()})
		case pubsub.Created, pubsub.Modified:
			a.followConfigs(c, ch.New)
			a.step(c, appnet.ConfigChanged{Config: ch.New})
			a.publishSynced()
		}
	}
	for _, w := range a.desired {
		for _, ch := range w.Drain() {
			switch ch.Kind {
			case pubsub.Deleted:
				a.sendDesired(c, ch.Old.UUID)
			case pubsub.Created:
				a.sendDesired(c, ch.New.UUID)
			}
		}
	}
	a.forgetNetworks(c)
}

func (a *app) drainNetwork(c actor.Context, n *pubsub.Subscription[netinst.NetworkInstanceStatus]) {
	for _, ch := range n.Drain() {
		switch ch.Kind {
		case pubsub.Deleted:
			a.sendDesired(c, ch.Old.UUID) // before handling the removal, so that one message reports it
			a.step(c, appnet.NetworkOffline{NI: ch.Old.UUID})
		case pubsub.Created, pubsub.Modified:
			a.step(c, appnet.NetworkOnline{NI: ch.New.UUID, Status: ch.New})
		}
	}
}

// followStatus follows the status of a network until forgetNetworks: the actor must still see a network go while the
// app leaves it. It subscribes to no other network, since every status change would then wake every app.
func (a *app) followStatus(c actor.Context, ni uuid.UUID) {
	if slices.ContainsFunc(a.networks, func(n followed) bool { return n.id == ni }) {
		return
	}
	n := followed{ni, a.d.topics.NetworkStatus.Subscribe(pubsub.Selector{Key: ni.String()}, waker(c))}
	a.networks = append(a.networks, n)
	a.drainNetwork(c, n.status)
}

// forgetNetworks ends what followStatus began, for networks that the app has left completely: an app may outlive any
// number of them.
func (a *app) forgetNetworks(c actor.Context) {
	if !a.ready {
		return
	}
	kept := a.networks[:0:0]
	for _, n := range a.networks {
		if slices.Contains(a.named, n.id) || a.mach.Uses(n.id) {
			kept = append(kept, n)
			continue
		}
		n.status.Close()
		a.step(c, appnet.NetworkForgotten{NI: n.id})
	}
	a.networks = kept
}

// followConfigs subscribes to the configs of the networks that the app names, and to no others: those would wake every
// app.
func (a *app) followConfigs(c actor.Context, config appnet.AppNetworkConfig) {
	a.unfollowConfigs()
	a.named = nil
	for _, u := range config.Adapters {
		if !slices.Contains(a.named, u.NetworkInstance) {
			a.named = append(a.named, u.NetworkInstance)
			own := pubsub.Selector{Key: u.NetworkInstance.String()}
			a.desired = append(a.desired, a.d.topics.NetworkConfig.Subscribe(own, waker(c)))
		}
		a.followStatus(c, u.NetworkInstance)
		a.sendDesired(c, u.NetworkInstance)
	}
}

// publishSynced publishes, for each network that the app names, that the app's config for it is published, and
// withdraws this for those that it no longer names.
func (a *app) publishSynced() {
	if !a.ready {
		return
	}
	for _, u := range a.named {
		must(a.syncedPub.Publish(u.String(), a.key, a.d.boot))
	}
	a.withdrawSynced()
	a.syncedOn = a.named // which is replaced as a whole
}

func (a *app) withdrawSynced() {
	for _, u := range a.syncedOn {
		if !slices.Contains(a.named, u) {
			must(a.syncedPub.Unpublish(u.String(), a.key))
		}
	}
}

// sendDesired tells the machine whether a network is in the config.
func (a *app) sendDesired(c actor.Context, ni uuid.UUID) {
	_, desired := a.d.topics.NetworkConfig.Get("", ni.String())
	a.step(c, appnet.NetworkDesired{NI: ni, Desired: desired})
}

func (a *app) step(c actor.Context, e appnet.Event) {
	for _, eff := range tape.Step(a.reel, a.mach, e) {
		a.d.census.Effect(c.Self().Id, eff)
		var err error
		switch e := eff.(type) {
		case appnet.PublishAdapterConfig:
			a.d.asked.set(e.Scope.String() + "/" + e.Config.Key().String())
			err = a.adapterPub.Publish(e.Scope.String(), e.Config.Key().String(), e.Config)
		case appnet.UnpublishAdapterConfig:
			a.d.asked.unset(e.Scope.String() + "/" + e.Key.String())
			err = a.adapterPub.Unpublish(e.Scope.String(), e.Key.String())
		case appnet.ResendAdapterConfig:
			err = a.adapterPub.Resend(e.Scope.String(), e.Key.String())
		case appnet.PublishStatus:
			err = a.statusPub.Publish("", a.key, e.Status)
		case appnet.WithdrawStatus:
			err = a.statusPub.Unpublish("", a.key)
		case appnet.Record:
			err = a.recordPub.Publish("", a.key, e.Journal)
		case appnet.ResendAfter:
			a.timers.after(c, jitter(e.After), func() any { return appnet.ResendDue{Key: e.Key, Token: e.Token} })
		case appnet.Done:
			for _, ni := range a.syncedOn {
				err = errors.Join(err, a.syncedPub.Unpublish(ni.String(), a.key))
			}
			c.Send(c.Parent(), appEnded{a.id})
			c.Stop(c.Self())
		}
		if err != nil {
			panic(err)
		}
	}
}
