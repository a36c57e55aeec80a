package fleet

import (
	"time"

	"edgespan/config/layers"
	"edgespan/config/stateloop/peer"
	"edgespan/pubsub/backoff"
)

// Settings apply to all nodes.
type Settings struct {
	Replica  string        // this controller's name
	Interval time.Duration // between two pushes of the same config to a node, and after an undo; 2 min
	Confirm  time.Duration // time limit for confirming a pushed config; 2 min
	Resend   time.Duration // for what a node has not acted on: numbers, probes, whether it is managed; 15 s
	Queries  bool          // ask nodes of unknown hardware (flag unknown_hw_queries_enabled)
	Board    time.Duration // between two queries to nodes of one unknown board; 15 s
	Preview  time.Duration // how long the answers to a preview of actions are kept; 1 min
}

// Defaults returns the default settings of one controller.
func Defaults(replica string) Settings {
	return Settings{Replica: replica, Interval: 2 * time.Minute, Confirm: 2 * time.Minute, Resend: 15 * time.Second,
		Queries: true, Board: 15 * time.Second, Preview: time.Minute}
}

// WithDefaults returns the settings with defaults for missing fields.
func (s Settings) WithDefaults(replica string) Settings {
	d := Defaults(replica)
	if s == (Settings{}) {
		s = d
	}
	s.Replica = replica
	if s.Interval <= 0 {
		s.Interval = d.Interval
	}
	if s.Confirm <= 0 {
		s.Confirm = d.Confirm
	}
	if s.Resend <= 0 {
		s.Resend = d.Resend
	}
	if s.Board <= 0 {
		s.Board = d.Board
	}
	if s.Preview <= 0 {
		s.Preview = d.Preview
	}
	return s
}

// Node decides what to do about one node. It is a state machine: Step takes an event and returns effects. The rules:
//
//   - A push is due when the node's report differs from its desired config. If the digests are equal and only the
//     generation differs, only the number is sent: nothing happens on the node.
//   - The same config is not pushed twice within the interval. A different config is pushed at once, and only a change
//     of this node's own config makes it different. After an undo for lack of a confirmation the interval starts again;
//     the end of a local config ends it, unless another one ended less than Resend ago.
//   - A push may be lost if its stream ended before the node acknowledged it. It is repeated once, within the interval,
//     when the node has been on another stream for Resend without reporting that it has the push, works on it or is
//     done with it.
//   - A config that the node rejected or undid as unhealthy is remembered and not pushed again until the config or the
//     node's versions change, the node runs it after all, or an operator asks for Retry.
//   - Nothing is pushed to a node that is unknown, offline, connected to another replica, unmanaged, held locally, of
//     unknown hardware, unadopted with objects to lose, or not in the rollout's batch; nor before a report on the
//     current stream, nor a config computed for other versions than the node reports.
//   - A pending config that is the desired one is confirmed after the node reports that it has settled and a round trip
//     on the stream succeeds, if nothing is worse than before.
//
// It is not safe for concurrent use.
type Node struct {
	name string
	set  Settings
	mem  Memory

	known     Known
	desired   Desired
	hasWant   bool
	managed   *bool // as last computed
	admission Admission
	stream    string // "" when offline
	replica   string
	since     time.Time // when it went on- or offline
	begun     time.Time // when the stream began
	report    ReportReceived
	reported  bool      // on this stream
	heard     time.Time // when the last report came

	computing layers.Versions // requested by Compute
	asked     bool            // computing is set
	acked     uint64          // the last attempt that the node acknowledged
	unstored  NotStored       // the last one, until the config is stored

	sentManaged   *bool // on this stream
	sentManagedAt time.Time
	numbered      Generation // sent on this stream
	numberAt      time.Time
	released      time.Time // when Release was sent on this stream
	freed         time.Time // when the end of a local config last ended the interval
	probe         uint64    // number of the last probe
	probing       bool      // the probe is unanswered
	probed        Generation
	probeAt       time.Time // when the probe, or the confirmation after it, was sent

	confirmable bool // the node answered the probe and is healthy

	compare  Compare // the last one sent
	compared bool    // it was answered
	removes  []string

	query     time.Time // when it may be asked again for its base config
	queried   time.Time // when it was asked
	unread    string    // why the memory can't be read from the store; "" if it can
	timer     time.Time
	status    mark
	announced bool
}

