package netinst

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst/netstate"
)

// Event is an input of a Manager's Step.
type Event interface{ niEvent() }

// The events. Retained topics may repeat a value and may skip some; an event is
// always a whole value.
type (
	// ConfigChanged is the network's config, the first one too.
	ConfigChanged struct{ Config NetworkInstanceConfig }
	// ConfigGone is the deletion of the network's config.
	ConfigGone struct{}
	// AdapterChanged is one adapter's config in this network's scope.
	AdapterChanged struct{ Config AppAdapterConfig }
	// AdapterGone is the withdrawal of an adapter's config.
	AdapterGone struct{ Key AdapterKey }
	// PortsChanged are all ports of the node.
	PortsChanged struct{ Ports []PortStatus }
	// Synchronized says that every retained input was given: before it, an absent
	// config is one not seen yet, after it one deleted.
	Synchronized struct{}
	// AdaptersKnown says that the app networks of every app on this network have
	// published what they want.
	AdaptersKnown struct{}
	// Claimed says that a valid config was published that came from a file, an
	// apply or a push: only now may an orphan remove itself (design law 5).
	Claimed struct{}
	// HostTouched says that something of ours changed on the host, or, with
	// Namespaces alone, that a network namespace came or went.
	HostTouched struct{ Namespaces bool }
	// ApplierReady announces an applier that has just started and does nothing.
	ApplierReady struct{}
	// OpStarted says what the applier is about to do.
	OpStarted struct {
		Seq ApplySeq
		Op  string
		At  time.Time
	}
	// Applied is the end of one apply. Err is set when the host could not be
	// observed: nothing was changed then.
	Applied struct {
		Seq      ApplySeq
		Failures []netstate.Failure
		Err      string
	}
	// TimerDue is the end of a Timer.
	TimerDue struct {
		Token uint64
		At    time.Time
	}
)

func (ConfigChanged) niEvent()  {}
func (ConfigGone) niEvent()     {}
func (AdapterChanged) niEvent() {}
func (AdapterGone) niEvent()    {}
func (PortsChanged) niEvent()   {}
func (Synchronized) niEvent()   {}
func (AdaptersKnown) niEvent()  {}
func (Claimed) niEvent()        {}
func (HostTouched) niEvent()    {}
func (ApplierReady) niEvent()   {}
func (OpStarted) niEvent()      {}
func (Applied) niEvent()        {}
func (TimerDue) niEvent()       {}

// ApplySeq numbers the applies of one bridge manager. Epoch is different in every
// incarnation, restarts of the daemon included, so that none is ever repeated.
type ApplySeq struct{ Epoch, N uint64 }

// Effect is an output of a Manager's Step, to be carried out in order.
type Effect interface{ niEffect() }

// The effects.
type (
	// PublishNetwork publishes the NetworkInstanceStatus.
	PublishNetwork struct{ Status NetworkInstanceStatus }
	// WithdrawNetwork withdraws it: the network is offline.
	WithdrawNetwork struct{}
	// PublishAdapter publishes an AppAdapterStatus.
	PublishAdapter struct{ Status AppAdapterStatus }
	// WithdrawAdapter withdraws one.
	WithdrawAdapter struct{ Key AdapterKey }
	// Remember puts the leases into the journal, on disk before the next effect.
	Remember struct{ Leases map[AdapterKey]Lease }
	// Apply asks the applier to make the host equal to Want. Full asks for a dump
	// of everything instead of what is known to be there.
	Apply struct {
		Seq  ApplySeq
		Want netstate.State
		Full bool
		// Forget tells which tracked flows the wanted rules deny; nil for none.
		Forget func(netstate.Flow) bool
	}
	// Timer asks for a TimerDue with the token. A new timer replaces no older one.
	Timer struct {
		Token uint64
		After time.Duration
	}
	// Done says that nothing of the network is left: the bridge manager may end.
	Done struct{}
)

func (PublishNetwork) niEffect()  {}
func (WithdrawNetwork) niEffect() {}
func (PublishAdapter) niEffect()  {}
func (WithdrawAdapter) niEffect() {}
func (Remember) niEffect()        {}
func (Apply) niEffect()           {}
func (Timer) niEffect()           {}
func (Done) niEffect()            {}

