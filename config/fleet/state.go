package fleet

// State is the state of a node as the fleet's tables show it. The machine has finer states (stateComputing and others):
// State shows the one that covers them, and the reason says which it is.
type State string

// The states.
const (
	UnknownNode     State = "UnknownNode"     // in no topology, never joined, no open token
	NotJoined       State = "NotJoined"       // known, but it has no certificate
	Offline         State = "Offline"         // no stream
	OtherReplica    State = "OtherReplica"    // another replica has its stream and decides
	NoReport        State = "NoReport"        // connected, no report on this stream yet
	ConfigError     State = "ConfigError"     // its layers make no config, or its memory can't be read
	Unmanaged       State = "Unmanaged"       // sysParams.managedConfig is false
	HeldLocally     State = "HeldLocally"     // the node keeps a local config
	Pending         State = "Pending"         // the push is undecided: computing, comparing or staged
	NeedsAdoption   State = "NeedsAdoption"   // a first push would remove objects
	UnknownHardware State = "UnknownHardware" // its hardware is unknown
	RolledBack      State = "RolledBack"      // the node rejected this config or undid it as unhealthy
	Pushing         State = "Pushing"         // the push, its confirmation or a new number is under way
	Degraded        State = "Degraded"        // the node runs the desired config, and something is worse than before
	InSync          State = "InSync"          // the node runs the desired config
)

// The machine's own states, which Pending and Pushing cover.
const (
	stateComputing   State = "computing"   // the desired config is not computed for its versions
	stateComparing   State = "comparing"   // the objects that a first push would remove are being determined
	stateStaged      State = "staged"      // the rollout has not reached it
	stateDue         State = "due"         // a push is due now
	stateWaiting     State = "waiting"     // pushed; pushed again after the interval
	stateApplying    State = "applying"    // the node applies the push
	stateSettling    State = "settling"    // the node has the config and runs its actions
	stateConfirming  State = "confirming"  // the node has the config; a round trip will confirm it
	stateTrying      State = "trying"      // the node has a config on trial, which is not confirmed
	stateRenumbering State = "renumbering" // the node has the config, but another number
)

// shown returns the public state that covers s.
func (s State) shown() State {
	switch s {
	case stateComputing, stateComparing, stateStaged:
		return Pending
	case stateDue, stateWaiting, stateApplying, stateSettling, stateConfirming, stateTrying, stateRenumbering:
		return Pushing
	default:
		return s
	}
}

// renamed maps the previous release's spellings. Replicas tell each other the states of their nodes, and one of them
// may still run that release.
var renamed = map[string]State{
	"unknown":        UnknownNode,
	"not joined":     NotJoined,
	"offline":        Offline,
	"elsewhere":      OtherReplica,
	"silent":         NoReport,
	"faulty layers":  ConfigError,
	"unmanaged":      Unmanaged,
	"held locally":   HeldLocally,
	"needs adoption": NeedsAdoption,
	"hardware":       UnknownHardware,
	"failed":         RolledBack,
	"unwell":         Degraded,
	"in sync":        InSync,
	"computing":      Pending,
	"comparing":      Pending,
	"staged":         Pending,
	"due":            Pushing,
	"waiting":        Pushing,
	"applying":       Pushing,
	"settling":       Pushing,
	"confirming":     Pushing,
	"renumbering":    Pushing,
}

// ReadState returns the state of a word: a current one unchanged, or the current one for an old spelling. An unknown
// word is returned unchanged.
func ReadState(word string) State {
	if s, ok := renamed[word]; ok {
		return s
	}
	return State(word)
}

// Previous returns the previous release's spelling of a state, for a replica that still runs it.
func (s State) Previous() string {
	switch s {
	case Pending:
		return string(stateStaged)
	case Pushing:
		return string(stateWaiting)
	}
	for old, state := range renamed {
		if state == s {
			return old
		}
	}
	return string(s)
}

// NeedsOperator reports that an operator or the node must act before the node can get its desired config: a rollout
// does not wait for it.
func (s State) NeedsOperator() bool {
	switch s {
	case UnknownNode, NotJoined, ConfigError, Unmanaged, HeldLocally, UnknownHardware, RolledBack, NeedsAdoption:
		return true
	default:
		return false
	}
}
