package manager

import (
	"maps"
	"slices"
	"strings"
	"time"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// FailedOp is an op that failed in the last apply.
type FailedOp struct {
	Op       string // such as "add link es1a1"
	Command  string // the command line, "" for a direct request to the kernel
	Error    string // the error message
	Adapter  string // the adapter that owns the objects, as "<app>#<index>", or the port's label; "" for none or several
	Waiting  bool   // it waits for something outside edgespan, or for an op that failed
	Blocked  bool   // it was not tried: it needs an object of an op that failed
	Attempts int    // in a row
	Since    time.Time
}

// ApplyReport is the result of one apply, for explain and the log.
type ApplyReport struct {
	Seq        ApplySeq // these three of a network alone
	Generation uint64   // of the network's config
	Trigger    Began
	Changes    int      // number of ops that took effect
	Repaired   []string // the items among them that restored what other programs had changed
	// Contest counts the repairs of the last minute if there were many. Contested means that it was reported before:
	// single repairs are then no longer reported.
	Contest   string
	Contested bool
	Failing   []FailedOp // all objects that are not as desired, in the order of failure
	Began     []FailedOp // entries of Failing that are new, or fail for another reason
	Ended     []FailedOp // objects that no longer fail
	Retry     time.Time  // when the failing ops are retried; zero: nothing fails
}

// ApplyOutcome is the end of one apply as its applier reports it.
type ApplyOutcome struct {
	Failures []netstate.OpFailure
	Err      string        // the host could not be observed
	Done     []netstate.Op // ops that took effect
	At       time.Time
	Retry    time.Duration               // from At; 0: no retry
	Adapter  func(id netstate.ID) string // owner of an object; nil: no adapter
}

// Ledger keeps the history of the applies of one owner. The zero value is that of a daemon that has just started: it
// cannot tell drift from work that was left undone.
type Ledger struct {
	settled netstate.State // objects that the last apply left as desired
	failing []FailedOp
}

// Record adds the end of an apply of want, and returns its report.
func (l *Ledger) Record(want netstate.State, o ApplyOutcome) ApplyReport {
	a := ApplyReport{Changes: len(o.Done), Repaired: l.repaired(want, o.Done), Failing: l.failures(o)}
	if len(a.Failing) > 0 && o.Retry != 0 {
		a.Retry = o.At.Add(o.Retry)
	}
	for _, f := range a.Failing {
		if old, was := findOp(l.failing, f.Op); !f.Blocked && (!was || old.Error != f.Error) {
			a.Began = append(a.Began, f)
		}
	}
	for _, f := range l.failing {
		if _, still := findOp(a.Failing, f.Op); !f.Blocked && !still {
			a.Ended = append(a.Ended, f)
		}
	}
	l.failing = a.Failing
	if o.Err == "" {
		settled := want // which never changes
		if want == nil || len(o.Failures) > 0 {
			settled = make(netstate.State, len(want))
			maps.Copy(settled, want)
		}
		for _, f := range o.Failures {
			if complete := netstate.Same(l.settled[f.ID], want[f.ID]); f.Op == "" && complete {
				continue // applied and already different: another program changed it before it was observed
			}
			delete(settled, f.ID)
		}
		l.settled = settled
	}
	return a
}

// repaired lists the items of done that were desired in the same form before: another program must have changed them.
func (l *Ledger) repaired(want netstate.State, done []netstate.Op) []string {
	if l.settled == nil {
		return nil
	}
	var out []string
	for _, op := range done {
		for _, it := range op.Items {
			id := it.ID()
			if netstate.Same(l.settled[id], want[id]) && !netstate.LeansOn(want[id], l.settled, want) {
				out = append(out, string(op.Verb)+" "+id.String())
			}
		}
	}
	return out
}

func (l *Ledger) failures(o ApplyOutcome) []FailedOp {
	if o.Err != "" {
		return []FailedOp{l.continueCount(FailedOp{Op: "observe the host", Error: o.Err}, o.At)}
	}
	var out []FailedOp
	for _, x := range o.Failures {
		f := FailedOp{Op: x.Op, Command: x.Command, Error: x.Cause, Waiting: x.Waiting, Blocked: x.Blocked}
		if f.Op == "" { // found different after the apply
			f.Op = "check " + x.ID.String()
		}
		if f.Error == "" {
			f.Error = x.Err
		}
		if o.Adapter != nil {
			f.Adapter = o.Adapter(x.ID)
		}
		if i := slices.IndexFunc(out, func(g FailedOp) bool { return g.Op == f.Op }); i >= 0 {
			if out[i].Adapter != f.Adapter {
				out[i].Adapter = "" // one op writes the chains of many adapters
			}
			continue
		}
		out = append(out, l.continueCount(f, o.At))
	}
	return out
}

// continueCount continues the count of a failure from the one before it.
func (l *Ledger) continueCount(f FailedOp, at time.Time) FailedOp {
	old, was := findOp(l.failing, f.Op)
	if !was {
		old.Since = at
	}
	f.Attempts, f.Since = old.Attempts+1, old.Since
	return f
}

func findOp(fs []FailedOp, op string) (FailedOp, bool) {
	for _, f := range fs {
		if f.Op == op {
			return f, true
		}
	}
	return FailedOp{}, false
}

// recordApply reports the result of an apply; out are the effects that follow from it.
func (m *Manager) recordApply(f *flight, e Applied, out []Effect) []Effect {
	if f == nil || f.seq != e.Seq {
		return out // from an applier that has since crashed
	}
	o := ApplyOutcome{Failures: slices.Concat(e.Failures, e.Drift), Err: e.Err, Done: e.Done, At: e.At}
	if len(o.Failures) > 0 {
		owner := f.owners()
		o.Adapter = func(id netstate.ID) string {
			if k, of := owner[id]; of {
				return k.String()
			}
			return ""
		}
	}
	for _, eff := range out {
		if t, ok := eff.(Timer); ok && t.Token == m.retryTok {
			o.Retry = t.After
		}
	}
	a := m.ledger.Record(f.desired.State, o)
	a.Seq, a.Generation, a.Trigger = f.seq, f.gen, f.began
	m.damping.addToReport(&a)
	return append([]Effect{ReportApply{a}}, out...)
}

// inOrder returns the keys of a map in the order of their texts.
func inOrder[V any](of map[netinst.AdapterKey]V) []netinst.AdapterKey {
	return slices.SortedFunc(maps.Keys(of), func(a, b netinst.AdapterKey) int {
		return strings.Compare(a.String(), b.String())
	})
}

// owners returns which adapter each object is of. One that leaves and one that has taken its number name the same
// objects: they are of the one that stays.
func (f *flight) owners() map[netstate.ID]netinst.AdapterKey {
	out := map[netstate.ID]netinst.AdapterKey{}
	keys := inOrder(f.desired.ByAdapter)
	for _, stays := range []bool{false, true} {
		for _, k := range keys {
			if f.versions[k].Activate == stays {
				for _, id := range f.desired.ByAdapter[k] {
					out[id] = k
				}
			}
		}
	}
	return out
}
