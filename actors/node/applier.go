package node

import (
	"context"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/node/cores"
	"edgespan/netinst"
	"edgespan/netinst/manager"
	"edgespan/netinst/netstate"
	"edgespan/pubsub/shellproto"
	"edgespan/pubsub/tape"
	"edgespan/pubsub/trace"
)

// Deadlines of reading and of ForgetFlows, which knows how long its walk may take and returns earlier. Ops have the
// deadlines of netstate.Op.Deadline.
const (
	observeDeadline = 30 * time.Second // six listings of at most 5 s, each shared by concurrent callers
	forgetDeadline  = 70 * time.Second
	testDeadline    = 5 * time.Second
	limitsDeadline  = 5 * time.Second
	resetDeadline   = 5 * time.Second
)

// applyRequest asks an applier for one apply. The applier sends opStarted and applyResult to its parent.
type applyRequest struct {
	seq         manager.ApplySeq
	want        netstate.State
	full        bool
	observeOnly bool // observe only: report drift, do not repair it
	// forget is that of manager.Apply.
	forget func(netstate.State, map[netstate.ID]bool) func(netstate.Flow) bool
	reset  func(netstate.Flow) string // manager.Apply
	counting
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
		seq        manager.ApplySeq
		failures   []netstate.OpFailure
		drift      []netstate.OpFailure // found but not repaired
		before     netstate.State       // state before the apply
		err        string
		done       []netstate.Op // ops that took effect
		counted    map[netstate.ID][]netstate.Counter
		began      time.Time
		observedAt time.Time // when the last observation of the host began
	}
)

// applier is the only actor that writes the objects of one owner to the host. It blocks, so it is a leaf. It announces
// every start, because an apply that was interrupted by a crash is never answered.
type applier struct {
	d          *deps
	owner      netstate.Owner
	checked    bool // tracked flows were compared with the rules since this start and since a chain op last failed
	testFailed bool // an object failed the last test
	ending     []*connections
	span       trace.Context // of the apply in flight
	limiting   limitingChains
	reel       *tape.Reel // of its comparisons
}

// limitingChains are the chains of a desired state whose drops are reported.
type limitingChains struct {
	of     netstate.State // never changes, and is the same until something else is desired
	chains []netstate.ID
}

func (l *limitingChains) get(of netstate.State) []netstate.ID {
	if reflect.ValueOf(of).Pointer() != reflect.ValueOf(l.of).Pointer() {
		*l = limitingChains{of, netinst.CountingChains(of)}
	}
	return l.chains
}

func (a *applier) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		a.reel = a.d.tape.Reel(cores.Compare, a.owner.Name)
		mtu := a.mtu()
		if a.owner.Number > 0 && mtu == 0 {
			a.d.slots.markBuilding(a.owner.Number) // it has no bridge yet (semaphore.go)
		}
		c.Send(c.Parent(), applierReady{c.Self(), mtu})
	case *actor.Stopping:
		a.d.slots.markBuilt(a.owner.Number)
	case ownedRequest:
		c.Send(c.Parent(), a.observeOwned())
	case applyRequest:
		began := time.Now()
		a.trace(func() shellproto.TraceItem { return shellproto.TraceItem{Depth: 1, What: "compares with the host"} })
		span := a.startSpan()
		result := a.apply(msg, func(op netstate.Op) {
			a.d.census.Doing(c.Self().Id, op.String())
			c.Send(c.Parent(), opStarted{msg.seq, op.String(), a.d.now()})
		})
		endSpan(span, result)
		a.trace(func() shellproto.TraceItem {
			return shellproto.TraceItem{Depth: 1, Took: time.Since(began), Error: firstFailure(result),
				What: fmt.Sprintf("ops done: %d", len(result.done))}
		})
		a.d.work.Reconciled(time.Since(began), len(result.done) > 0, result.err != "" || len(result.failures) > 0)
		a.endConnections()
		c.Send(c.Parent(), result)
	}
}

