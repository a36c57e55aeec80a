package manager

import (
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/pubsub/backoff"
)

// retries are the waiting times before failed ops are retried.
var retries = backoff.Backoff{First: 100 * time.Millisecond, Max: time.Minute}

// Other times of a bridge manager.
const (
	waitRetry = time.Second // for a dependency outside edgespan that no event announces, such as a subnet's removal
	// routeRest collects changes of the host's routes: some hosts have many each second.
	routeRest = 100 * time.Millisecond
	slowOp    = time.Second // an op that runs longer shows in the status
	// graceTime limits the wait for AdaptersKnown: one app network that cannot start must not prevent the repair of a
	// network.
	graceTime = 10 * time.Second
)

// intent is what the manager knows of the network's config.
type intent uint8

const (
	unknown   intent = iota // no config received yet
	unclaimed               // found on the host; no config asks for it or deletes it yet
	desired
	undesired
)

// adapterState is what the manager stores for one adapter.
type adapterState struct {
	config       netinst.AppAdapterConfig
	gone         bool          // its config was withdrawn: withdraw the status once it is removed
	lease        netinst.Lease // the lease of its last apply
	published    *netinst.AppAdapterStatus
	addresses    addressTimes
	addressesMAC string     // the MAC that has these addresses
	leased       netip.Addr // the last one leased by a DHCP server
	leaseWord    string     // as last observed
	dropped      dropped
}

// flight is the one apply under way.
type flight struct {
	seq         ApplySeq
	intent      intent
	gen         uint64
	ports       string                                          // netinst.DesiredPorts
	versions    map[netinst.AdapterKey]netinst.AppAdapterConfig // as of the start of the apply
	leases      map[netinst.AdapterKey]netinst.Lease
	refused     map[netinst.AdapterKey]string // adapters that got no address
	inactive    bool                          // the network's config lets no adapter connect
	observeOnly bool                          // drift is reported and left
	full        bool
	began       Began
	mark        string // desiredMark if drift is only observed, else ""
	desired     netinst.Desired
	op          string
	opSince     time.Time
	slowShow    bool
}

// Manager is the state machine of one bridge manager: events in, effects out. It has at most one apply in flight;
// changes during an apply set a flag, and the newest desired state wins (docs/architecture.md, law 6).
type Manager struct {
	owner  netstate.Owner
	runDir string
	epoch  uint64

	intent     intent
	claimed    bool // a Claimed was received
	synced     bool // a Synchronized was received
	config     netinst.NetworkInstanceConfig
	adapters   map[netinst.AdapterKey]*adapterState
	ports      []netinst.PortStatus
	uplinks    netinst.Uplinks
	maxTracked int
	mtu        int // of the network's links as last desired or found; 0: none yet
	// A manager that has just started applies nothing before it knows its ports and its adapters: it would remove routes
	// and adapters of a running network.
	portsKnown, adaptersKnown bool
	held                      map[netinst.AdapterKey]netinst.Lease // the leases in use or remembered
	adopted                   bool                                 // held differs from the journal
	foundRunning              bool                                 // it is on the host; what was last applied is unknown

	computed     netinst.Memo
	applier      bool // ready
	flight       *flight
	dirty        bool
	event        Began // what the event of this step begins
	began        Began // what begins the next apply
	full         bool  // the next apply reads everything from the host
	n            uint64
	token        uint64
	retryTok     uint64 // token of the current retry
	slowTok      uint64
	checkTok     uint64
	graceTok     uint64
	addressToken uint64
	listening    Listen // as last asked for
	backoff      time.Duration
	waiting      bool // something waits for a dependency outside
	failing      bool // something failed and is retried after the back-off
	damping      damping
	done         bool

	status      netinst.NetworkInstanceStatus
	shown       bool
	appliedGen  uint64
	appliedFor  string // netinst.DesiredPorts of the apply of appliedGen
	wasApplied  bool   // this generation was once fully applied
	anew        bool   // what is missing was removed by edgespan itself: it is no drift
	appliedMark string // mark of the desired state that is applied completely; "" while something is missing
	port        string // label of the port that the last apply used
	warning     string // of the last apply's desired state
	ends        processEnds
	parts       []partState
	overlap     overlapState
	tunnel      tunnelState
	ledger      Ledger
}

// New returns the manager of one network. held are its journalled leases; epoch must differ in every incarnation of
// every process.
func New(owner netstate.Owner, runDir string, epoch uint64, held map[netinst.AdapterKey]netinst.Lease) *Manager {
	m := &Manager{
		owner: owner, runDir: runDir, epoch: epoch, full: true,
		adapters: map[netinst.AdapterKey]*adapterState{}, held: maps.Clone(held),
	}
	if m.held == nil {
		m.held = map[netinst.AdapterKey]netinst.Lease{}
	}
	m.config.UUID, _ = uuid.Parse(owner.Name) // an orphan has no config that names it
	return m
}

