package netstate

import "errors"

// ErrWaiting marks the error of an op whose object waits for something outside of edgespan, such as a network namespace
// that does not exist yet. That is not a failure.
var ErrWaiting = errors.New("waiting for a dependency")

// ErrAnnounced is an ErrWaiting for something whose appearance HostEvent.Namespaces reports: a named network namespace
// or a foreign link.
var ErrAnnounced error = announced{}

type announced struct{}

func (announced) Error() string { return ErrWaiting.Error() }
func (announced) Unwrap() error { return ErrWaiting }

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
	// Announced means that a HostEvent will report what it waits for (ErrAnnounced).
	Announced bool
	Err       string

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
		// So is a filter that keeps the port's VLAN apart.
		if r.stuck != nil && (op.Kind == KindChain || filters(it.Have) && !filters(it.Want)) {
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
	f := OpFailure{Waiting: errors.Is(err, ErrWaiting), Announced: errors.Is(err, ErrAnnounced),
		Remove: op.Verb == Remove, Err: err.Error(), Op: op.String(), Cause: err.Error()}
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