// apply observes the host, plans, runs each op, and observes again the objects it touched: an op that reports success
// without effect counts as a failure (docs/architecture.md, law 11).
func (a *applier) apply(r applyRequest, starting func(netstate.Op)) applyResult {
	defer a.d.slots.markBuilt(a.owner.Number)
	began := a.d.now() // also the beginning of the first observation
	have, err := a.observe(r.full)
	if err != nil {
		return applyResult{seq: r.seq, err: err.Error()}
	}
	var drift []netstate.OpFailure
	if r.observeOnly {
		r.want, drift = manager.LeaveDrift(have, r.want)
	}
	have = netstate.Claim(have, r.want)
	plan := tape.Step(a.reel, cores.Comparison{}, cores.Compared{Have: have, Want: r.want})
	counted := a.limits(r, len(plan) > 0)
	a.readBefore(r.counting, plan)
	// An earlier incarnation may have crashed after writing chains and before deleting flows.
	validate := !a.checked && len(have) > 0
	a.checked = true
	out := applyResult{seq: r.seq, drift: drift, before: have, counted: counted, began: began, observedAt: began}
	if len(plan) == 0 {
		return a.leave(r, have, validate, out)
	}
	run := netstate.NewRun(plan)
	var done []netstate.Op
	none := func() []netstate.OpFailure { return nil }
	forgotten := none
	var left []netstate.OpFailure
	var rest *observation
	for op, ok := run.Next(); ok; op, ok = run.Next() {
		left = append(left, forgotten()...) // ops after the chains find no flow that the chains deny
		forgotten = none
		rest = a.observeBeside(op, rest, len(done) > 0)
		err := a.do(op, starting)
		run.Done(op, err)
		if err == nil {
			done = append(done, op)
		}
		if netinst.MayDeny(op) {
			validate = validate || err == nil
			a.checked = a.checked && err == nil // a failed op may have taken effect: the next apply checks the flows
		}
		if op.Kind == netstate.KindChain {
			forgotten = a.forget(validate, r, have, done)
			validate = false
		}
	}
	if validate { // flows of an earlier incarnation: no chain has changed in this one
		forgotten = a.forget(validate, r, have, done)
	}
	failures := run.Failures()
	a.countFrom(r.counting, done, failures)
	if len(failures) == 0 { // in parallel with the walk through the flows, which takes as long
		failures, out.observedAt = a.check(r.want, rest)
	}
	rest.stop()
	left = append(left, forgotten()...)
	out.failures, out.done = append(failures, left[:min(1, len(left))]...), done
	return out
}

// leave ends an apply that finds everything as desired.
func (a *applier) leave(r applyRequest, have netstate.State, validate bool, out applyResult) applyResult {
	a.countFrom(r.counting, nil, nil)
	forgotten := a.forget(validate, r, have, nil)
	out.failures = append(a.testAgain(r), forgotten()...)
	return out
}

// limits reads what the adapters' limits have counted, at a full observation and when there is something to change.
func (a *applier) limits(r applyRequest, changes bool) map[netstate.ID][]netstate.Counter {
	chains := a.limiting.get(r.want)
	if !r.full && !changes || len(chains) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(a.d.ctx, limitsDeadline)
	defer cancel()
	counts, err := a.d.host.Counters(ctx, a.owner, chains)
	if err != nil {
		a.d.of(logApplier).Warn("count dropped packets", zap.String("ni", a.owner.Name), zap.Error(err))
	}
	return counts
}

// mtu returns the current MTU of the network's links, or 0 if it cannot be read.
func (a *applier) mtu() int {
	if a.owner.Number <= 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(a.d.ctx, observeDeadline)
	defer cancel()
	mtu, err := a.d.host.BridgeMTU(ctx, a.owner)
	if err != nil {
		a.d.of(logApplier).Warn("read the MTU of a network", zap.String("ni", a.owner.Name), zap.Error(err))
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
			a.d.slots.markBuilt(a.owner.Number)
		}
		defer a.d.slots.enter(a.d.ctx, class)()
	}
	starting(op)
	span := a.d.tracer.Below(a.span, "op", trace.Internal)
	defer span.End()
	ctx, cancel := context.WithTimeout(a.d.ctx, op.Deadline())
	defer cancel()
	began := time.Now()
	err := a.d.host.Do(ctx, a.owner, op)
	a.trace(func() shellproto.TraceItem {
		i := shellproto.TraceItem{Depth: 2, What: op.String(), Took: time.Since(began)}
		if err != nil {
			i.Error = err.Error()
		}
		return i
	})
	if span.On() {
		span.Set("edgespan.op", string(op.Verb)+" "+string(op.Kind))
		span.Set("edgespan.objects", op.Objects())
		span.FailIf(err)
	}
	return err
}

