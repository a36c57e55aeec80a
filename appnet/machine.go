package appnet

import (
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/pubsub/backoff"
)

// resendWaits are the times between two resends of one config.
var resendWaits = backoff.Backoff{First: 100 * time.Millisecond, Max: time.Minute}

// Machine is the app network of one app: it publishes its adapters' configs in the scopes of their network instances
// and reports their progress. It is for one goroutine.
//
// An adapter is published in at most one scope: it enters a network only after its previous network has reported that
// it is inactive, or is offline, and has withdrawn its status.
type Machine struct {
	app     uuid.UUID
	journal JournalRecord
	digest  string // of view.Config
	view    View
	name    string // the last displayName, used at the removal
	synced  bool
	done    bool
	shown   *AppNetworkStatus // as last published by this incarnation
	resends map[AdapterScope]resend
	token   uint64
	order   uint64 // of the last ConfigDeleted
}

// resend is the back-off of one config whose network reports a different state.
type resend struct {
	token uint64
	tries int
}

// NewMachine creates the app network of an app from the journal and from the configs that an earlier incarnation left
// in the topics. It has no effects before Synchronized.
func NewMachine(app uuid.UUID, journal JournalRecord, published []PublishedConfig) *Machine {
	m := &Machine{
		app:     app,
		journal: journal,
		resends: map[AdapterScope]resend{},
		view: View{
			Networks:  map[uuid.UUID]Network{},
			Statuses:  map[AdapterScope]netinst.AppAdapterStatus{},
			Published: map[AdapterScope]netinst.AppAdapterConfig{},
		},
	}
	for _, p := range published {
		m.view.Published[AdapterScope{p.Scope, p.Config.Key()}] = p.Config
		// A journal behind the topics was lost: its digest does not count.
		if p.Config.TargetVersion > m.journal.TargetVersion {
			m.journal = JournalRecord{TargetVersion: p.Config.TargetVersion}
		}
	}
	m.view.TargetVersion = m.journal.TargetVersion
	return m
}

// Step takes one event and returns the effects, in order.
func (m *Machine) Step(e Event) []Effect {
	m.applyEvent(e)
	if !m.synced || m.done && m.view.Config == nil {
		return nil
	}
	m.done = false
	fx := m.assignVersion()
	moves := m.move()
	status := m.status()
	show := m.show(status)
	if status.Pending {
		fx = slices.Concat(fx, show, moves) // no reader sees a new config together with an old "not pending"
	} else {
		fx = slices.Concat(fx, moves, show)
	}
	due, _ := e.(ResendDue)
	fx = append(fx, m.resend(due.Token)...)
	if m.view.Config == nil && len(m.view.leftovers()) == 0 {
		m.done, m.shown = true, nil
		fx = append(fx, WithdrawStatus{}, Done{})
	}
	return fx
}

// applyEvent updates the view from an event.
func (m *Machine) applyEvent(e Event) {
	v := &m.view
	switch e := e.(type) {
	case ConfigChanged:
		c := e.Config
		c.Adapters = maps.Clone(c.Adapters)
		v.Config, m.digest, m.name = &c, Digest(c), c.DisplayName
	case ConfigDeleted:
		v.Config, m.digest, m.order = nil, "", e.Order
	case NetworkOnline:
		v.Networks[e.NI] = Network{DisplayName: e.Status.DisplayName, Online: true, Undesired: v.Networks[e.NI].Undesired}
	case NetworkOffline:
		n := v.Networks[e.NI]
		n.Online = false
		v.Networks[e.NI] = n
	case NetworkDesired:
		n := v.Networks[e.NI]
		n.Undesired = !e.Desired
		v.Networks[e.NI] = n
	case NetworkForgotten:
		delete(v.Networks, e.NI)
	case AdapterStatusChanged:
		p := AdapterScope{e.Scope, e.Status.Key()}
		// Versions only rise: a status with a lower one is late.
		if e.Status.AppUUID == m.app && e.Status.TargetVersion >= v.Statuses[p].TargetVersion {
			v.Statuses[p] = e.Status
		}
	case AdapterStatusGone:
		delete(v.Statuses, AdapterScope{e.Scope, e.Key})
	case Synchronized:
		m.synced = true
	}
}

// Uses reports whether a config or a status of the app is left in the scope of a network instance.
func (m *Machine) Uses(ni uuid.UUID) bool {
	for p := range m.view.Published {
		if p.Scope == ni {
			return true
		}
	}
	for p := range m.view.Statuses {
		if p.Scope == ni {
			return true
		}
	}
	return false
}

