package node

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/netinst"
	"edgespan/netinst/manager"
	"edgespan/netinst/netstate"
)

// Deadlines of reading and of ForgetFlows, which knows how long its walk may take and returns earlier. Ops have the
// deadlines of netstate.Op.Deadline.
const (
	observeDeadline = 30 * time.Second // six listings of at most 5 s, each shared by concurrent callers
	forgetDeadline  = 70 * time.Second
	testDeadline    = 5 * time.Second
	droppedDeadline = 5 * time.Second
)

// applyRequest asks an applier for one apply. The applier sends opStarted and applyResult to its parent.
type applyRequest struct {
	seq    manager.ApplySeq
	want   netstate.State
	full   bool
	look   bool // observe only: report drift, do not repair it
	forget func(netstate.Flow) bool
}

type (
	applierReady struct {
		pid *actor.PID
		mtu int // of the owner's bridge, 0 without one
	}
	opStarted struct {
		seq manager.ApplySeq
		op  string
		at  time.Time
	}
	applyResult struct {
		seq      manager.ApplySeq
		failures []netstate.OpFailure
		drift    []netstate.OpFailure // found but not repaired
		had      netstate.State       // state before the apply
		err      string
		done     []netstate.Op // ops that took effect
		dropped  map[netstate.ID]uint64
		began    time.Time
		looked   time.Time // when the last observation of the host began
	}
)

// applier is the only actor that writes the objects of one owner to the host. It blocks, so it is a leaf. It announces
// every start, because an apply that was interrupted by a crash is never answered.
type applier struct {
	d       *deps
	owner   netstate.Owner
	checked bool // flows were validated since this incarnation began and since a chain op last failed
	broken  bool // the last test found a promise that does not hold
}

func (a *applier) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		mtu := a.mtu()
		if a.owner.Number > 0 && mtu == 0 {
			a.d.gate.making(a.owner.Number)
		}
		c.Send(c.Parent(), applierReady{c.Self(), mtu})
	case *actor.Stopping:
		a.d.gate.isMade(a.owner.Number)
	case surveyRequest:
		c.Send(c.Parent(), a.observeOwned())
	case applyRequest:
		c.Send(c.Parent(), a.apply(msg, func(op netstate.Op) {
			c.Send(c.Parent(), opStarted{msg.seq, op.String(), time.Now()})
		}))
	}
}

// apply observes the host, plans, runs each op, and observes again the objects it touched: an op that reports success
// without effect counts as a failure (docs/architecture.md, law 11).
func (a *applier) apply(r applyRequest, starting func(netstate.Op)) applyResult {
	defer a.d.gate.isMade(a.owner.Number)
	began := time.Now()
	looked := began
	have, err := a.observe(r.full)
	if err != nil {
		return applyResult{seq: r.seq, err: err.Error()}
	}
	var drift []netstate.OpFailure
	if r.look {
		r.want, drift = manager.Leave(have, r.want)
	}
	plan := netstate.Diff(have, r.want)
	dropped := a.dropped(r, len(plan) > 0)
	// An earlier incarnation may have crashed after writing chains and before deleting flows.
	validate := !a.checked && len(have) > 0
	a.checked = true
	out := applyResult{seq: r.seq, drift: drift, had: have, dropped: dropped, began: began, looked: looked}
	if len(plan) == 0 {
		forgotten := a.forget(validate, r.forget)
		out.failures = append(a.testAgain(r), forgotten()...)
		return out
	}
	run := netstate.NewRun(plan)
	var done []netstate.Op
	none := func() []netstate.OpFailure { return nil }
	forgotten := none
	var left []netstate.OpFailure
	for op, ok := run.Next(); ok; op, ok = run.Next() {
		left = append(left, forgotten()...) // ops after the chains find no flow that the chains deny
		forgotten = none
		err := a.do(op, starting)
		run.Done(op, err)
		if err == nil {
			done = append(done, op)
		}
		if netinst.MayDeny(op) {
			validate = validate || err == nil
			a.checked = a.checked && err == nil // a failed op may have taken effect: the next apply validates the flows
		}
		if op.Kind == netstate.KindChain {
			forgotten = a.forget(validate, r.forget)
			validate = false
		}
	}
	if validate { // flows of an earlier incarnation: no chain has changed in this one
		forgotten = a.forget(validate, r.forget)
	}
	failures := run.Failures()
	if len(failures) == 0 {
		out.looked = time.Now()
		failures = a.verify(r.want) // runs in parallel with the walk through the flows, which takes as long
	}
	if len(failures) == 0 {
		failures = a.test(r.want)
	}
	left = append(left, forgotten()...)
	out.failures, out.done = append(failures, left[:min(1, len(left))]...), done
	return out
}

