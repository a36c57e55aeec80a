package netstate

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// Verb is what an Op does.
type Verb string

// The verbs. Change takes an object from Have to Want in place, or by the platform's atomic step for its kind; Reload
// makes a running process read its files again.
const (
	Add    Verb = "add"
	Change Verb = "change"
	Reload Verb = "reload"
	Remove Verb = "remove"
)

// Item is one object of an Op: Have is nil on Add, Want is nil on Remove.
type Item struct {
	Want, Have Object
}

// ID returns the ID of the item's object.
func (it Item) ID() ID {
	if it.Want != nil {
		return it.Want.ID()
	}
	return it.Have.ID()
}

// Op is one step of a Plan. It has one item, with three exceptions: all chains that are added or changed are one Op,
// all that are removed another, and all links that are removed for good a third.
type Op struct {
	Verb  Verb
	Kind  Kind
	Items []Item
}

func (o Op) String() string {
	names := make([]string, len(o.Items))
	for i, it := range o.Items {
		names[i] = it.ID().Name
	}
	return string(o.Verb) + " " + string(o.Kind) + " " + strings.Join(names, ", ")
}

// Deadline returns how long the op may take; no other code decides that (design §2).
func (o Op) Deadline() time.Duration {
	switch {
	case o.Kind == KindProcess:
		return 3 * time.Second
	case o.Kind == KindLink && o.Verb == Remove:
		// Removals of links at the same time run together, and a thousand bridges take the kernel 17 s.
		return 30 * time.Second
	}
	return 5 * time.Second // a restore waits for the lock of the tables
}

// Plan is the ordered steps from one State to another.
type Plan []Op

// planOrder returns the place in a plan of an object that is added or changed. The order is make before break.
func planOrder(o Object) int {
	switch o := o.(type) {
	case Sysctl:
		return 6 // a link forwards only once the chains are in place
	case File:
		if o.Dir {
			return 1
		}
		return 2
	case Chain:
		return 3
	case Link:
		if o.Type == Bridge {
			return 4
		}
		return 5
	case Address:
		return 6
	case Port:
		if o.Master == "" {
			return 7
		}
		return 11
	case Route:
		if o.Via != "" {
			return 9 // the kernel refuses a gateway without a route to it
		}
		return 8
	case Rule:
		return 9
	case Process:
		return 10
	}
	return 99
}

// removal returns the place of a removed object among the removals.
func removal(o Object) int {
	switch o := o.(type) {
	case Port:
		if o.Master != "" {
			return 0
		}
		return 6
	case Process:
		return 1
	case Rule:
		return 2
	case Route:
		return 3
	case Address:
		return 4
	case Chain:
		return 5
	case File:
		if o.Dir {
			return 8
		}
		return 7
	case Link:
		if o.Type == Veth {
			return 9
		}
		return 10
	case Sysctl:
		return 4 // before the chains are removed
	}
	return 99
}

// step is an op and its place in the first half (makes) or the second half (breaks) of a plan.
type step struct {
	op    Op
	phase int
}

// released is the place, in the first half, of a foreign link that leaves: before the chains, because once these no
// longer name the link, nothing blocks its frames.
const released = 2

// processChange is the place of a changed process among the removals: just after the files.
const processChange = 8

