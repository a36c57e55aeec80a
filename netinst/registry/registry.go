package registry

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// Event is an input of a Registry's Step.
type Event interface{ registryEvent() }

// The events of a Registry.
type (
	// NetworkDesired carries a network's config.
	NetworkDesired struct{ Config netinst.NetworkInstanceConfig }
	// NetworkUndesired reports the deletion of a network's config.
	NetworkUndesired struct{ NI uuid.UUID }
	// NetworkWithdrawn reports that a network's subnet now belongs to the host itself, or no longer does.
	NetworkWithdrawn struct {
		NI        uuid.UUID
		Withdrawn bool
	}
	// ConfigKnown reports that a valid config was published, after the networks in it. Until then the host state is left
	// as it is.
	ConfigKnown struct{}
	// HostApplied is the end of an ApplyHost; Failed is why the host state is not as desired.
	HostApplied struct {
		Seq    uint64
		Failed string
	}
	// HostApplierReady announces an applier that has just started.
	HostApplierReady struct{}
	// ManagerEnded reports that a bridge manager has removed its network and ended.
	ManagerEnded struct{ NI uuid.UUID }
	// HostRetryDue reports the end of a HostRetry.
	HostRetryDue struct{ Token uint64 }
	// HostChanged reports that others have changed the host state, and with it objects of the networks of these numbers;
	// with Full, that an operator requests an observation of everything.
	HostChanged struct {
		Networks []int
		Full     bool
	}
)

func (NetworkDesired) registryEvent()   {}
func (NetworkUndesired) registryEvent() {}
func (NetworkWithdrawn) registryEvent() {}
func (ConfigKnown) registryEvent()      {}
func (HostApplied) registryEvent()      {}
func (HostApplierReady) registryEvent() {}
func (ManagerEnded) registryEvent()     {}
func (HostRetryDue) registryEvent()     {}
func (HostChanged) registryEvent()      {}

// Effect is an output of a Registry's Step.
type Effect interface{ registryEffect() }

// The effects of a Registry, carried out in order.
type (
	// RecordNumber journals a network's number, on disk before the next effect.
	RecordNumber struct {
		NI     uuid.UUID
		Number int
	}
	// ForgetNumber removes the number from the journal, with everything else journalled of the network.
	ForgetNumber struct{ NI uuid.UUID }
	// ApplyHost requests an apply of the host state that belongs to no network.
	ApplyHost struct {
		Seq  uint64
		Want netstate.State
	}
	// SpawnManager starts a bridge manager.
	SpawnManager struct{ Owner netstate.Owner }
	// HostRetry asks for a HostRetryDue: after a failure, and for the next observation.
	HostRetry struct {
		Token  uint64
		After  time.Duration
		Shared bool // as in manager.Timer
	}
	// HostProblem carries the result of the host state's apply: "" or why networks wait.
	HostProblem struct{ Error string }
)

func (RecordNumber) registryEffect() {}
func (ForgetNumber) registryEffect() {}
func (ApplyHost) registryEffect()    {}
func (SpawnManager) registryEffect() {}
func (HostRetry) registryEffect()    {}
func (HostProblem) registryEffect()  {}

// member is one network of the node.
type member struct {
	number  int
	subnet  netip.Prefix
	clash   bool // the subnet belongs to the host itself
	config  netinst.NetworkInstanceConfig
	desired bool
	spawned bool
	since   uint64 // the first host apply that included it
	moved   bool   // to be touched once the host state that leads to it is as desired
	// unmarked means that its chains were written by a former release, and the guard spares it.
	unmarked bool
	// oldFrames means that a table of its own, made by a former release, filters its frames, and the shared one spares
	// its links.
	oldFrames bool
}

