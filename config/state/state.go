package state

import (
	"fmt"
	"slices"
	"strings"
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

// Class is the class of a state; a word that is none of the states is Failed.
func (s State) Class() Class {
	switch s {
	case Present, Absent:
		return Final
	case Creating, Removing, WaitingForDependencies:
		return Transitional
	case CreatingFailed, RemovingFailed, CheckPresentFailed, CheckAbsentFailed, Unclaimed:
	}
	return Failed
}

// Review says whether a user should look.
type Review string

// The answers.
const (
	No    Review = "no"
	Maybe Review = "maybe"
	Yes   Review = "yes"
)

// Wanted is one declared parameter of a config.
type Wanted struct {
	ID           string
	Kind         string
	Dependencies []string // ids of the parameters that have to be there before
	Target       Target   // ToBeAbsent, or else it is wanted
}

// Config is what is wanted of a node.
type Config struct {
	Generation config.Generation
	Since      time.Time // when this became the wanted config
	Parameters []Wanted
}

// Reported is what a node said of one parameter.
type Reported struct {
	ID         string
	Kind       string
	State      State
	Detail     string            // the cause of an error, or what is waited for
	Generation config.Generation // of the config that it answers
	Since      time.Time         // when the node found it so
}

// Parameter is one declared parameter and what follows for it.
type Parameter struct {
	ID     string
	Kind   string
	Target Target
	State  State
	Detail string // of an error, or what is waited for; "" for none
	Review bool   // somebody should look: it will not resolve itself
	Since  time.Time
}

// Dropped is a report about a parameter that is not in the config: it counts for nothing,
// and is to be logged.
type Dropped struct {
	Reported
	Review Review
}

// Derived is the state of all parameters of a node.
type Derived struct {
	Parameters []Parameter // by ID
	Dropped    []Dropped   // by ID
	Ready      bool        // every parameter is in a final state
}

// Derive compares what is wanted with what was reported. The order of either counts only
// where an id is there twice.
func Derive(want Config, reports []Reported) Derived {
	wanted, said := map[string]Wanted{}, map[string]Reported{}
	for _, w := range want.Parameters {
		wanted[w.ID] = w
	}
	for _, r := range reports {
		said[r.ID] = r
	}
	d := Derived{Ready: true}
	final := map[string]bool{}
	for id, w := range wanted {
		p := Parameter{ID: id, Kind: w.Kind, Target: ToBePresent}
		if w.Target == ToBeAbsent {
			p.Target = ToBeAbsent
		}
		if r, has := said[id]; has {
			p.follow(r, want)
		} else {
			p.State, p.Since = p.onItsWay(), want.Since
		}
		p.Review = p.State.Class() == Failed
		final[id] = p.State.Class() == Final
		d.Ready = d.Ready && final[id]
		d.Parameters = append(d.Parameters, p)
	}
	for id, r := range said {
		if _, has := wanted[id]; !has {
			d.Dropped = append(d.Dropped, Dropped{r, obsolete(r, want.Generation)})
		}
	}
	slices.SortFunc(d.Parameters, func(a, b Parameter) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(d.Dropped, func(a, b Dropped) int { return strings.Compare(a.ID, b.ID) })
	for i, p := range d.Parameters {
		if p.State == WaitingForDependencies && p.Detail == "" {
			d.Parameters[i].Detail = missing(wanted[p.ID].Dependencies, final)
		}
	}
	return d
}

// onItsWay is the state on the way to the target.
func (p *Parameter) onItsWay() State {
	if p.Target == ToBeAbsent {
		return Removing
	}
	return Creating
}

// follow sets what follows from a report about p.
func (p *Parameter) follow(r Reported, want Config) {
	p.Since, p.Detail = r.Since, r.Detail
	if r.Generation != want.Generation {
		p.State, p.Since, p.Detail = p.onItsWay(), want.Since, before(r)
		return
	}
	switch r.State {
	case WaitingForDependencies:
		p.State = WaitingForDependencies
	case Creating, Removing, Unclaimed:
		p.State = p.onItsWay()
	case Present:
		p.agree(r, ToBePresent)
	case Absent:
		p.agree(r, ToBeAbsent)
	case CreatingFailed, CheckPresentFailed:
		p.fail(r, ToBePresent, want.Since)
	case RemovingFailed, CheckAbsentFailed:
		p.fail(r, ToBeAbsent, want.Since)
	default:
		p.State, p.Detail = CheckPresentFailed, strings.TrimSuffix(fmt.Sprintf("the node says %.40q, which is no known state: %s", r.State, r.Detail), ": ")
		if p.Target == ToBeAbsent {
			p.State = CheckAbsentFailed
		}
	}
}

// agree is of a report that found p to be what goes with a target.
func (p *Parameter) agree(r Reported, with Target) {
	if p.State = p.onItsWay(); p.Target == with {
		p.State = r.State
	}
}

// fail is of an error that can be had only on the way to a target: on the way to the other
// one it is from before the target changed.
func (p *Parameter) fail(r Reported, to Target, since time.Time) {
	if p.Target == to {
		p.State = r.State
		return
	}
	p.State, p.Since, p.Detail = p.onItsWay(), since, before(r)
}

// before puts a report that no longer counts into words.
func before(r Reported) string {
	text := "before: " + string(r.State)
	if r.Generation != (config.Generation{}) {
		text = fmt.Sprintf("before, in generation %s: %s", r.Generation, r.State)
	}
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	return text
}

// obsolete says whether somebody should look at a parameter that no config has and the node
// reports all the same.
func obsolete(r Reported, wanted config.Generation) Review {
	if r.Generation != wanted {
		return No // the node has not heard of it yet
	}
	switch r.State {
	case Absent, WaitingForDependencies, Creating, Removing:
		return No
	case Present, Unclaimed:
		return Maybe
	case CreatingFailed, RemovingFailed, CheckPresentFailed, CheckAbsentFailed:
	}
	return Yes
}

// missing says which dependencies are not there yet, "" if all are.
func missing(dependencies []string, final map[string]bool) string {
	var wait []string
	for _, id := range dependencies {
		if is, declared := final[id]; !declared {
			wait = append(wait, id+", which is not declared")
		} else if !is {
			wait = append(wait, id)
		}
	}
	if wait == nil {
		return ""
	}
	slices.Sort(wait)
	return "waits for " + strings.Join(slices.Compact(wait), ", ")
}