// Diff returns the Plan that leads from have to want. A link that can't be changed in place is removed just before it
// is added. A changed process is replaced after files have been removed, so that it forgets their content.
func Diff(have, want State) Plan {
	var makes, breaks []step
	var chains []Item
	recreated := map[ID]bool{} // ports of new links: down, whatever was observed
	early := map[ID]bool{}     // removed in the first half
	come, gone := files(have, want)
	for _, id := range want.IDs() {
		w, h := want[id], have[id]
		if recreated[id] { // "link" sorts before "port"
			h = nil
		}
		if h != nil && h.Text() == w.Text() && (id.Kind != KindProcess || !come && !gone) {
			continue
		}
		if id.Kind == KindChain {
			chains = append(chains, Item{w, h})
			continue
		}
		at := planOrder(w)
		verb := Change
		switch {
		case h == nil:
			verb = Add
			makes = append(makes, displaced(w, have, want, early)...)
		case id.Kind == KindLink && w.(Link).Recreate(h.(Link), have[ID{KindPort, id.Name}] != nil):
			makes = append(makes, step{Op{Remove, id.Kind, []Item{{nil, h}}}, at})
			h, verb = nil, Add
			recreated[ID{KindPort, id.Name}] = true
		case id.Kind == KindProcess && onlyReload(h.(Process), w.(Process)):
			first, last := reloads(h.(Process), w.(Process), come, gone)
			makes, breaks = append(makes, first...), append(breaks, last...)
			continue
		case id.Kind == KindProcess:
			breaks = append(breaks, step{Op{verb, id.Kind, []Item{{w, h}}}, processChange})
			continue
		}
		makes = append(makes, step{Op{verb, id.Kind, []Item{{w, h}}}, at})
	}
	if len(chains) > 0 {
		makes = append(makes, step{Op{Change, KindChain, chains}, planOrder(Chain{})})
	}
	first, rest := removals(have, want, early)
	return append(inOrder(append(makes, first...)), inOrder(append(breaks, rest...))...)
}

// removals removes what is not desired: foreign links in the first half, objects in a withdrawn subnet before
// everything else, and all others in the second half.
func removals(have, want State, early map[ID]bool) (first, rest []step) {
	var chains, links []Item
	atOnce := withdraws(have, want)
	for _, id := range have.IDs() {
		if want[id] != nil || early[id] {
			continue
		}
		it := Item{nil, have[id]}
		p, port := have[id].(Port)
		at := slices.Index(leaving, id.Kind)
		switch {
		case atOnce && at >= 0:
			first = append(first, step{Op{Remove, id.Kind, []Item{it}}, withdrawn(at)})
		case id.Kind == KindSysctl && len(want) > 0:
			first = append(first, step{Op{Remove, id.Kind, []Item{it}}, closing(id)})
		case id.Kind == KindChain:
			chains = append(chains, it)
		case id.Kind == KindLink:
			links = append(links, it)
		case port && p.Foreign:
			first = append(first, step{Op{Remove, id.Kind, []Item{it}}, released})
		default:
			rest = append(rest, step{Op{Remove, id.Kind, []Item{it}}, removal(have[id])})
		}
	}
	if len(chains) > 0 {
		rest = append(rest, step{Op{Remove, KindChain, chains}, removal(Chain{})})
	}
	if len(links) > 0 { // the kernel waits only once for all links of one removal
		slices.SortStableFunc(links, func(a, b Item) int { return removal(a.Have) - removal(b.Have) })
		rest = append(rest, step{Op{Remove, KindLink, links}, removal(links[0].Have)})
	}
	return first, rest
}

// displaced removes, and records in early, the addresses that must go before w is added: for the kernel, a later
// address of the same subnet is a secondary of the first, and is removed with it.
func displaced(w Object, have, want State, early map[ID]bool) []step {
	a, is := w.(Address)
	if !is {
		return nil
	}
	var steps []step
	for _, id := range have.IDs() {
		if old, is := have[id].(Address); is && want[id] == nil && a.sameSubnet(old) {
			early[id] = true
			steps = append(steps, step{Op{Remove, id.Kind, []Item{{nil, old}}}, planOrder(w)})
		}
	}
	return steps
}

// inOrder returns the ops of steps by phase; within a phase they keep their order.
func inOrder(steps []step) Plan {
	slices.SortStableFunc(steps, func(a, b step) int { return a.phase - b.phase })
	plan := make(Plan, len(steps))
	for i, s := range steps {
		plan[i] = s.op
	}
	return plan
}

// ErrWaiting marks the error of an op whose object waits for something outside of edgespan, such as a network namespace
// that does not exist yet. That is not a failure.
var ErrWaiting = errors.New("waiting for a dependency")

