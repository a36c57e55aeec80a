package manager

import (
	"fmt"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
)

// Event is an input of a Manager's Step.
type Event interface{ niEvent() }

// The events. A retained topic may repeat a value and may skip some; an event always carries a whole value.
type (
	// ConfigChanged carries the network's config, including the first one, with Uplinks as in PortsChanged.
	ConfigChanged struct {
		Config  netinst.NetworkInstanceConfig
		Uplinks netinst.Uplinks
	}
	// ConfigGone reports the deletion of the network's config.
	ConfigGone struct{}
	// AdapterChanged carries one adapter's config on this network.
	AdapterChanged struct{ Config netinst.AppAdapterConfig }
	// AdapterGone reports the withdrawal of an adapter's config.
	AdapterGone struct{ Key netinst.AdapterKey }
	// PortsChanged carries all ports of the node, and what probing has found about them.
	PortsChanged struct {
		Ports   []netinst.PortStatus
		Uplinks netinst.Uplinks
	}
	// OverlapChanged carries the host's own prefixes in the network's subnet.
	OverlapChanged struct{ Overlap overlap.Overlap }
	// FlowsCapped carries the machine's limit of tracked flows, for Input.MaxTracked.
	FlowsCapped struct{ MaxTracked int }
	// Synchronized reports that every retained input was delivered: before it, an absent config has not arrived yet; after
	// it, an absent config is deleted.
	Synchronized struct{}
	// AdaptersKnown reports that the app networks of every app on this network have published their adapters.
	AdaptersKnown struct{}
	// Claimed reports that a valid config from a file, an apply or a push was published: only then may an orphan (a
	// network on the host that no config names) remove itself (docs/architecture.md, law 5).
	Claimed struct{}
	// HostTouched reports that an object of the network changed on the host; with Namespaces alone, that a network
	// namespace was created or removed; with HostRouting alone, that the host's addresses or routes may have changed.
	HostTouched struct {
		Namespaces, HostRouting bool
		What                    string    // the link of an adapter by name, or one of the Touch constants
		At                      time.Time // when the event was received
	}
	// ProcessEnded reports that a process of the network exited unexpectedly.
	ProcessEnded struct{ At time.Time }
	// ApplierReady announces an applier that has just started and is idle. MTU is the MTU of the network's bridge, 0
	// without one.
	ApplierReady struct{ MTU int }
	// OpStarted announces the op that the applier is about to run.
	OpStarted struct {
		Seq ApplySeq
		Op  string
		At  time.Time
	}
	// Applied is the end of one apply. Err is set if the host could not be observed: then nothing was changed. After
	// failures Before is the host's state before the apply.
	Applied struct {
		Seq      ApplySeq
		Failures []netstate.OpFailure
		Drift    []netstate.OpFailure // differences left after an Apply with ObserveOnly
		Before   netstate.State
		Err      string
		Done     []netstate.Op // ops that took effect
		// Counted are what the rules of CountingChains have counted since each was written; nil if they were not read.
		Counted map[netstate.ID][]netstate.Counter
		// Began is when the apply began, ObservedAt when its last observation of the host began: earlier changes are
		// included.
		Began, ObservedAt, At time.Time
	}
	// TimerDue reports the end of a Timer.
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
func (OverlapChanged) niEvent() {}
func (FlowsCapped) niEvent()    {}
func (Synchronized) niEvent()   {}
func (AdaptersKnown) niEvent()  {}
func (Claimed) niEvent()        {}
func (HostTouched) niEvent()    {}
func (ProcessEnded) niEvent()   {}
func (ApplierReady) niEvent()   {}
func (OpStarted) niEvent()      {}
func (Applied) niEvent()        {}
func (TimerDue) niEvent()       {}

// ApplySeq numbers the applies of one bridge manager. Epoch differs in every incarnation (the life of the actor from
// one start to the next), also after a restart of the daemon, so that no number is repeated.
type ApplySeq struct{ Epoch, N uint64 }

// Began is what begins an apply, in a word of config/events.
type Began string

// What begins an apply.
const (
	BeganConfig   Began = "config"
	BeganApps     Began = "apps"
	BeganPorts    Began = "ports"
	BeganOverlap  Began = "overlap"
	BeganHost     Began = "host"
	BeganProcess  Began = "process"
	BeganRetry    Began = "retry"
	BeganCheck    Began = "check"
	BeganStart    Began = "start"
	BeganLearning Began = "learning"
	BeganTunnel   Began = "tunnel"
)

// beganBy returns what an event begins if it makes an apply due; timer says more of a TimerDue.
func beganBy(e Event) Began {
	switch e.(type) {
	case ConfigChanged, ConfigGone:
		return BeganConfig
	case AdapterChanged, AdapterGone, AdaptersKnown:
		return BeganApps
	case PortsChanged, FlowsCapped:
		return BeganPorts
	case OverlapChanged:
		return BeganOverlap
	case HostTouched, Applied: // touches during an apply are examined at its end
		return BeganHost
	case ProcessEnded:
		return BeganProcess
	case TunnelSeen:
		return BeganTunnel
	case AddressObserved:
		return BeganLearning
	case TimerDue:
		return BeganRetry
	}
	return BeganStart
}

// Effect is an output of a Manager's Step. Effects are carried out in order.
type Effect interface{ niEffect() }

// The effects.
type (
	// PublishNetwork publishes the NetworkInstanceStatus.
	PublishNetwork struct{ Status netinst.NetworkInstanceStatus }
	// WithdrawNetwork withdraws the status: the network is offline.
	WithdrawNetwork struct{}
	// PublishAdapter publishes an AppAdapterStatus.
	PublishAdapter struct{ Status netinst.AppAdapterStatus }
	// WithdrawAdapter withdraws the status of an adapter.
	WithdrawAdapter struct{ Key netinst.AdapterKey }
	// JournalLeases writes the leases to the journal, the node's own records; they are on disk before the next effect.
	JournalLeases struct {
		Leases map[netinst.AdapterKey]netinst.Lease
	}
	// AppliedMark writes to the journal, on disk before the next effect, the digest (desiredMark) of the desired state
	// that was applied completely: "" for none.
	AppliedMark struct{ Mark string }
	// Apply asks the applier to make the host equal to Want. Full asks it to read everything from the host; otherwise it
	// takes what is slow to read, such as chains, from its last write.
	Apply struct {
		Seq  ApplySeq
		Want netstate.State
		Full bool
		// ObserveOnly leaves changes by other programs in place: LeaveDrift computes what is applied nevertheless.
		ObserveOnly bool
		// Forget selects the tracked flows that the desired rules deny, for the state before the apply and the chains that
		// it has changed; nil for none.
		Forget func(netstate.State, map[netstate.ID]bool) func(netstate.Flow) bool
		// Reset names, for one of them, the network namespace of the app whose connection it is, to end it there; "" leaves
		// it. It may be nil.
		Reset func(netstate.Flow) string
		// Counted are the chains of Want that count the hits of an adapter's access rules (netinst.CountedChains), and
		// Adapters the objects of each.
		Counted  func(netinst.AdapterKey) []netinst.CountedChain
		Adapters map[netinst.AdapterKey][]netstate.ID
	}
	// Timer asks for a TimerDue with the token. A new timer does not replace an older one. A Shared timer ends at the next
	// multiple of After, together with those of all other networks, so that one listing of the host serves them all.
	Timer struct {
		Token  uint64
		After  time.Duration
		Shared bool
	}
	// ReportApply carries the report of an apply, before the effects that follow from it.
	ReportApply struct{ Report ApplyReport }
	// Done reports that nothing of the network is left: the bridge manager may end.
	Done struct{}
)

func (PublishNetwork) niEffect()  {}
func (WithdrawNetwork) niEffect() {}
func (PublishAdapter) niEffect()  {}
func (WithdrawAdapter) niEffect() {}
func (JournalLeases) niEffect()   {}
func (AppliedMark) niEffect()     {}
func (Apply) niEffect()           {}
func (Timer) niEffect()           {}
func (ReportApply) niEffect()     {}
func (Done) niEffect()            {}

// reportSlowOps shows an op in the status once it has run for longer than slowOp, and updates it each second.
func (m *Manager) reportSlowOps(now time.Time) []Effect {
	f := m.flight
	if f == nil {
		m.slowTok = 0
		return nil
	}
	m.token++
	m.slowTok = m.token
	out := []Effect{Timer{m.slowTok, slowOp, false}}
	if age := now.Sub(f.opSince); f.op != "" && age >= slowOp && !f.slowShow {
		f.slowShow = true
		state := m.status.State
		return append(out, m.show(state, fmt.Sprintf("%s has been running for more than %v", f.op, slowOp))...)
	}
	return out
}
