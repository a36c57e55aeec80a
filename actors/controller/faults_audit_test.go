package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/rollout"
	"edgespan/config/fleet/rollout/staged"
	"edgespan/config/kv"
)

// audit reads what was written to a store, transaction by transaction, and checks it against the invariants. It goes by
// the keys alone.
type audit struct {
	s     *common
	limit int // most nodes of a batch
	given map[string]string
	ring  []string // of the topology, if there is one
	links [][2]string

	at       kv.Revision       // read so far
	names    map[string]string // node names by id
	desired  map[string]map[fleet.Digest]bool
	rollouts map[uint64]staged.RolloutRecord
	leaders  map[kv.Leadership]string
	now      string // the leader
	flags    []flagged
	head     uint64
	out      []string        // nodes outside, by the last rollout written
	decided  map[string]bool // commands that rollouts record
	batches  int
	gates    int
	wrong    []string
}

// flagged records that staged rollouts were turned on or off.
type flagged struct {
	at time.Time // when the audit saw it; it happened after the audit before
	on bool
}

const auditMark = kv.Key("audit/mark")

func newAudit(s *common, limit int, given map[string]string) *audit {
	return &audit{
		s: s, limit: limit, given: given, names: map[string]string{}, desired: map[string]map[fleet.Digest]bool{},
		rollouts: map[uint64]staged.RolloutRecord{},
		leaders:  map[kv.Leadership]string{}, decided: map[string]bool{},
	}
}

func (a *audit) fault(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Sprintf("store revision %d: ", a.at)+fmt.Sprintf(format, args...))
}

