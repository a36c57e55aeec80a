package stateloop

import (
	"time"

	"edgespan/config"
)

// Target is the desired presence of a parameter.
type Target string

// The targets.
const (
	ToBePresent Target = "present"
	ToBeAbsent  Target = "absent"
)

// State is the state of a parameter, as a node reports it or as Derive derives it. The seed lets a node report Present,
// Absent, a failure or WaitingForDependencies; edgespan nodes also report Creating, Removing and Unclaimed.
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

// Ignored is the derived state of a parameter that a node reports and its config does not declare.
const Ignored State = "Ignored"

// Unclaimed is a state that nodes report in addition to the seed's: the object exists, and no config of the node
// declares it.
const Unclaimed State = "Unclaimed"

// Class is the kind of a state.
type Class string

// The classes. A transitional state is expected to resolve itself.
const (
	Final        Class = "final"
	Transitional Class = "transitional"
	Failed       Class = "failed"
)

// Class returns the class of a state. One that the table gives no class, such as Ignored, Unclaimed or an unknown text,
// is Failed.
func (s State) Class() Class {
	if c, known := table.Classes[s]; known {
		return c
	}
	return Failed
}

// Review says whether a user should look: no if the state resolves itself, yes if it does not, maybe if only a user can
// decide.
type Review string

// The values of Review.
const (
	ReviewNo    Review = "no"
	ReviewMaybe Review = "maybe"
	ReviewYes   Review = "yes"
)

// DesiredParameter is one declared parameter of a config.
type DesiredParameter struct {
	ID           string
	Kind         string
	Dependencies []string // ids of the parameters that it needs while it exists
	Target       Target   // ToBeAbsent; any other value means present
}

// Config holds the desired parameters of a node.
type Config struct {
	Generation config.Generation
	Since      time.Time // when this became the desired config
	Parameters []DesiredParameter
}

// Reported is a node's report of one parameter.
type Reported struct {
	ID         string
	Kind       string
	State      State
	Message    string            // the cause of an error, or the parameters that it waits for
	Generation config.Generation // of the config that it answers
	Since      time.Time         // when the node observed the state; the zero time is older than any
}

// EdgePeerConfigurationState is a node's report of all its parameters.
type EdgePeerConfigurationState struct {
	Generation config.Generation // reported as fully applied
	Parameters []Reported
}

// DerivedParameter is one declared parameter with its derived state.
type DerivedParameter struct {
	ID     string
	Kind   string
	Target Target
	State  State
	Review Review
	Reason string // the node's message, or the parameters that it waits for; "" for none
	Stale  bool   // the node's report is from before the config or the target changed; Reason begins with StaleReport
	Since  time.Time
}

// StaleReport is the prefix of the reason of a stale report.
const StaleReport = "stale report: "

// IgnoredParameter is a report about a parameter that is not in the config. It does not affect Ready; its review counts
// for the node's Health and Reviews (PeerStatusReport). Callers log it.
type IgnoredParameter struct {
	ID       string
	Kind     string
	Reported State // as the node reports it; the derived state is Ignored
	Review   Review
	Reason   string // the node's message, or else the reported state
	Since    time.Time
}

// PeerConfigurationState is the state of all parameters of a node.
type PeerConfigurationState struct {
	Parameters []DerivedParameter // by ID
	Ignored    []IgnoredParameter // by ID
	Ready      bool               // every parameter is in a final state, and the report answers the config
}