// Step takes one event and returns the effects. An event whose case does not return may have changed the desired state.
func (m *Manager) Step(e Event) []Effect {
	if m.done {
		return nil
	}
	m.event = beganBy(e)
	switch e := e.(type) {
	case ConfigChanged:
		m.wasApplied = m.wasApplied && m.config.Generation == e.Config.Generation
		m.full = m.full || m.config.Observe && !e.Config.Observe // differences that were left may not be known yet
		m.config, m.intent = e.Config, desired
		m.uplinks = e.Uplinks
	case ConfigGone:
		m.intent = undesired
	case AdapterChanged:
		if resent := m.storeAdapter(e.Config); resent && m.failing && (m.retryTok != 0 || m.flight != nil) {
			return nil // the retry covers it
		}
	case AdapterGone:
		m.adapterGone(e.Key)
	case PortsChanged:
		m.ports, m.portsKnown = slices.Clone(e.Ports), true
		m.uplinks = e.Uplinks
	case OverlapChanged:
		return m.overlapChanged(e.Overlap)
	case FlowsCapped:
		m.maxTracked = e.MaxTracked
	case TunnelSeen:
		return m.tunnelSeen(e.Status)
	case Synchronized:
		return m.synchronized()
	case AdaptersKnown:
		m.adaptersKnown = true
		return m.next()
	case Claimed:
		m.claimed = true
		return m.decideOrphan()
	case HostTouched:
		return m.touched(e)
	case ProcessEnded:
		return m.processEnded(e.At)
	case ApplierReady:
		m.applier, m.flight, m.full = true, nil, true
		m.setDirty()
		m.mtu = cmp.Or(m.mtu, e.MTU)
		return m.next()
	case OpStarted:
		return m.opStarted(e)
	case Applied:
		f := m.flight
		return m.recordApply(f, e, m.applied(e))
	case AddressObserved:
		return m.addressObserved(e)
	case LeaseObserved:
		return m.leaseObserved(e)
	case TimerDue:
		return m.timer(e)
	}
	return m.change()
}

// opStarted notes which op of the apply in flight runs.
func (m *Manager) opStarted(e OpStarted) []Effect {
	if m.flight != nil && m.flight.seq == e.Seq {
		m.flight.op, m.flight.opSince, m.flight.slowShow = e.Op, e.At, false
	}
	return nil
}

// synchronized proceeds after graceTime without the adapters of apps that do not start.
func (m *Manager) synchronized() []Effect {
	m.synced = true
	out := m.decideOrphan()
	if !m.adaptersKnown {
		m.token++
		m.graceTok = m.token
		out = append(out, Timer{m.graceTok, graceTime, false})
	}
	return out
}

// change records a change of the desired state and applies it as soon as possible.
func (m *Manager) change() []Effect {
	m.setDirty()
	return m.next()
}

// setDirty notes that an apply is due, and what begins it: the first event that made it due, or a changed config.
func (m *Manager) setDirty() {
	if !m.dirty || m.event == BeganConfig {
		m.began = m.event
	}
	m.dirty = true
}

// storeAdapter stores the config of an adapter, and reports whether it equals the stored one.
func (m *Manager) storeAdapter(c netinst.AppAdapterConfig) (resent bool) {
	a := m.adapters[c.Key()]
	if a == nil {
		a = &adapterState{}
		m.adapters[c.Key()] = a
	}
	resent = reflect.DeepEqual(a.config, c) && !a.gone
	a.config, a.gone = c, false
	return resent
}

func (m *Manager) adapterGone(k netinst.AdapterKey) {
	a := m.adapters[k]
	if a == nil { // from an earlier incarnation: it may still be on the host
		a = &adapterState{config: netinst.AppAdapterConfig{AppUUID: k.AppUUID, Index: k.Index}}
		m.adapters[k] = a
	}
	a.gone = true
	a.config.Activate = false
}

// decideOrphan decides about a network that was found on the host and has no config.
func (m *Manager) decideOrphan() []Effect {
	if !m.synced || m.intent == desired || m.intent == undesired {
		return m.next()
	}
	m.intent = unclaimed
	if m.claimed {
		m.intent = undesired
	}
	return m.change()
}