// Registry decides which bridge managers exist, gives each network its number, and keeps every network in the host
// state from before its manager starts until after it has ended (docs/architecture.md, law 3, law 5).
type Registry struct {
	journal  map[uuid.UUID]int
	found    bool
	known    bool
	ready    bool
	members  map[uuid.UUID]*member
	seq      uint64
	inFlight bool
	dirty    bool
	backoff  time.Duration
	token    uint64
	forward  forward
	search   time.Duration // delay of the last search for owners
	// searching means that a FindOwners is not answered yet.
	searching bool
	held      map[int]bool // networks to touch once the host state is restored
	heldFull  bool
}

// New starts from the journalled numbers.
func New(journal map[uuid.UUID]int) *Registry {
	return &Registry{journal: maps.Clone(journal), members: map[uuid.UUID]*member{}, dirty: true}
}

// Step takes one event and returns the effects.
func (r *Registry) Step(e Event) []Effect {
	switch e := e.(type) {
	case OwnersFound:
		return append(r.adoptOwners(e.Owners), r.forgetUnused()...)
	case OwnersUnread:
		return r.ownersUnread(e.Error)
	case NetworkDesired:
		return r.networkDesired(e.Config)
	case NetworkUndesired:
		if m := r.members[e.NI]; m != nil {
			m.desired = false
			if !m.spawned { // none of its objects was ever created
				return r.removeMember(e.NI)
			}
		}
	case NetworkWithdrawn:
		if m := r.members[e.NI]; m != nil && m.clash != e.Withdrawn {
			m.clash, r.dirty = e.Withdrawn, true
			r.move(m)
			return r.next()
		}
	case ForwardingChanged:
		return r.forwardingChanged(e)
	case ConfigKnown:
		r.known = true
		return append(r.forgetUnused(), r.next()...)
	case HostApplierReady:
		r.ready, r.inFlight, r.dirty = true, false, true
		return r.next()
	case HostApplied:
		return r.endApply(e)
	case HostRetryDue:
		if e.Token == r.forward.restTok {
			return r.endRest()
		}
		if e.Token == r.token {
			r.dirty = true
			return r.next()
		}
	case ManagerEnded:
		return r.managerEnded(e.NI)
	case HostChanged:
		return r.hostChanged(e)
	}
	return nil
}

// forgetUnused forgets networks that are neither desired nor on the host: a crash came between their removal and
// ForgetNumber.
func (r *Registry) forgetUnused() []Effect {
	if !r.found || !r.known {
		return nil
	}
	var out []Effect
	for _, id := range slices.SortedFunc(maps.Keys(r.journal), compareUUIDs) {
		if r.members[id] == nil {
			delete(r.journal, id)
			out = append(out, ForgetNumber{id})
		}
	}
	return out
}

func (r *Registry) networkDesired(c netinst.NetworkInstanceConfig) []Effect {
	m := r.members[c.UUID]
	if m == nil {
		m = &member{}
		r.members[c.UUID] = m
	}
	m.desired = true
	had := netinst.HostPorts(m.config, r.forward.Ports, r.forward.Forwarding)
	gateway, six, flows := m.config.IPv4.Gateway, m.config.IPv6, netinst.MarksFlows(m.config)
	mapped, overlap, log := m.config.Mapped, m.config.IPv4.MayOverlap, m.config.FlowLog
	returns, tunnel, sealed := netinst.NeedsReturns(m.config), m.config.HasTunnel(), m.config.SealedPort()
	vlans := len(m.config.VLANs) > 0
	changes := m.subnet != c.IPv4.Subnet || m.config.Type != c.Type || gateway != c.IPv4.Gateway ||
		six != c.IPv6 || overlap != c.IPv4.MayOverlap || returns != netinst.NeedsReturns(c) || log != c.FlowLog ||
		mapped != c.Mapped || tunnel != c.HasTunnel() || sealed != c.SealedPort() || flows != netinst.MarksFlows(c) ||
		vlans != (len(c.VLANs) > 0)
	if changes {
		r.move(m)
	}
	m.config = c
	has := netinst.HostPorts(c, r.forward.Ports, r.forward.Forwarding)
	r.dirty = r.dirty || changes || m.number == 0 || !reflect.DeepEqual(had, has)
	m.subnet = c.IPv4.Subnet
	if !r.found {
		return nil
	}
	return append(r.assignNumber(c.UUID), r.next()...)
}