// The times of a bridge manager (design §2).
const (
	retryMin   = 100 * time.Millisecond
	retryMax   = time.Minute
	waitRetry  = time.Second // for a dependency of the world, as a namespace
	slowOp     = time.Second // an op older than this shows in the status
	checkEvery = time.Minute // full comparison with the host
	// graceTime bounds the wait for AdaptersKnown: one app network that can't start
	// must not keep a network from being repaired.
	graceTime = 10 * time.Second
)

// wish says what is known of the network's config.
type wish uint8

const (
	unknown   wish = iota // not seen yet
	unclaimed             // found on the host, nobody wants or denies it yet
	wanted
	unwanted
)

// adapterState is what the manager keeps of one adapter.
type adapterState struct {
	config    AppAdapterConfig
	gone      bool // its config was withdrawn: withdraw the status once it is down
	published *AppAdapterStatus
}

// flight is the one apply under way.
type flight struct {
	seq      ApplySeq
	wish     wish
	gen      uint64
	versions map[AdapterKey]AppAdapterConfig // as they were taken into the apply
	leases   map[AdapterKey]Lease
	refused  map[AdapterKey]string // adapters that got no address
	desired  Desired
	op       string
	opSince  time.Time
	slowShow bool
}

// Manager is the state machine of one bridge manager: events in, effects out. It
// has at most one apply in flight; changes meanwhile set a flag, and the newest
// wish wins (design law 6).
type Manager struct {
	owner  netstate.Owner
	runDir string
	epoch  uint64

	wish     wish
	claimed  bool
	synced   bool
	config   NetworkInstanceConfig
	adapters map[AdapterKey]*adapterState
	ports    []PortStatus
	// A manager that has just started applies nothing before it knows its ports and
	// its adapters: it would take routes and adapters of a running network away.
	portsKnown, adaptersKnown bool
	held                      map[AdapterKey]Lease

	applier  bool // ready
	flight   *flight
	dirty    bool
	full     bool // the next apply dumps everything
	n        uint64
	token    uint64
	retryTok uint64 // token of the retry that counts
	slowTok  uint64
	checkTok uint64
	graceTok uint64
	backoff  time.Duration
	waiting  bool // something waits for the world
	done     bool

	status     NetworkInstanceStatus
	shown      bool
	appliedGen uint64
	everOK     bool   // this generation was once fully applied
	port       string // label of the port that the last apply used
}

// NewManager makes the manager of one network. held are its journalled leases;
// epoch must differ in every incarnation of every process.
func NewManager(owner netstate.Owner, runDir string, epoch uint64, held map[AdapterKey]Lease) *Manager {
	m := &Manager{
		owner: owner, runDir: runDir, epoch: epoch, full: true,
		adapters: map[AdapterKey]*adapterState{}, held: maps.Clone(held),
	}
	if m.held == nil {
		m.held = map[AdapterKey]Lease{}
	}
	m.config.UUID, _ = uuid.Parse(owner.Name) // an orphan has no config to tell it
	return m
}

// Step takes one event and says what to do.
func (m *Manager) Step(e Event) []Effect {
	if m.done {
		return nil
	}
	switch e := e.(type) {
	case ConfigChanged:
		m.everOK = m.everOK && m.config.Generation == e.Config.Generation
		m.config, m.wish = e.Config, wanted
		return m.change()
	case ConfigGone:
		m.wish = unwanted
		return m.change()
	case AdapterChanged:
		return m.adapterChanged(e.Config)
	case AdapterGone:
		return m.adapterGone(e.Key)
	case PortsChanged:
		m.ports, m.portsKnown = slices.Clone(e.Ports), true
		return m.change()
	case Synchronized:
		m.synced = true
		out := m.orphan()
		if !m.adaptersKnown {
			m.token++
			m.graceTok = m.token
			out = append(out, Timer{m.graceTok, graceTime})
		}
		return out
	case AdaptersKnown:
		m.adaptersKnown = true
		return m.next()
	case Claimed:
		m.claimed = true
		return m.orphan()
	case HostTouched:
		if e.Namespaces && !m.waiting {
			return nil
		}
		return m.change()
	case ApplierReady:
		m.applier, m.flight, m.full, m.dirty = true, nil, true, true
		return m.next()
	case OpStarted:
		if m.flight != nil && m.flight.seq == e.Seq {
			m.flight.op, m.flight.opSince, m.flight.slowShow = e.Op, e.At, false
		}
		return nil
	case Applied:
		return m.applied(e)
	case TimerDue:
		return m.timer(e)
	}
	return nil
}