// next starts an apply when one is due and none is in flight.
func (m *Manager) next() []Effect {
	if !m.synced || m.intent == unknown {
		return nil
	}
	if m.intent == unclaimed {
		return m.show(netinst.Unclaimed, "no config says whether it is still desired")
	}
	if !m.applier || m.flight != nil || !m.dirty || m.intent == desired &&
		(!(m.portsKnown && m.adaptersKnown && m.overlap.matches(m.config)) || m.awaitsTunnel(m.tunnel)) {
		return nil
	}
	m.dirty, m.ends.restTok = false, 0 // this apply restarts what has ended
	m.n++
	f := &flight{seq: ApplySeq{m.epoch, m.n}, intent: m.intent, gen: m.config.Generation, inactive: m.config.Inactive,
		began: m.began}
	m.flight = f
	var out []Effect
	eff := Apply{Seq: f.seq, Full: m.full}
	f.full, m.full = m.full, false
	f.versions = make(map[netinst.AdapterKey]netinst.AppAdapterConfig, len(m.adapters))
	for k, a := range m.adapters {
		f.versions[k] = a.config
	}
	if m.intent == desired {
		out = append(out, m.computeDesired(f, &eff)...)
		out = append(out, m.beginObserve(f)...)
		eff.ObserveOnly = f.observeOnly
		m.expectParts(f.desired.Parts)
		if !m.shown {
			out = append(out, m.show(netinst.Creating, "")...)
		} else if len(m.parts) > 0 {
			out = append(out, m.show(m.status.State, m.status.Error)...)
		}
	} else {
		eff.Want = netstate.State{}
		m.expectParts(nil)
		if m.status.State != netinst.RemovingFailed && m.status.State != netinst.CheckAbsentFailed {
			out = append(out, m.show(netinst.Removing, "")...)
		}
	}
	m.token++
	m.slowTok = m.token
	return append(out, eff, Timer{m.slowTok, slowOp, false})
}

// computeDesired computes the desired state of the host for the flight.
func (m *Manager) computeDesired(f *flight, eff *Apply) []Effect {
	alloc := netinst.Allocate(m.config, m.activeConfigs(), m.held)
	f.leases, f.refused = alloc.Leases, alloc.Errors
	f.ports = netinst.DesiredPorts(m.config, netinst.ConfigsOf(m.ports))
	in := netinst.Input{
		Owner: m.owner, Config: m.config, Ports: m.ports, Uplinks: m.uplinks, RunDir: m.runDir,
		MaxTracked: m.maxTracked, Overlap: m.overlap.effective(), MTU: m.mtu, Assigned: m.tunnel.assigned(),
	}
	in.Adapters = m.inputAdapters(alloc, false)
	f.desired = m.computed.DesiredState(in)
	m.port, m.warning, m.mtu = f.desired.Port, f.desired.Warning, f.desired.MTU
	eff.Want = f.desired.State
	eff.Forget, eff.Reset = forgets(in), netinst.Resets(in)
	eff.Counted, eff.Adapters = netinst.CountedChains(in), f.desired.ByAdapter

	// The objects of an adapter that is being removed come from the same function, as if it were kept: a failed removal
	// must find its adapter.
	staying := len(in.Adapters)
	in.Config.Inactive, in.Adapters = false, m.inputAdapters(alloc, true)
	if len(in.Adapters) != staying || m.config.Inactive {
		f.desired.ByAdapter = maps.Clone(f.desired.ByAdapter)
		for k, ids := range netinst.DesiredState(in).ByAdapter {
			if f.desired.ByAdapter[k] == nil {
				f.desired.ByAdapter[k] = ids
			}
		}
	}

	if maps.Equal(m.held, alloc.Leases) && !m.adopted {
		return nil
	}
	m.held, m.adopted = alloc.Leases, false
	return []Effect{JournalLeases{maps.Clone(m.held)}}
}

func forgets(in netinst.Input) func(netstate.State, map[netstate.ID]bool) func(netstate.Flow) bool {
	return func(observed netstate.State, changed map[netstate.ID]bool) func(netstate.Flow) bool {
		in.Observed, in.Changed = observed, changed
		return netinst.DeniesFlow(in)
	}
}

// activeConfigs returns the adapters that must be present, by key.
func (m *Manager) activeConfigs() []netinst.AppAdapterConfig {
	var cs []netinst.AppAdapterConfig
	for _, k := range m.keys() {
		if m.adapters[k].config.Activate {
			cs = append(cs, m.adapters[k].config)
		}
	}
	return cs
}

// inputAdapters pairs the active adapters with their leases; all adds those that are being removed, with the lease of
// their last apply.
func (m *Manager) inputAdapters(alloc netinst.Allocation, all bool) []netinst.Adapter {
	var as []netinst.Adapter
	for _, k := range m.keys() {
		a := m.adapters[k]
		l, ok := alloc.Leases[k]
		switch {
		case ok && a.config.Activate:
			a.lease = l
			as = append(as, netinst.Adapter{Config: a.config, Lease: l, ObservedAddresses: a.addresses.addrs()})
		case all && a.lease.Number != 0:
			as = append(as, netinst.Adapter{Config: a.config, Lease: a.lease})
		}
	}
	return as
}

func (m *Manager) keys() []netinst.AdapterKey { return inOrder(m.adapters) }