// read processes all that was written until now.
func (a *audit) read(ctx context.Context) error {
	o, err := a.s.Store.Commit(ctx, kv.Txn{Then: []kv.Op{kv.Put(auditMark, nil)}})
	if err != nil {
		return err
	}
	end := errors.New("this is all")
	err = a.s.Store.Watch(ctx, "", a.at, func(b kv.Batch) error {
		a.at = b.Revision
		for _, e := range b.Events {
			a.event(ctx, e)
		}
		if b.Revision >= o.Revision {
			return end
		}
		return nil
	})
	if !errors.Is(err, end) {
		return err
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	for _, f := range a.s.fenced {
		if who := a.leaders[f.by]; who != f.replica {
			a.fault("%s writes as the leader that was elected at %d, that was %q", f.replica, f.by.Revision, who)
		}
	}
	a.wrong = append(a.wrong, a.s.wrong...)
	a.s.fenced, a.s.wrong = nil, nil
	return nil
}

func (a *audit) event(ctx context.Context, e kv.Event) {
	k, put := e.Entry.Key, e.Kind == kv.EventPut
	id := ""
	if names := history.KeyTexts(k); len(names) > 0 {
		id = names[0]
	}
	switch {
	case k == history.HeadKey():
		a.headIs(ctx)
	case isElection(k):
		if a.now = ""; put {
			if l := (kv.Leadership{Key: k, Revision: e.Entry.ModRevision}); e.Entry.Version == 1 {
				a.leaders[l] = string(e.Entry.Value)
			}
			a.now = string(e.Entry.Value)
		}
	case history.InNodes.Has(k) && put:
		a.names[id] = storage.ValueOf[history.JoinedNode](e).Name
	case history.InGenerations.Has(k) && put:
		if a.desired[id] == nil {
			a.desired[id] = map[fleet.Digest]bool{}
		}
		a.desired[id][storage.ValueOf[fleet.Counted](e).Digest] = true
	case history.InRollouts.Has(k):
		a.rollout(e, id, put)
	case history.InAdmissions.Has(k) && put:
		a.gate(storage.ValueOf[staged.Admission](e), id)
	}
}

// handleHead reads the flag from the newest revision.
func (a *audit) headIs(ctx context.Context) {
	state, err := history.Head(storage.NewReader(ctx, a.s.Store))
	var own history.Version
	if err == nil {
		a.head = state.Number
		own, err = state.Layer(history.Layer{Kind: history.E2E, Name: ownFile})
	}
	if err != nil {
		a.fault("read the head: %v", err)
		return
	}
	on := staged.StagingOf(own.Document, a.given).On
	if n := len(a.flags); n == 0 || a.flags[n-1].on != on {
		a.flags = append(a.flags, flagged{time.Now(), on})
	}
}

// off reports whether staged rollouts were off at any moment of a period.
func (a *audit) off(from, to time.Time) bool {
	for i, f := range a.flags {
		ended := i+1 < len(a.flags) && !a.flags[i+1].at.After(from)
		if !f.on && !f.at.After(to) && !ended {
			return true
		}
	}
	return len(a.flags) == 0 || a.flags[0].at.After(from) // before the first
}

// rollout checks a rollout as a leader wrote it. A batch is no larger than allowed. A rollout that was aborted or
// superseded never continues; one that ended otherwise may, for nodes that come later.
func (a *audit) rollout(e kv.Event, id string, put bool) {
	number, ok := staged.NumberOf(id)
	if !ok {
		a.fault("rollout %q", id)
	}
	if !put {
		delete(a.rollouts, number)
		return
	}
	s := storage.ValueOf[staged.RolloutRecord](e)
	m := s.Machine
	before, known := a.rollouts[number]
	a.rollouts[number] = s
	// A node that was out before continues with what is newer.
	fresh := slices.DeleteFunc(slices.Clone(m.Batch), func(name string) bool { return slices.Contains(a.out, name) })
	limit := a.limit
	canary := !known && m.Number == 1 // a canary that had the config already may have passed before the record is written
	if canary {
		limit = 1
	}
	if s.End == "" && len(fresh) > limit && (!known || m.Number != before.Machine.Number) &&
		(canary || !a.together(fresh, m.Gone)) {
		a.fault("batch %d of rollout %d is %v, of which were out %v; %d more are allowed", m.Number, number, m.Batch, a.out,
			limit)
	}
	if s.End == "" || s.End == staged.EndDone || s.End == staged.EndFailed || s.End == staged.EndAborted {
		a.out = m.Out
	}
	if known && (before.End == staged.EndAborted || before.End == staged.EndSuperseded) && before.End != s.End {
		a.fault("rollout %d was %s and is %q", number, before.End, s.End)
	}
	if s.End != "" && s.Ended.IsZero() || s.End == "" && !s.Ended.IsZero() {
		a.fault("rollout %d is %q, ended %v", number, s.End, s.Ended)
	}
	a.batches = max(a.batches, m.Number)
	for _, d := range s.Decisions {
		if d.By != "" && slices.Contains([]string{"paused", "resumed", staged.EndAborted}, d.What) {
			a.decided[fmt.Sprintf("%d %s by %s at %s", number, d.What, d.By, d.At.Format(time.RFC3339Nano))] = true
		}
	}
}

// together reports whether a batch is one site and the nodes behind it, which go along.
func (a *audit) together(batch, gone []string) bool {
	return slices.ContainsFunc(batch, func(first string) bool {
		down := map[string]bool{first: true}
		for _, name := range gone {
			down[name] = true
		}
		up := wayOut(a.ring, a.links, down)
		return a.links != nil && !slices.ContainsFunc(batch, func(name string) bool { return up[name] })
	})
}

// gate checks a gate that was opened: the rollout must have decided so, and not have ended. A gate that is closed again
// is that of a node which the rollout has put off.
func (a *audit) gate(g staged.Admission, id string) {
	s, known := a.rollouts[g.Rollout]
	name := a.names[id]
	a.gates++
	switch {
	case !known:
		a.fault("the gate of %s is opened for rollout %d, which is not there", name, g.Rollout)
	case g.Open == (fleet.Digest{}):
		putOff := slices.ContainsFunc(s.Machine.Nodes, func(n rollout.Group) bool {
			return n.Delayed && n.State == rollout.Waiting && slices.Contains(n.Names, name)
		})
		if !putOff {
			a.fault("the gate of %s is closed for rollout %d, which has not put it off", name, g.Rollout)
		}
	case s.End != "":
		a.fault("the gate of %s is opened for rollout %d, which is %s", name, g.Rollout, s.End)
	case !slices.Contains(s.Machine.Out, name) || s.Machine.Number != g.Batch:
		a.fault("the gate of %s is opened for batch %d of rollout %d, which has decided batch %d: %v, out %v", name, g.Batch,
			g.Rollout, s.Machine.Number, s.Machine.Batch, s.Machine.Out)
	case !a.desired[id][g.Open]:
		a.fault("the gate of %s is opened for %v, which it never was to have", name, g.Open)
	}
}

// last returns the number of the newest rollout, 0 for none.
func (a *audit) last() (number uint64) {
	for n := range a.rollouts {
		number = max(number, n)
	}
	return number
}

// tells returns all that rollouts record about themselves.
func (a *audit) tells() string {
	var out []string
	for _, n := range slices.Sorted(maps.Keys(a.rollouts)) {
		out = append(out, fmt.Sprintf("%d: %s", n, a.rollouts[n].End))
		for _, d := range a.rollouts[n].Decisions {
			out = append(out, fmt.Sprintf("   %s %s: %s (%s)", d.At.Format("15:04:05.000"), d.What, d.Why, d.By))
		}
	}
	return strings.Join(out, "\n")
}