// change notes that the wish changed and applies it as soon as that is possible.
func (m *Manager) change() []Effect {
	m.dirty = true
	return m.next()
}

func (m *Manager) adapterChanged(c AppAdapterConfig) []Effect {
	a := m.adapters[c.Key()]
	if a == nil {
		a = &adapterState{}
		m.adapters[c.Key()] = a
	}
	a.config, a.gone = c, false
	return m.change()
}

func (m *Manager) adapterGone(k AdapterKey) []Effect {
	a := m.adapters[k]
	if a == nil {
		return nil
	}
	a.gone = true
	a.config.Activate = false
	return m.change()
}

// orphan decides about a network that was found on the host and has no config.
func (m *Manager) orphan() []Effect {
	if !m.synced || m.wish == wanted || m.wish == unwanted {
		return m.next()
	}
	m.wish = unclaimed
	if m.claimed {
		m.wish = unwanted
	}
	return m.change()
}

// next starts an apply when one is due and none is in flight.
func (m *Manager) next() []Effect {
	if !m.synced || m.wish == unknown {
		return nil
	}
	if m.wish == unclaimed {
		return m.show(Unclaimed, "no config says whether it is still wanted")
	}
	if !m.applier || m.flight != nil || !m.dirty || m.wish == wanted && !(m.portsKnown && m.adaptersKnown) {
		return nil
	}
	m.dirty = false
	m.n++
	f := &flight{seq: ApplySeq{m.epoch, m.n}, wish: m.wish, gen: m.config.Generation}
	m.flight = f
	var out []Effect
	eff := Apply{Seq: f.seq, Full: m.full}
	m.full = false
	f.versions = make(map[AdapterKey]AppAdapterConfig, len(m.adapters))
	for k, a := range m.adapters {
		f.versions[k] = a.config
	}
	if m.wish == wanted {
		out = append(out, m.desire(f, &eff)...)
		if !m.shown {
			out = append(out, m.show(Creating, "")...)
		}
	} else {
		eff.Want = netstate.State{}
		if m.status.State != RemovingFailed {
			out = append(out, m.show(Removing, "")...)
		}
	}
	m.token++
	m.slowTok = m.token
	return append(out, eff, Timer{m.slowTok, slowOp})
}

// desire computes what the host should look like for the flight.
func (m *Manager) desire(f *flight, eff *Apply) []Effect {
	alloc := Allocate(m.config, m.activeConfigs(), m.held)
	f.leases, f.refused = alloc.Leases, alloc.Errors
	in := Input{Owner: m.owner, Config: m.config, Ports: m.ports, RunDir: m.runDir}
	in.Adapters = m.inputAdapters(alloc, false)
	f.desired = DesiredState(in)
	m.port = f.desired.Port
	eff.Want = f.desired.State
	eff.Forget = Judge(in)

	// Which objects belong to an adapter that is going is asked of the same
	// function, as if it stayed: a removal that fails must find its adapter.
	for k, ids := range DesiredState(Input{
		Owner: m.owner, Config: m.config, Ports: m.ports, RunDir: m.runDir,
		Adapters: m.inputAdapters(alloc, true),
	}).ByAdapter {
		if f.desired.ByAdapter[k] == nil {
			f.desired.ByAdapter[k] = ids
		}
	}

	changed := false
	for k, l := range alloc.Leases {
		if m.held[k] != l {
			m.held[k] = l
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return []Effect{Remember{maps.Clone(m.held)}}
}

// activeConfigs are the adapters that are to be there, by key.
func (m *Manager) activeConfigs() []AppAdapterConfig {
	var cs []AppAdapterConfig
	for _, k := range m.keys() {
		if m.adapters[k].config.Activate {
			cs = append(cs, m.adapters[k].config)
		}
	}
	return cs
}

// inputAdapters pairs the adapters with their leases; all adds those that are
// going and still hold one.
func (m *Manager) inputAdapters(alloc Allocation, all bool) []Adapter {
	var as []Adapter
	for _, k := range m.keys() {
		c := m.adapters[k].config
		l, ok := alloc.Leases[k]
		if !ok && all {
			l, ok = m.held[k]
		}
		if ok && (c.Activate || all) {
			as = append(as, Adapter{Config: c, Lease: l})
		}
	}
	return as
}

func (m *Manager) keys() []AdapterKey {
	return slices.SortedFunc(maps.Keys(m.adapters), func(a, b AdapterKey) int {
		return strings.Compare(a.String(), b.String())
	})
}
