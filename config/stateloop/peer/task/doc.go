// Package task owns how parameters are brought to what is wanted of them: each is checked,
// made or removed where it is not so, and asserted (seed opendut-configuration-state-loop, "the
// edge checks, executes, asserts"; docs/adr/0020). It decides what is done next, in which
// order, when a failure is tried again, and what is said of each parameter meanwhile.
//
// It never does a step: it asks for it, and is told what came of it and when. It knows nothing of
// what the parameters are, and never judges their graph (config/stateloop does).
//
// Read first: machine.go.
package task

import (
	"time"

	"edgespan/config/stateloop"
	"edgespan/pubsub/backoff"
)

// Task is one parameter that is to be present, or absent.
type Task struct {
	ID      string
	Target  stateloop.Target
	Needs   []string // ids of other tasks: present before it, and removed after it
	Version uint64   // of the wish; another one is another wish
	// Watched says that it is only looked at: it is neither made nor removed.
	Watched bool
	Every   time.Duration // between two checks of one that is as it is wanted
	Settle  time.Duration // from its making to its assertion
	// Stable is how long it has to stay present: if it is lost sooner, that is a failure
	// of making it, and it counts as present again only after that time.
	Stable time.Duration
}

// Step is what is done about a task.
type Step string

// The steps. An assertion is a check after Make or Remove.
const (
	Check  Step = "check"
	Make   Step = "make"
	Remove Step = "remove"
)

// Within is how long a step may take; who does it gives it up then.
func (s Step) Within() time.Duration {
	if s == Check {
		return 5 * time.Second
	}
	return 30 * time.Second
}

// Found is what came of a step.
type Found int

// Of a Make or Remove that went well it is Well.
const (
	Failed  Found = iota // nobody knows: the step failed
	Well                 // it was done
	Present              // it is as it is wanted to be
	Absent               // it is not there, or is not as it is wanted to be
	Busy                 // it is on its way by itself
	Waiting              // the world is not ready for it
	Broken               // it failed by itself, and making it again is not wanted
)

// Waits are those of a task that fails.
var Waits = backoff.Backoff{First: time.Second, Max: time.Minute}

// Parallel is how many steps are under way at most.
const Parallel = 8

// Event is what happened, at a time that never goes back.
type Event interface{ event() }

type (
	// Desired is the complete set of tasks. What is in it no more is forgotten, not removed.
	Desired struct {
		At    time.Time
		Tasks []Task
	}
	// Answered is what came of the step with this number.
	Answered struct {
		At     time.Time
		ID     string
		Seq    uint64
		Found  Found
		Reason string // for people
	}
	// Touched says that something happened to a task.
	Touched struct {
		At time.Time
		ID string
	}
	// Tick says what time it is.
	Tick struct{ At time.Time }
)

func (Desired) event()  {}
func (Answered) event() {}
func (Touched) event()  {}
func (Tick) event()     {}

// Do asks for a step. It is answered by Answered with its number.
type Do struct {
	Task
	Step Step
	Seq  uint64 // no other step has it
}

// Status is how a task is.
type Status struct {
	ID       string
	Target   stateloop.Target
	Version  uint64 // of the wish that it answers
	State    stateloop.State
	Reason   string // "" for none
	Since    time.Time
	Attempts int       // that failed, one after the other
	NextTry  time.Time // zero for none
}
