package fleet

import (
	"time"

	"edgespan/config/layers"
	"edgespan/config/stateloop/peer"
)

// Settings are the same for all nodes.
type Settings struct {
	Replica  string        // this controller's name
	Interval time.Duration // between two pushes of one config to one node, and after an undo; 2 min
	Confirm  time.Duration // in which a pushed config must be confirmed; 2 min
	Resend   time.Duration // for what a node did not take notice of: numbers, probes, who manages it; 15 s
	Queries  bool          // nodes of unknown hardware are asked (flag unknown_hw_queries_enabled)
	Board    time.Duration // between two questions to nodes of one unknown board; 15 s
	Preview  time.Duration // for which the answers to a preview of actions are kept; 1 min
}

// Defaults are the settings of one controller.
func Defaults(replica string) Settings {
	return Settings{Replica: replica, Interval: 2 * time.Minute, Confirm: 2 * time.Minute, Resend: 15 * time.Second,
		Queries: true, Board: 15 * time.Second, Preview: time.Minute}
}

// Whole fills in what settings lack.
func (s Settings) Whole(replica string) Settings {
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

// Node judges one node. It is a machine: Step takes what happened and answers with what
// to do. The rules:
//
//   - A push is due when what the node reports differs from what it wants. With equal
//     digests and another generation only the number is sent: nothing happens on the node.
//   - The same config is not pushed twice within the interval. Another one is at once, and
//     only a change of this node's own config makes it another. After an undo that was
//     nobody's fault the interval begins anew; the end of a local config ends it, unless another
//     one did less than Resend ago.
//   - A push whose stream ended before the node said that it arrived may be lost. It is made
//     once more, and no more than once, inside of the interval: when the node has had another
//     stream for as long as Resend and has not said that it has it, works on it or is done with it.
//   - What the node rejected or undid as unhealthy is remembered and not pushed again until
//     the config or the node's versions change, the node runs it after all, or an operator
//     says Retry.
//   - Nothing is pushed to a node that is unknown, offline, another replica's, unmanaged,
//     held locally, of unknown hardware, unadopted with objects to lose, or not in the
//     rollout's batch; nor before a report on the stream of now, nor a config that was
//     computed for other versions than the node reports.
//   - The wanted config that the node holds as pending is confirmed after a round trip on the stream
//     that follows the report of having settled, if nothing is worse than before.
//
// It is for one goroutine at a time.
type Node struct {
	name string
	set  Settings
	mem  Memory

	known    Known
	desired  Desired
	hasWant  bool
	managed  *bool // as last computed
	gate     Admission
	stream   string // "" when offline
	replica  string
	since    time.Time // of being on- or offline
	begun    time.Time // the stream
	report   Report
	reported bool      // on this stream
	heard    time.Time // the report

	computing layers.Versions // asked for
	asked     bool            // there is something in computing
	acked     uint64          // the last attempt that arrived
	unstored  NotStored       // the last one, until it is stored

	sentManaged   *bool // on this stream
	sentManagedAt time.Time
	numbered      Generation // sent on this stream
	numberAt      time.Time
	released      time.Time // asked on this stream
	freed         time.Time // the end of a local config that ended the interval last
	probe         uint64    // the last one, counts
	probing       bool      // it has no answer yet
	probed        Generation
	probeAt       time.Time // of the probe, or of the confirmation that followed

	confirmable bool // the probe was answered well

	compare  Compare // the last one
	compared bool    // it has its answer
	removes  []string

	query     time.Time // when it may be asked for its base config again
	queried   time.Time // when it was
	unread    string    // why the memory is not the store's; "" if it is
	timer     time.Time
	status    mark
	announced bool
}

// mark is what Status is news of.
type mark struct {
	state  State
	digest Digest
	fault  string
	disk   string
}

// New is a node of which the store has m. It knows nothing else and does nothing until it
// is told.
func New(name string, m Memory, s Settings) *Node {
	return &Node{name: name, mem: m.clone(), set: s}
}

// Memory is what has to survive.
func (n *Node) Memory() Memory { return n.mem.clone() }

// WhyUnread says why the memory is not the store's; "" if it is. What an operator decides meanwhile
// would be lost.
func (n *Node) WhyUnread() string { return n.unread }

// Unread says whether the memory is not the store's: nothing may be acknowledged then.
func (n *Node) Unread() bool { return n.unread != "" }

// Parting says whether something may be on the node that is to be absent: its reports are to
// say of what (Report.Parts).
func (n *Node) Parting() bool { return len(n.mem.Has) > 0 && len(n.mem.Left(n.desired.With)) > 0 }

// Has is Memory.Has. Nobody changes it; where it is another it is another list.
func (n *Node) Has() []peer.Gone { return n.mem.Has }

// State is where the node stands now.
func (n *Node) State(now time.Time) State { return n.validate(now).state.shown() }

// verdict is what is to be done, and when it is to be looked at again; zero is when
// something happens.
type verdict struct {
	state State
	at    time.Time
}

// validate is the one place that decides. What Step does and what Explain says both follow
// from it.
func (n *Node) validate(now time.Time) verdict {
	switch {
	case !n.known.Topology && !n.known.Joined && !n.tokenOpen(now):
		return verdict{state: UnknownNode}
	case !n.known.Joined:
		v := verdict{state: NotJoined}
		if n.tokenOpen(now) {
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
	case n.hasIt():
		return n.validateSame(now)
	}
	return n.validateOther(now)
}

// validateSame is for a node that runs the wanted config.
func (n *Node) validateSame(now time.Time) verdict {
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
	}
	v := verdict{state: stateConfirming}
	if n.probed == n.desired.Generation && !n.probeAt.IsZero() {
		v.at = later(now, n.probeAt.Add(n.set.Resend))
	}
	return v
}

// validateOther is for a node that runs another one.
func (n *Node) validateOther(now time.Time) verdict {
	want := n.desired.Digest
	switch {
	case n.desired.Unknown:
		v := verdict{state: UnknownHardware}
		if n.set.Queries {
			v.at = later(now, n.query)
		}
		return v
	case n.mem.failure(want) != nil:
		return verdict{state: RolledBack}
	case !n.mem.Adopted && !(n.compared && n.compare == n.comparison()):
		return verdict{state: stateComparing}
	case !n.mem.Adopted && len(n.removes) > 0:
		return verdict{state: NeedsAdoption}
	case n.gate.Staged && n.gate.Open != want:
		return verdict{state: stateStaged}
	case n.report.Pending != nil && n.report.Pending.Generation == n.desired.Generation:
		return verdict{state: stateApplying}
	}
	if p := n.mem.Push; p.Number > 0 && p.Digest == want {
		if at := n.pushAgain(); now.Before(at) {
			return verdict{state: stateWaiting, at: at}
		}
	}
	return verdict{state: stateDue}
}

// pushAgain is when the config that was pushed last may be pushed again.
func (n *Node) pushAgain() time.Time {
	at := n.mem.Push.At.Add(n.set.Interval)
	if n.lost() {
		// What it says of the end of a push comes after its first report.
		at = earlier(at, n.begun.Add(n.set.Resend))
	}
	return at
}

// Adopted says whether the controller's configs may remove objects of the node: nothing that it
// ran before matters any more.
func (n *Node) Adopted() bool { return n.mem.Adopted }

// AtWork says whether the node has the config that it wants, as far as it said so, and has neither
// confirmed nor undone it.
func (n *Node) AtWork(now time.Time) bool {
	switch n.validate(now).state {
	case stateApplying, stateSettling, Degraded, stateConfirming:
		return true
	case stateWaiting:
		return n.acked == n.mem.Push.Number && n.unstored == (NotStored{}) && !n.mem.Push.Undone
	default:
		return false
	}
}

// Undid says whether the node went back from the config that it wants, as nobody confirmed it, and
// nobody has asked for another try since.
func (n *Node) Undid() bool {
	p := n.mem.Push
	return p.Undone && p.Digest == n.desired.Digest && p.Number > n.mem.Floor
}

// lost says whether the last push may have got lost with the stream that it was for. Another
// replica's that arrived is not known here to have arrived, and shows in the reports. A replica
// that started anew counts its streams anew: one of the same name is taken for the same, and
// the interval holds.
func (n *Node) lost() bool {
	p := n.mem.Push
	return p.On != "" && p.On != n.stream && n.acked != p.Number && !p.Undone && !p.Again
}

// hasIt says whether the node runs what is wanted. No MD5 is a config that it can't read.
func (n *Node) hasIt() bool {
	return n.report.Digest == n.desired.Digest && n.report.Digest.Config != ""
}

func (n *Node) tokenOpen(now time.Time) bool { return now.Before(n.known.Token) }

func (n *Node) comparison() Compare {
	return Compare{Desired: n.desired.Digest, Running: n.report.Digest}
}

// later is at, or zero if that is not after now.
func later(now, at time.Time) time.Time {
	if at.After(now) {
		return at
	}
	return time.Time{}
}