// assignNumber gives a network its journalled number, otherwise the lowest free one.
func (r *Registry) assignNumber(id uuid.UUID) []Effect {
	m := r.members[id]
	if m.number != 0 {
		return nil
	}
	used := map[int]bool{}
	for _, o := range r.members {
		used[o.number] = true
	}
	n := r.journal[id]
	if n == 0 || used[n] {
		for j, taken := range r.journal {
			if r.members[j] == nil {
				used[taken] = true // its network may return while a lower one is free
			}
		}
		n = lowestFree(used)
	}
	if n > netinst.MaxNumber { // no number is free: it gets the first one that is freed
		return nil
	}
	m.number = n
	return r.recordNumber(id, n)
}

func (r *Registry) recordNumber(id uuid.UUID, n int) []Effect {
	if r.journal[id] == n {
		return nil
	}
	if r.journal == nil {
		r.journal = map[uuid.UUID]int{}
	}
	r.journal[id] = n
	return []Effect{RecordNumber{id, n}}
}

// next applies the host state if it may have changed and no apply is in flight.
func (r *Registry) next() []Effect {
	if !r.found || !r.known || !r.ready || r.inFlight || !r.dirty {
		return nil
	}
	r.dirty, r.inFlight = false, true
	r.seq++
	for _, m := range r.members {
		if m.number != 0 && m.since == 0 {
			m.since = r.seq
		}
	}
	ns := r.Networks(r.ids())
	return []Effect{ApplyHost{r.seq, netinst.HostState(ns, r.unmarked()...)}}
}

func (r *Registry) endApply(e HostApplied) []Effect {
	if e.Seq != r.seq || !r.inFlight {
		return nil
	}
	if r.inFlight = false; e.Failed == "" {
		r.backoff = 0
	}
	return append(r.touchHeld(), r.hostApplied(e)...)
}

// hostApplied handles the end of an apply.
func (r *Registry) hostApplied(e HostApplied) []Effect {
	if e.Failed != "" {
		r.backoff = hostRetries.Next(r.backoff)
		r.token++
		return append(r.touchMoved(true), HostProblem{e.Failed}, HostRetry{r.token, r.backoff, false})
	}
	out := append(r.touchMoved(false), HostProblem{})
	if len(r.members) > 0 { // changes of the host state by others are not reported: observe again
		r.token++
		out = append(out, HostRetry{r.token, netinst.CheckEvery, true})
	}
	out = append(out, r.scheduleSearch()...)
	for _, id := range r.ids() {
		m := r.members[id]
		if !m.spawned && m.since != 0 && m.since <= e.Seq {
			m.spawned = true
			out = append(out, SpawnManager{netstate.Owner{Name: id.String(), Number: m.number}})
		}
	}
	return append(out, r.next()...)
}

// managerEnded frees a network's number, or starts the network again if it is desired again.
func (r *Registry) managerEnded(id uuid.UUID) []Effect {
	m := r.members[id]
	if m == nil {
		return nil
	}
	m.spawned = false
	if m.desired {
		m.spawned = true
		return []Effect{SpawnManager{netstate.Owner{Name: id.String(), Number: m.number}}}
	}
	return r.removeMember(id)
}

func (r *Registry) removeMember(id uuid.UUID) []Effect {
	delete(r.members, id)
	delete(r.journal, id)
	r.dirty = true
	out := []Effect{ForgetNumber{id}}
	if r.found {
		for _, other := range r.ids() {
			out = append(out, r.assignNumber(other)...)
		}
	}
	return append(out, r.next()...)
}

func (r *Registry) ids() []uuid.UUID {
	return slices.SortedFunc(maps.Keys(r.members), compareUUIDs)
}

// Number returns a network's number, 0 for none.
func (r *Registry) Number(id uuid.UUID) int {
	if m := r.members[id]; m != nil {
		return m.number
	}
	return 0
}
