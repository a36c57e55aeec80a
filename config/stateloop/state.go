package stateloop

import (
	"time"

	"edgespan/config"
)

// Target is what is wanted of a parameter.
type Target string

// The targets.
const (
	ToBePresent Target = "present"
	ToBeAbsent  Target = "absent"
)

// State is the state of a parameter. A node reports Present, Absent, a failure or
// WaitingForDependencies; Creating and Removing follow from the target.
type State string

// The states, spelled as in the seed.
const (
	Present                State = "Present"
	Absent                 State = "Absent"
	Creating               State = "Creating"
	Removing               State = "Removing"
	WaitingForDependencies State = "WaitingForDependencies"
	CreatingFailed         State = "CreatingFailed"
	RemovingFailed         State = "RemovingFailed"
	CheckPresentFailed     State = "CheckPresentFailed"
	CheckAbsentFailed      State = "CheckAbsentFailed"
)

// Ignored is the state of what only the node has.
const Ignored State = "Ignored"

// Unclaimed is a word that nodes have beside the seed's: it is there, and no config that the
// node has says whether it shall be.
const Unclaimed State = "Unclaimed"

// Class is what kind of state a state is.
type Class string

// The classes. A transitional state can be expected to resolve itself.
const (
	Final        Class = "final"
	Transitional Class = "transitional"
	Failed       Class = "failed"
)

// Class is the class of a state; a word that is none of the states of a parameter is Failed.
func (s State) Class() Class {
	if c, known := table.Classes[s]; known {
		return c
	}
	return Failed
}

// Review says whether a user should look: no, since it can be expected to resolve itself;
// yes, since it will not; maybe, since only a user knows.
type Review string

// The answers.
const (
	No    Review = "no"
	Maybe Review = "maybe"
	Yes   Review = "yes"
)

// Desired is one declared parameter of a config.
type Desired struct {
	ID           string
	Kind         string
	Dependencies []string // ids of the parameters that it needs while it is there
	Target       Target   // ToBeAbsent, or else it is wanted
}

// Config is what is wanted of a node.
type Config struct {
	Generation config.Generation
	Since      time.Time // when this became the wanted config
	Parameters []Desired
}

// Reported is what a node said of one parameter.
type Reported struct {
	ID         string
	Kind       string
	State      State
	Message    string            // the cause of an error, or what is waited for
	Generation config.Generation // of the config that it answers
	Since      time.Time         // when the node found it so; the zero time is older than any
}

// EdgePeerConfigurationState is what a node reported of all its parameters.
type EdgePeerConfigurationState struct {
	Generation config.Generation // the one that it reports as fully applied
	Parameters []Reported
}

// Parameter is one declared parameter and what follows for it.
type Parameter struct {
	ID     string
	Kind   string
	Target Target
	State  State
	Review Review
	Reason string // the node's message, or what is waited for; "" for none
	Stale  bool   // what the node said is from before, and Reason begins with StaleReport
	Since  time.Time
}

// StaleReport is what the reason of a stale report begins with.
const StaleReport = "stale report: "

// IgnoredParameter is a report about a parameter that is not in the config: it is no part of
// the state but for review, and is to be logged.
type IgnoredParameter struct {
	ID       string
	Kind     string
	Reported State // its state is Ignored
	Review   Review
	Reason   string // the node's message, or else what it reported
	Since    time.Time
}

// PeerConfigurationState is the state of all parameters of a node.
type PeerConfigurationState struct {
	Parameters []Parameter        // by ID
	Ignored    []IgnoredParameter // by ID
	Ready      bool               // every parameter is in a final state, and the report answers the config
}
