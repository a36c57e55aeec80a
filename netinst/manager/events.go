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

// The events. Retained topics may repeat a value and may skip some; an event is
// always a whole value.
type (
	// ConfigChanged is the network's config, the first one too.
	ConfigChanged struct{ Config netinst.NetworkInstanceConfig }
	// ConfigGone is the deletion of the network's config.
	ConfigGone struct{}
	// AdapterChanged is one adapter's config in this network's scope.
	AdapterChanged struct{ Config netinst.AppAdapterConfig }
	// AdapterGone is the withdrawal of an adapter's config.
	AdapterGone struct{ Key netinst.AdapterKey }
	// PortsChanged are all ports of the node.
	PortsChanged struct{ Ports []netinst.PortStatus }
	// OverlapChanged is what of the host's own prefixes lies in the network's subnet.
	OverlapChanged struct{ Overlap overlap.Overlap }
	// FlowsCapped is Input.MaxTracked.
	FlowsCapped struct{ MaxTracked int }
	// Synchronized says that every retained input was given: before it, an absent
	// config is one not seen yet, after it one deleted.
	Synchronized struct{}
	// AdaptersKnown says that the app networks of every app on this network have
	// published what they want.
	AdaptersKnown struct{}
	// Claimed says that a valid config was published that came from a file, an
	// apply or a push: only now may an orphan remove itself (docs/architecture.md, law 5).
	Claimed struct{}
	// HostTouched says that something of ours changed on the host, or, with
	// Namespaces alone, that a network namespace came or went, or, with Underlay alone,
	// that the host's addresses or routes may have changed.
	HostTouched struct {
		Namespaces, Underlay bool
		What                 string    // the link of an adapter by name, or one of the Touch constants
		At                   time.Time // when it was heard of
	}
	// ProcessEnded says that a process of the network has ended by itself.
	ProcessEnded struct{ At time.Time }
	// ApplierReady announces an applier that has just started and does nothing. MTU is that
	// of the network's bridge, 0 without one.
	ApplierReady struct{ MTU int }
	// OpStarted says what the applier is about to do.
	OpStarted struct {
		Seq ApplySeq
		Op  string
		At  time.Time
	}
	// Applied is the end of one apply. Err is set when the host could not be
	// observed: nothing was changed then. After failures Had is what was on the host
	// before it.
	Applied struct {
		Seq      ApplySeq
		Failures []netstate.Failure
		Drift    []netstate.Failure // what was left as it is, after an Apply with Look
		Had      netstate.State
		Err      string
		Done     []netstate.Op // what took effect
		// Dropped are the packets that each of CountingChains has dropped since it was written; none
		// where they were not read.
		Dropped map[netstate.ID]uint64
		// Began is when the apply began, Looked when its last look at the host did: what
		// happened before was seen.
		Began, Looked, At time.Time
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

// ApplySeq numbers the applies of one bridge manager. Epoch is different in every
// incarnation, restarts of the daemon included, so that none is ever repeated.
type ApplySeq struct{ Epoch, N uint64 }

// Effect is an output of a Manager's Step, to be carried out in order.
type Effect interface{ niEffect() }

// The effects.
type (
	// PublishNetwork publishes the NetworkInstanceStatus.
	PublishNetwork struct{ Status netinst.NetworkInstanceStatus }
	// WithdrawNetwork withdraws it: the network is offline.
	WithdrawNetwork struct{}
	// PublishAdapter publishes an AppAdapterStatus.
	PublishAdapter struct{ Status netinst.AppAdapterStatus }
	// WithdrawAdapter withdraws one.
	WithdrawAdapter struct{ Key netinst.AdapterKey }
	// Remember puts the leases into the journal, on disk before the next effect.
	Remember struct {
		Leases map[netinst.AdapterKey]netinst.Lease
	}
	// AppliedMark puts into the journal, on disk before the next effect, for which wish all of the
	// network was made: "" for none.
	AppliedMark struct{ Mark string }
	// Apply asks the applier to make the host equal to Want. Full asks for a dump
	// of everything instead of what is known to be there.
	Apply struct {
		Seq  ApplySeq
		Want netstate.State
		Full bool
		// Look leaves what others have changed as it is: Leave says what is made all the same.
		Look bool
		// Forget tells which tracked flows the wanted rules deny; nil for none.
		Forget func(netstate.Flow) bool
	}
	// Timer asks for a TimerDue with the token. A new timer replaces no older one. One
	// that is Shared ends at the next end of a round of After, together with those of all
	// other networks: what they look at then is listed once for all.
	Timer struct {
		Token  uint64
		After  time.Duration
		Shared bool
	}
	// Booked says what an apply came to, before the effects that follow from it.
	Booked struct{ Account ApplyReport }
	// Done says that nothing of the network is left: the bridge manager may end.
	Done struct{}
)

func (PublishNetwork) niEffect()  {}
func (WithdrawNetwork) niEffect() {}
func (PublishAdapter) niEffect()  {}
func (WithdrawAdapter) niEffect() {}
func (Remember) niEffect()        {}
func (AppliedMark) niEffect()     {}
func (Apply) niEffect()           {}
func (Timer) niEffect()           {}
func (Booked) niEffect()          {}
func (Done) niEffect()            {}

// slow shows an op that has run for longer than slowOp, again each second.
func (m *Manager) slow(now time.Time) []Effect {
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