// trace shows a step to debug shells. Without any it is not described.
func (a *applier) trace(step func() shellproto.TraceItem) {
	if !a.d.census.IsTraced() {
		return
	}
	i := step()
	i.Network, i.Where = a.owner.Name, a.owner.Name
	if a.owner.Number > 0 {
		i.Where = "ni/" + a.owner.Name
	}
	a.d.census.Step(i)
}

// startSpan starts the span of an apply, if a config with a trace is being applied.
func (a *applier) startSpan() trace.Span {
	span := a.d.tracer.Below(a.d.traced(), "reconcile", trace.Internal)
	span.Set("edgespan.network", a.owner.Name)
	a.span = span.Context()
	return span
}

// endSpan ends it, unless there was nothing to do.
func endSpan(span trace.Span, r applyResult) {
	if why := firstFailure(r); why != "" {
		span.Fail(why)
	} else if len(r.done) == 0 {
		return
	}
	if span.On() {
		span.Set("edgespan.ops", strconv.Itoa(len(r.done)))
		span.Set("edgespan.failures", strconv.Itoa(len(r.failures)))
	}
	span.End()
}

// forget starts deleting the tracked flows that match, those that the new chains deny, if validate is set; forgotten
// waits for the end. A flow that could not be deleted may live for days, so the apply counts as failed and the next one
// checks the flows again.
//
// Connections of apps that can go on no more are then ended in their namespaces: an app that waits for an answer sends
// nothing that could be reset.
func (a *applier) forget(validate bool, r applyRequest, have netstate.State, done []netstate.Op) (
	forgotten func() []netstate.OpFailure) {
	if !validate || r.forget == nil {
		return func() []netstate.OpFailure { return nil }
	}
	ctx, cancel := context.WithTimeout(a.d.ctx, forgetDeadline)
	connections := &connections{reset: r.reset, of: map[string][]netstate.Flow{}}
	denied := r.forget(have, netstate.Chains(done))
	answer := a.d.host.ForgetFlows(ctx, func(f netstate.Flow) bool { return denied(f) && connections.add(f) })
	return func() []netstate.OpFailure {
		defer cancel()
		n, err := answer()
		a.ending = append(a.ending, connections)
		if n > 0 {
			a.d.of(logApplier).Info("deleted conntrack entries of denied flows", zap.String("ni", a.owner.Name),
				zap.Int("flows", n))
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

// connections collects the flows whose connections must end, by network namespace.
type connections struct {
	mu    sync.Mutex
	reset func(netstate.Flow) string
	of    map[string][]netstate.Flow
}

func (c *connections) add(f netstate.Flow) bool {
	if c.reset == nil {
		return true
	}
	if netns := c.reset(f); netns != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.of[netns] = append(c.of[netns], f)
	}
	return true
}

// endConnections ends what was collected, once everything is as desired: an app may begin anew at once. It is best
// effort: what remains ends by the app's own time limits.
func (a *applier) endConnections() {
	of := map[string][]netstate.Flow{}
	for _, c := range a.ending {
		c.mu.Lock()
		for netns, flows := range c.of {
			of[netns] = append(of[netns], flows...)
		}
		c.mu.Unlock()
	}
	a.ending = nil
	ctx, cancel := context.WithTimeout(a.d.ctx, resetDeadline) // for all apps together: the next apply waits
	defer cancel()
	for netns, flows := range of {
		n, err := a.d.host.EndConnections(ctx, netns, flows)
		a.d.of(logApplier).Info("ended connections over a port that was left", zap.String("ni", a.owner.Name),
			zap.Int("count", n), zap.Error(err))
	}
}