// OpError is why an op failed: the command, if one was run, and its output.
type OpError struct {
	Op      string
	Command string // "" for a direct request to the kernel
	Err     error
}

func (e *OpError) Error() string {
	s := e.Op + ": "
	if e.Command != "" {
		s += e.Command + ": "
	}
	return s + e.Err.Error()
}

func (e *OpError) Unwrap() error { return e.Err }

// OpFailure is an object that is not as desired, and why.
type OpFailure struct {
	ID      ID
	Waiting bool // it waits for a dependency: an external one, or an object that failed
	Remove  bool // it should have been removed
	Observe bool // it was applied successfully and observed different later
	Blocked bool // not tried: it needs an object that failed
	Err     string

	// The parts of Err, to show them separately: the op, the command that it ran, if any, and its output. Op is "" for an
	// object that was observed different.
	Op, Command, Cause string
}

// Run runs a Plan: a failed op stops only the ops that need its objects.
type Run struct {
	plan   Plan
	failed map[ID]OpFailure
	order  []ID
	stuck  *ID // a port that is still in its bridge, or a chain that did not change
}

// NewRun starts the run of a plan.
func NewRun(p Plan) *Run { return &Run{plan: p, failed: map[ID]OpFailure{}} }

// Next returns the next op to run, or false at the end. Ops whose needs have failed are skipped, and their objects
// become failures that wait.
func (r *Run) Next() (Op, bool) {
	for len(r.plan) > 0 {
		op := r.plan[0]
		r.plan = r.plan[1:]
		if why, blocked := r.blocked(op); blocked {
			err := "waits for " + why.String()
			r.fail(op, OpFailure{Waiting: true, Blocked: true, Remove: op.Verb == Remove, Err: err, Op: op.String(), Cause: err})
			continue
		}
		return op, true
	}
	return Op{}, false
}

func (r *Run) blocked(op Op) (ID, bool) {
	for _, it := range op.Items {
		if f, bad := r.failed[it.ID()]; bad && op.Verb != Remove {
			return f.ID, true // its own removal failed, so it can't be added again
		}
		// A chain is left unchanged while a port that it filters may still carry packets, and while another chain that did
		// not change may lead to it.
		if r.stuck != nil && op.Kind == KindChain {
			return *r.stuck, true
		}
		if it.Want == nil {
			continue
		}
		for _, n := range it.Want.Needs() {
			if _, bad := r.failed[n]; bad {
				return n, true
			}
		}
	}
	return ID{}, false
}

// Done records the result of the op that Next returned last.
func (r *Run) Done(op Op, err error) {
	if err == nil {
		return
	}
	f := OpFailure{Waiting: errors.Is(err, ErrWaiting), Remove: op.Verb == Remove, Err: err.Error(), Op: op.String(),
		Cause: err.Error()}
	var parts *OpError
	if errors.As(err, &parts) {
		f.Command, f.Cause = parts.Command, parts.Err.Error()
	}
	r.fail(op, f)
}

func (r *Run) fail(op Op, f OpFailure) {
	for _, it := range op.Items {
		f.ID = it.ID()
		if p, ok := it.Have.(Port); ok && f.Remove && p.Master != "" {
			id := f.ID
			r.stuck = &id
		}
		if op.Kind == KindChain && !f.Remove && r.stuck == nil { // chains that lead to others may be left
			id := f.ID
			r.stuck = &id
		}
		if _, again := r.failed[f.ID]; again {
			continue // its removal failed before it could be added again: that is the cause
		}
		r.order = append(r.order, f.ID)
		r.failed[f.ID] = f
	}
}

// Failures returns what is not as desired, in the order of failure.
func (r *Run) Failures() []OpFailure {
	fs := make([]OpFailure, len(r.order))
	for i, id := range r.order {
		fs[i] = r.failed[id]
	}
	return fs
}