// mark is the part of the state whose changes cause a Status.
type mark struct {
	state  State
	digest Digest
	fault  string
	disk   string
}

// New returns the machine of a node whose stored memory is m. It knows nothing else and does nothing until the first
// event.
func New(name string, m Memory, s Settings) *Node {
	return &Node{name: name, mem: m.clone(), set: s}
}

// Memory returns a copy of the memory.
func (n *Node) Memory() Memory { return n.mem.clone() }

// UnreadReason says why the memory can't be read from the store; "" if it can. An operator's decision made meanwhile
// would be lost.
func (n *Node) UnreadReason() string { return n.unread }

// Unread reports whether the stored memory can't be read: nothing may be acknowledged then.
func (n *Node) Unread() bool { return n.unread != "" }

// HasLeftovers reports whether the node may have parts that must become absent: the node must then report them
// (Report.Parts).
func (n *Node) HasLeftovers() bool {
	return len(n.mem.Has) > 0 && len(n.mem.Leftovers(n.desired.With)) > 0
}

// PossibleLeftovers returns Memory.Has, read-only. A change replaces the list.
func (n *Node) PossibleLeftovers() []peer.Leftover { return n.mem.Has }

// State returns the node's state.
func (n *Node) State(now time.Time) State { return n.evaluate(now).state.shown() }

// verdict is a state, and when it must be evaluated again; zero means at the next event.
type verdict struct {
	state State
	at    time.Time
}

// evaluate derives the node's state. No other function does: Step and Explain both follow from it.
func (n *Node) evaluate(now time.Time) verdict {
	switch {
	case !n.known.Topology && !n.known.Joined && !n.hasOpenToken(now):
		return verdict{state: UnknownNode}
	case !n.known.Joined:
		v := verdict{state: NotJoined}
		if n.hasOpenToken(now) {
			v.at = n.known.Token
		}
		return v
	case n.stream == "":
		return verdict{state: Offline}
	case n.replica != n.set.Replica:
		return verdict{state: OtherReplica}
	case !n.reported:
		return verdict{state: NoReport}
	case !n.hasWant || n.desired.For != n.report.Versions:
		return verdict{state: stateComputing}
	case n.desired.Fault != "", n.unread != "":
		return verdict{state: ConfigError}
	case !n.desired.Managed:
		return verdict{state: Unmanaged}
	case n.report.Held != nil:
		return verdict{state: HeldLocally}
	case n.hasDesired():
		return n.evaluateSame(now)
	}
	return n.evaluateOther(now)
}

// evaluateSame is evaluate for a node that runs the desired config.
func (n *Node) evaluateSame(now time.Time) verdict {
	p := n.report.Pending
	switch {
	case n.report.Generation != n.desired.Generation:
		v := verdict{state: stateRenumbering}
		if n.numbered == n.desired.Generation {
			v.at = later(now, n.numberAt.Add(n.set.Resend))
		}
		return v
	case p == nil:
		return verdict{state: InSync}
	case !p.Settled:
		return verdict{state: stateSettling}
	case len(p.Worse) > 0:
		return verdict{state: Degraded}
	case n.desired.Trial > 0:
		return verdict{state: stateTrying}
	}
	v := verdict{state: stateConfirming}
	if n.probed == n.desired.Generation && !n.probeAt.IsZero() {
		v.at = later(now, n.probeAt.Add(n.set.Resend))
	}
	return v
}

// evaluateOther is evaluate for a node that runs another config.
func (n *Node) evaluateOther(now time.Time) verdict {
	want := n.desired.Digest
	switch {
	case n.desired.Unknown:
		v := verdict{state: UnknownHardware}
		if n.set.Queries {
			v.at = later(now, n.query)
		}
		return v
	case n.mem.findFailure(want) != nil:
		return verdict{state: RolledBack}
	case !n.mem.Adopted && !(n.compared && n.compare == n.currentComparison()):
		return verdict{state: stateComparing}
	case !n.mem.Adopted && len(n.removes) > 0:
		return verdict{state: NeedsAdoption}
	case n.admission.Staged && n.admission.Open != want && n.desired.Trial == 0:
		return verdict{state: stateStaged}
	case n.report.Pending != nil && n.report.Pending.Generation == n.desired.Generation:
		return verdict{state: stateApplying}
	}
	if p := n.mem.Push; p.Number > 0 && p.Digest == want {
		if at := n.pushAgain(); now.Before(at) && n.isCutOff() {
			return verdict{state: RolledBack, at: at}
		} else if now.Before(at) {
			return verdict{state: stateWaiting, at: at}
		}
	}
	return verdict{state: stateDue}
}