// dropped reads how many packets the adapters' limits have dropped, at a full observation and when there is something
// to change.
func (a *applier) dropped(r applyRequest, changes bool) map[netstate.ID]uint64 {
	chains := netinst.CountingChains(r.want)
	if !r.full && !changes || len(chains) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(a.d.ctx, droppedDeadline)
	defer cancel()
	counts, err := a.d.host.Dropped(ctx, a.owner, chains)
	if err != nil {
		a.d.log.Warn("count dropped packets", zap.String("ni", a.owner.Name), zap.Error(err))
	}
	return counts
}

// mtu returns the current MTU of the network's links, or 0 if it cannot be read.
func (a *applier) mtu() int {
	if a.owner.Number == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(a.d.ctx, observeDeadline)
	defer cancel()
	mtu, err := a.d.host.BridgeMTU(ctx, a.owner)
	if err != nil {
		a.d.log.Warn("read the MTU of a network", zap.String("ni", a.owner.Name), zap.Error(err))
	}
	return mtu
}

func (a *applier) observe(full bool) (netstate.State, error) {
	ctx, cancel := context.WithTimeout(a.d.ctx, observeDeadline)
	defer cancel()
	st, err := a.d.host.Observe(ctx, a.owner, full)
	if err != nil {
		return nil, fmt.Errorf("observe network instance %d: %w", a.owner.Number, err)
	}
	return st, nil
}

func (a *applier) do(op netstate.Op, starting func(netstate.Op)) error {
	if op.Verb != netstate.Remove {
		class := buildOps
		switch op.Kind {
		case netstate.KindChain:
			class = chainOps
		case netstate.KindProcess:
			class = helperOps
			a.d.gate.isMade(a.owner.Number)
		}
		defer a.d.gate.enter(a.d.ctx, class)()
	}
	starting(op)
	ctx, cancel := context.WithTimeout(a.d.ctx, op.Deadline())
	defer cancel()
	return a.d.host.Do(ctx, a.owner, op)
}

// forget starts deleting the tracked flows that the new chains deny, if validate is set; forgotten waits for the end. A
// flow that could not be deleted may live for days, so the apply counts as failed and the next one validates the flows
// again.
func (a *applier) forget(validate bool, match func(netstate.Flow) bool) (forgotten func() []netstate.OpFailure) {
	if !validate || match == nil {
		return func() []netstate.OpFailure { return nil }
	}
	ctx, cancel := context.WithTimeout(a.d.ctx, forgetDeadline)
	answer := a.d.host.ForgetFlows(ctx, match)
	return func() []netstate.OpFailure {
		defer cancel()
		n, err := answer()
		if n > 0 {
			a.d.log.Info("deleted conntrack entries of denied flows", zap.String("ni", a.owner.Name), zap.Int("flows", n))
		}
		if err == nil {
			return nil
		}
		a.checked = false
		const op = "delete conntrack entries of denied flows"
		cause := fmt.Sprintf("%v; %d deleted, others may still pass", err, n)
		return []netstate.OpFailure{{ID: netstate.ID{Kind: netstate.KindFlow, Name: "denied"}, Op: op, Cause: cause, Err: op +
			": " + cause}}
	}
}

// verify reads back the objects and names each that differs from what was just written.
func (a *applier) verify(want netstate.State) []netstate.OpFailure {
	have, err := a.observe(false)
	if err != nil {
		return []netstate.OpFailure{{Observe: true, Err: err.Error()}}
	}
	var fs []netstate.OpFailure
	for _, op := range netstate.Diff(have, want) {
		for _, it := range op.Items {
			fs = append(fs, netstate.OpFailure{
				ID: it.ID(), Observe: true, Remove: it.Want == nil,
				Err: fmt.Sprintf("%s: applied, but observed different: %s", it.ID(), difference(it)),
			})
		}
	}
	return fs
}

// test checks whether the objects that match the desired state also work.
func (a *applier) test(want netstate.State) []netstate.OpFailure {
	ctx, cancel := context.WithTimeout(a.d.ctx, testDeadline)
	defer cancel()
	fs := a.d.host.Test(ctx, a.owner, want)
	a.broken = len(fs) > 0
	return fs
}

// testAgain tests the objects that match the desired state at each full observation, and at every observation while a
// promise does not hold. Others may request an observation every second.
func (a *applier) testAgain(r applyRequest) []netstate.OpFailure {
	if !r.full && !a.broken {
		return nil
	}
	return a.test(r.want)
}

func difference(it netstate.Item) string {
	switch {
	case it.Have == nil:
		return "absent"
	case it.Want == nil:
		return "still there"
	}
	return fmt.Sprintf("%q", it.Have.Text())
}
