package fleet

// State is where a node stands, in the words of the fleet's tables. Explain says more. The machine itself tells more
// states apart (stateComputing and the like): the reason says which, State shows the word that covers them.
type State string

// The states.
const (
	UnknownNode     State = "UnknownNode"     // in no topology, never joined, no open token
	NotJoined       State = "NotJoined"       // known, but it has no certificate
	Offline         State = "Offline"         // no stream
	OtherReplica    State = "OtherReplica"    // another replica has its stream, and decides
	NoReport        State = "NoReport"        // connected, and no report on this stream yet
	ConfigError     State = "ConfigError"     // its layers make no config, or its memory can't be read
	Unmanaged       State = "Unmanaged"       // sysParams.managedConfig is false
	HeldLocally     State = "HeldLocally"     // it keeps a local config
	Pending         State = "Pending"         // the push is not decided: computing, comparing or staged
	NeedsAdoption   State = "NeedsAdoption"   // a first push would remove objects
	UnknownHardware State = "UnknownHardware" // its hardware is unknown
	RolledBack      State = "RolledBack"      // it rejected this config, or undid it as unhealthy
	Pushing         State = "Pushing"         // the push, its confirmation or a new number is under way
	Degraded        State = "Degraded"        // it runs the desired config, and something is worse than before
	InSync          State = "InSync"          // it runs the desired config
)

// What the machine tells apart within Pending and Pushing.
const (
	stateComputing   State = "computing"   // the desired config is not known for its versions
	stateComparing   State = "comparing"   // what a first push would remove is being found out
	stateStaged      State = "staged"      // the rollout has not come to it
	stateDue         State = "due"         // it is pushed now
	stateWaiting     State = "waiting"     // pushed; it is pushed again after the interval
	stateApplying    State = "applying"    // it has taken the push, and works on it
	stateSettling    State = "settling"    // it has the config, and its actions are running
	stateConfirming  State = "confirming"  // it has the config, and a round trip is to confirm it
	stateRenumbering State = "renumbering" // it has the config, but not its number
)

// shown is the state that covers one of the machine.
func (s State) shown() State {
	switch s {
	case stateComputing, stateComparing, stateStaged:
		return Pending
	case stateDue, stateWaiting, stateApplying, stateSettling, stateConfirming, stateRenumbering:
		return Pushing
	default:
		return s
	}
}

// renamed are the spellings of the previous release, in which replicas tell each other of their nodes as long as one of
// them may still run it.
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

// ReadState is the state of a word: one of today as it is, or an old spelling of it. A word that is neither stays.
func ReadState(word string) State {
	if s, is := renamed[word]; is {
		return s
	}
	return State(word)
}

// Previous is how the previous release spells a state, for a replica that still runs it.
func (s State) Previous() string {
	switch s {
	case Pending:
		return string(stateStaged)
	case Pushing:
		return string(stateWaiting)
	}
	for old, is := range renamed {
		if is == s {
			return old
		}
	}
	return string(s)
}

// Stuck says that somebody else must act before the node gets what it wants: a rollout
// does not wait for it.
func (s State) Stuck() bool {
	switch s {
	case UnknownNode, NotJoined, ConfigError, Unmanaged, HeldLocally, UnknownHardware, RolledBack, NeedsAdoption:
		return true
	default:
		return false
	}
}
