package manager

import (
	"maps"
	"slices"
	"time"

	"edgespan/netinst/netstate"
)

// FailedOp is an op that did not succeed in the last apply.
type FailedOp struct {
	Op       string // as "add link es1a1"
	Command  string // the command line, "" where the kernel was asked directly
	Error    string // what it said
	Adapter  string // the adapter whose objects it was about, as "<app>#<index>"; "" for none or many
	Waiting  bool   // it waits for something outside of us, or for an op that failed
	Blocked  bool   // it was not tried, since it needs an object of an op that failed
	Attempts int    // in a row
	Since    time.Time
}

// ApplyReport is what one apply came to, for who asks why.
type ApplyReport struct {
	Changes  int      // ops that took effect
	Repaired []string // of them, by their items, those that put back what others changed
	// Contest counts the repairs of the last minute where there were many, Contested says
	// that it was told before: then single repairs are told no more.
	Contest   string
	Contested bool
	Failing   []FailedOp // all that is not as wanted, in the order in which it failed
	Began     []FailedOp // those of Failing that are new, or fail for another reason
	Ended     []FailedOp // what does not fail any more
	Retry     time.Time  // when the failing ops are tried again; zero: nothing fails
}

// Outcome is the end of one apply as its applier tells it.
type Outcome struct {
	Failures []netstate.Failure
	Err      string        // the host could not be observed
	Done     []netstate.Op // what took effect
	At       time.Time
	Retry    time.Duration               // from At; 0: no retry
	Adapter  func(id netstate.ID) string // whose object it is; nil: nobody's
}

// Ledger keeps account of the applies of one owner. The zero value is that of a
// daemon that has just started: it doesn't know what is drift and what was left undone.
type Ledger struct {
	settled netstate.State // what the last apply left as wanted
	failing []FailedOp
}

// Record takes the end of an apply of want into account.
func (l *Ledger) Record(want netstate.State, o Outcome) ApplyReport {
	a := ApplyReport{Changes: len(o.Done), Repaired: l.repaired(want, o.Done), Failing: l.failures(o)}
	if len(a.Failing) > 0 && o.Retry != 0 {
		a.Retry = o.At.Add(o.Retry)
	}
	for _, f := range a.Failing {
		if old, was := find(l.failing, f.Op); !f.Blocked && (!was || old.Error != f.Error) {
			a.Began = append(a.Began, f)
		}
	}
	for _, f := range l.failing {
		if _, still := find(a.Failing, f.Op); !f.Blocked && !still {
			a.Ended = append(a.Ended, f)
		}
	}
	l.failing = a.Failing
	if o.Err == "" {
		settled := make(netstate.State, len(want))
		maps.Copy(settled, want)
		for _, f := range o.Failures {
			if complete := same(l.settled[f.ID], want[f.ID]); f.Op == "" && complete {
				continue // made again, and found different at once: others are faster than our look
			}
			delete(settled, f.ID)
		}
		l.settled = settled
	}
	return a
}

// repaired lists what of done was wanted just so before: others must have changed it.
func (l *Ledger) repaired(want netstate.State, done []netstate.Op) []string {
	if l.settled == nil {
		return nil
	}
	var out []string
	for _, op := range done {
		for _, it := range op.Items {
			id := it.ID()
			if same(l.settled[id], want[id]) {
				out = append(out, string(op.Verb)+" "+id.String())
			}
		}
	}
	return out
}

func same(a, b netstate.Object) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Text() == b.Text()
}

func (l *Ledger) failures(o Outcome) []FailedOp {
	if o.Err != "" {
		return []FailedOp{l.again(FailedOp{Op: "observe the host", Error: o.Err}, o.At)}
	}
	var out []FailedOp
	for _, x := range o.Failures {
		f := FailedOp{Op: x.Op, Command: x.Command, Error: x.Cause, Waiting: x.Waiting, Blocked: x.Blocked}
		if f.Op == "" { // it was found wrong afterwards
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
				out[i].Adapter = "" // one op on the chains of many
			}
			continue
		}
		out = append(out, l.again(f, o.At))
	}
	return out
}

// again counts a failure on from the one before it.
func (l *Ledger) again(f FailedOp, at time.Time) FailedOp {
	old, was := find(l.failing, f.Op)
	if !was {
		old.Since = at
	}
	f.Attempts, f.Since = old.Attempts+1, old.Since
	return f
}

func find(fs []FailedOp, op string) (FailedOp, bool) {
	for _, f := range fs {
		if f.Op == op {
			return f, true
		}
	}
	return FailedOp{}, false
}

// recordApply tells what an apply came to; out is what is done about it.
func (m *Manager) recordApply(f *flight, e Applied, out []Effect) []Effect {
	if f == nil || f.seq != e.Seq {
		return out // of an applier that has died since
	}
	o := Outcome{Failures: slices.Concat(e.Failures, e.Drift), Err: e.Err, Done: e.Done, At: e.At}
	owner := map[netstate.ID]string{}
	for k, ids := range f.desired.ByAdapter {
		for _, id := range ids {
			owner[id] = k.String()
		}
	}
	o.Adapter = func(id netstate.ID) string { return owner[id] }
	for _, eff := range out {
		if t, is := eff.(Timer); is && t.Token == m.retryTok {
			o.Retry = t.After
		}
	}
	a := m.ledger.Record(f.desired.State, o)
	m.damping.account(&a)
	return append([]Effect{Booked{a}}, out...)
}
