// Package task owns how a node reaches the desired state of its parameters: each is checked, created or removed if
// needed, and asserted (seed opendut-configuration-state-loop, "the edge checks, executes, asserts"; docs/adr/0020). It
// decides the next step, the order of steps, when a failure is retried, and the status of each parameter meanwhile.
//
// It never executes a step: it requests the step and receives its result and time. It does not know what the parameters
// are, and never validates their graph (config/stateloop does).
//
// Read machine.go first.
package task

import (
	"time"

	"edgespan/config/stateloop"
	"edgespan/pubsub/backoff"
)

// Task is one parameter with the target present or absent.
type Task struct {
	ID      string
	Target  stateloop.Target
	Needs   []string // ids of other tasks: present before it, and removed after it
	Version uint64   // of the desired value; another version is another desired value
	// Watched marks a task that is only checked, neither created nor removed.
	Watched bool
	Every   time.Duration // between two checks of a task in its desired state
	Settle  time.Duration // from its creation to its assertion
	// Stable is how long the parameter must stay present: losing it sooner counts as a failure to create it, and it
	// counts as present again only after that time.
	Stable time.Duration
}

// Step is an operation on a task.
type Step string

// The steps. An assertion is a check after Make or Remove.
const (
	Check  Step = "check"
	Make   Step = "make"
	Remove Step = "remove"
)

// Timeout returns the time limit of a step; its executor gives up then.
func (s Step) Timeout() time.Duration {
	if s == Check {
		return 5 * time.Second
	}
	return 30 * time.Second
}

// Found is the result of a step.
type Found int

// A successful Make or Remove returns Well.
const (
	Failed  Found = iota // the step failed, and the state is unknown
	Well                 // done
	Present              // it is in its desired state
	Absent               // it does not exist, or differs from its desired state
	Busy                 // it is changing by itself
	Waiting              // its prerequisites are missing
	Broken               // it failed by itself and must not be created again
)

// Waits is the back-off of a failing task.
var Waits = backoff.Backoff{First: time.Second, Max: time.Minute}

// Parallel limits the steps in flight.
const Parallel = 8

// Event is an input of the machine, with a time that never goes back.
type Event interface{ event() }

type (
	// Desired is the complete set of tasks. A task that is no longer in it is forgotten, not removed.
	Desired struct {
		At    time.Time
		Tasks []Task
	}
	// Answered is the result of the step with this number.
	Answered struct {
		At     time.Time
		ID     string
		Seq    uint64
		Found  Found
		Reason string // for people
	}
	// Touched reports that something happened to a task.
	Touched struct {
		At time.Time
		ID string
	}
	// Tick reports the current time.
	Tick struct{ At time.Time }
)

func (Desired) event()  {}
func (Answered) event() {}
func (Touched) event()  {}
func (Tick) event()     {}

// Do requests a step. Answered with the same number answers it.
type Do struct {
	Task
	Step Step
	Seq  uint64 // unique
}

// Status is the state of a task.
type Status struct {
	ID       string
	Target   stateloop.Target
	Version  uint64 // of the desired value that it answers
	State    stateloop.State
	Reason   string // "" for none
	Since    time.Time
	Attempts int       // consecutive failures
	NextTry  time.Time // zero for none
}