// pushAgain returns when the config that was pushed last may be pushed again.
func (n *Node) pushAgain() time.Time {
	at := n.mem.Push.At.Add(n.set.Interval)
	if n.mem.Push.Undone {
		at = n.mem.Push.At.Add(backoff.Backoff{First: n.set.Interval, Max: max(n.set.Interval, longestUndone)}.After(
			max(n.mem.Push.Undos, 1)))
	}
	if n.isPushLost() {
		// The node reports the outcome of a push only after its first report on the stream.
		at = earlier(at, n.begun.Add(n.set.Resend))
	}
	return at
}

// longestUndone is the longest time between two pushes of a config that the node keeps undoing, unconfirmed, and cutOff
// is how many such undos in a row an operator must know of: each may have cost the node its connection for a while.
const (
	longestUndone = 24 * time.Hour
	cutOff        = 3
)

// isCutOff reports whether the desired config seems to cut the node off: it was undone again and again, unconfirmed.
func (n *Node) isCutOff() bool { return n.HasUndone() && n.mem.Push.Undos >= cutOff }

// Adopted reports whether the controller's configs may remove objects of the node. The objects that it ran before no
// longer matter then.
func (n *Node) Adopted() bool { return n.mem.Adopted }

// IsTrying reports whether the node has the desired config, according to its reports, and has neither confirmed nor
// undone it.
func (n *Node) IsTrying(now time.Time) bool {
	switch n.evaluate(now).state {
	case stateApplying, stateSettling, Degraded, stateConfirming, stateTrying:
		return true
	case stateWaiting:
		return n.acked == n.mem.Push.Number && n.unstored == (NotStored{}) && !n.mem.Push.Undone
	default:
		return false
	}
}

// Reported reports whether the node has reported on its present stream.
func (n *Node) Reported() bool { return n.reported }

// Failed returns what the node did with the desired config, if it does not keep it: Invalid, Unhealthy, Unconfirmed; ""
// otherwise.
func (n *Node) Failed() (Reason, string) {
	if f := n.mem.findFailure(n.desired.Digest); f != nil {
		return f.Reason, f.Why
	}
	if n.HasUndone() {
		return Unconfirmed, ""
	}
	return "", ""
}

// Blocked says why nothing can be pushed to a connected node before an operator has acted; "" if it can.
func (n *Node) Blocked(now time.Time) string {
	v := n.evaluate(now)
	if v.state == RolledBack || v.state == ConfigError && n.unread == "" || !v.state.NeedsOperator() {
		return ""
	}
	return n.explainState(now, v)
}

// HasUndone reports whether the node undid the desired config because it was not confirmed, and no operator has asked
// for a retry since.
func (n *Node) HasUndone() bool {
	p := n.mem.Push
	return p.Undone && p.Digest == n.desired.Digest && p.Number > n.mem.Floor
}

// isPushLost reports whether the last push may be lost with its stream. If another replica sent it, this one has seen
// no acknowledgement; the node's reports show whether it arrived. A restarted replica counts its streams from the
// start: a stream with the same name is taken for the same one, and the interval applies.
func (n *Node) isPushLost() bool {
	p := n.mem.Push
	return p.On != "" && p.On != n.stream && n.acked != p.Number && !p.Undone && !p.Again
}

// hasDesired reports whether the node runs the desired config. An empty MD5 means that the node can't read its config.
func (n *Node) hasDesired() bool {
	return n.report.Digest == n.desired.Digest && n.report.Digest.Config != ""
}

func (n *Node) hasOpenToken(now time.Time) bool { return now.Before(n.known.Token) }

func (n *Node) currentComparison() Compare {
	return Compare{Desired: n.desired.Digest, Running: n.report.Digest}
}

// later returns at, or zero if at is not after now.
func later(now, at time.Time) time.Time {
	if at.After(now) {
		return at
	}
	return time.Time{}
}