// assignVersion gives a changed config its version.
func (m *Machine) assignVersion() []Effect {
	next := m.journal
	switch {
	case m.view.Config == nil:
		// The version is kept: it outlives the app, so that an old status never matches when the same UUID returns.
		if next.TargetVersion > 0 && !next.Deleted {
			next.Deleted, next.Order = true, m.order
		}
	case next.Digest != m.digest || next.Deleted:
		next = JournalRecord{TargetVersion: next.TargetVersion + 1, Digest: m.digest}
	}
	if next == m.journal {
		return nil
	}
	m.journal, m.view.TargetVersion = next, next.TargetVersion
	return []Effect{Record{next}}
}

// move moves every config to its place: first it leaves places that are no longer desired, then it enters the desired
// ones.
func (m *Machine) move() []Effect {
	var fx []Effect
	for _, p := range m.view.leftovers() {
		fx = append(fx, m.leave(p)...)
	}
	if m.view.Config == nil {
		return fx
	}
	for _, i := range m.view.indices() {
		if m.view.wantsAdapter(i) {
			fx = append(fx, m.enter(m.view.place(i))...)
		}
	}
	return fx
}

// leave removes an adapter from a network on which it is not desired: deactivated, answered, unpublished.
func (m *Machine) leave(p AdapterScope) []Effect {
	c, ok := m.view.Published[p]
	if !ok {
		return nil // only its status is left; the network withdraws it
	}
	s, answered := m.view.Statuses[p]
	inactive := answered && s.TargetVersion == m.view.TargetVersion && !s.Activated
	// A network that is offline cannot answer: it counts as inactive, so that an app whose network never came can be
	// removed.
	if inactive || !m.view.Networks[p.Scope].Online {
		delete(m.view.Published, p)
		delete(m.resends, p)
		return []Effect{UnpublishAdapterConfig{p.Scope, p.Key}}
	}
	c.TargetVersion, c.Activate = m.view.TargetVersion, false
	return m.publish(p, c)
}

// enter publishes an adapter on its desired network, online or not. It waits while part of the adapter is left on
// another network, unless it is already active here.
func (m *Machine) enter(p AdapterScope) []Effect {
	old, ok := m.view.Published[p]
	activate := m.view.Config.Activate
	if m.elsewhere(p) && (!ok || activate && !old.Activate) {
		return nil
	}
	return m.publish(p, netinst.AppAdapterConfig{
		AppUUID:       p.Key.AppUUID,
		Index:         p.Key.Index,
		TargetVersion: m.view.TargetVersion,
		Activate:      activate,
		Spec:          m.view.Config.Adapters[p.Key.Index],
	})
}

// elsewhere reports whether part of a place's adapter is left on another network.
func (m *Machine) elsewhere(p AdapterScope) bool {
	return slices.ContainsFunc(m.view.leftovers(), func(q AdapterScope) bool { return q.Key == p.Key })
}

// publish publishes a config at a place. A version names one config, so version and Activate show whether it is already
// published.
func (m *Machine) publish(p AdapterScope, c netinst.AppAdapterConfig) []Effect {
	old, ok := m.view.Published[p]
	if ok && old.TargetVersion == c.TargetVersion && old.Activate == c.Activate {
		return nil
	}
	m.view.Published[p] = c
	delete(m.resends, p)
	return []Effect{PublishAdapterConfig{p.Scope, c}}
}

// resend resends, with back-off, a config to an online network that reports its version but not its Activate. due is
// the token of the expired delay, 0 for none; without it the running delay continues.
func (m *Machine) resend(due uint64) []Effect {
	var fx []Effect
	for _, p := range slices.SortedFunc(maps.Keys(m.view.Published), inOrder) {
		c := m.view.Published[p]
		s, answered := m.view.Statuses[p]
		if !answered || s.TargetVersion != c.TargetVersion || s.Activated == c.Activate || !m.view.Networks[p.Scope].Online {
			delete(m.resends, p)
			continue
		}
		r, waits := m.resends[p]
		if waits && r.token != due {
			continue
		}
		if waits {
			fx = append(fx, ResendAdapterConfig{p.Scope, p.Key})
			r.tries++
		}
		m.token++
		r.token = m.token
		m.resends[p] = r
		fx = append(fx, ResendAfter{Key: p.Key, Token: r.token, After: resendWaits.After(r.tries + 1)})
	}
	return fx
}
