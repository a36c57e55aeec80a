package node

import (
	"context"
	"fmt"
	"maps"
	"time"

	"edgespan/actors/node/api"
	"edgespan/netinst/manager"
	"edgespan/netinst/netstate"
	"edgespan/netinst/registry"

	"github.com/asynkron/protoactor-go/actor"
)

// hostApplier is the applier of the host state. It also finds the networks that have objects on the host, since that
// blocks too.
type hostApplier struct{ applier }

func (g *hostApplier) Receive(c actor.Context) {
	_, start := c.Message().(*actor.Started)
	if _, again := c.Message().(findOwners); start || again {
		ctx, cancel := context.WithTimeout(g.d.ctx, observeDeadline)
		owners, err := g.d.host.Owners(ctx)
		cancel()
		if err != nil {
			panic(fmt.Errorf("find edgespan's networks on the host: %w", err)) // retried after the back-off
		}
		c.Send(c.Parent(), ownersFound{owners})
	}
	g.applier.Receive(c)
}

func firstFailure(r applyResult) string {
	if r.err != "" || len(r.failures) == 0 {
		return r.err
	}
	return r.failures[0].Err
}

// seqOf returns the number of an apply of the host state or of ports, which have no incarnation of their own.
func (r *processRun) seqOf(msg applyResult) manager.ApplySeq {
	return manager.ApplySeq{Epoch: r.boot << 32, N: msg.seq.N}
}

// hostApplied passes the result of an apply of the host state to the registry, and publishes what is wrong with it and
// when it is retried.
func (r *router) hostApplied(c actor.Context, msg applyResult) {
	want := r.want // the step may change it
	retry := r.step(c, registry.HostApplied{Seq: msg.seq.N, Failed: firstFailure(msg)})
	a := r.ledger.Record(want,
		manager.ApplyOutcome{Failures: msg.failures, Err: msg.err, Done: msg.done, At: time.Now(), Retry: retry})
	a.Seq = r.d.seqOf(msg)
	r.d.logApplyReport(netstate.HostOwner, "", a)
	must(r.trouble.Publish("", netstate.HostOwner, api.Trouble{Failing: a.Failing, Retry: a.Retry}))
}

// eventDelay is how long it takes until the kernel's events of an op have been received: those of changes that were
// made after an observation must be told from them.
const eventDelay = 30 * time.Millisecond

// observation is a reading of the host in another goroutine, which begins after eventDelay.
type observation struct {
	cancel context.CancelFunc // one that has not begun yet
	ended  chan struct{}
	began  time.Time
	state  netstate.State // nil if it did not begin, or failed
}

// observeBeside starts to read back what was done while a process waits for its turn and starts, or goes on with the
// reading rest; any other op makes it void. Otherwise, of many processes that start one after the other, each would
// have all objects of the host listed at its end.
func (a *applier) observeBeside(op netstate.Op, rest *observation, changed bool) *observation {
	if op.Kind != netstate.KindProcess || op.Verb == netstate.Remove {
		rest.stop()
		return nil
	}
	if rest != nil || !changed {
		return rest
	}
	ctx, cancel := context.WithCancel(a.d.ctx)
	rest = &observation{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(rest.ended)
		defer func() { _ = recover() }() // the actor reads again, and crashes alone
		select {
		case <-ctx.Done():
			return
		case <-time.After(eventDelay):
		}
		rest.began = time.Now()
		if have, err := a.observe(false); err == nil {
			rest.state = have
		}
	}()
	return rest
}

func (o *observation) stop() {
	if o != nil {
		o.cancel()
	}
}

// observeAfter reads the host after an apply, and returns when that began: all of it, or only the processes if rest has
// the others.
func (a *applier) observeAfter(rest *observation) (netstate.State, time.Time, error) {
	if rest != nil {
		rest.stop()
		<-rest.ended
	}
	if rest == nil || rest.state == nil {
		began := time.Now()
		have, err := a.observe(false)
		return have, began, err
	}
	ctx, cancel := context.WithTimeout(a.d.ctx, observeDeadline)
	defer cancel()
	now, err := a.d.host.ObserveProcesses(ctx, a.owner)
	if err != nil {
		return nil, rest.began, fmt.Errorf("observe network instance %d: %w", a.owner.Number, err)
	}
	maps.DeleteFunc(rest.state, func(id netstate.ID, _ netstate.Object) bool { return id.Kind == netstate.KindProcess })
	maps.Copy(rest.state, now)
	return rest.state, rest.began, nil
}

// check verifies what was done, and then tests it.
func (a *applier) check(want netstate.State, rest *observation) ([]netstate.OpFailure, time.Time) {
	failures, began := a.verify(want, rest)
	if len(failures) == 0 {
		failures = a.test(want)
	}
	return failures, began
}

// verify reads back the objects and names each that differs from what was just written, and when the reading began.
func (a *applier) verify(want netstate.State, rest *observation) ([]netstate.OpFailure, time.Time) {
	have, began, err := a.observeAfter(rest)
	if err != nil {
		return []netstate.OpFailure{{Observe: true, Err: err.Error()}}, began
	}
	var fs []netstate.OpFailure
	for _, op := range netstate.Diff(netstate.Claim(have, want), want) {
		for _, it := range op.Items {
			fs = append(fs, netstate.OpFailure{
				ID: it.ID(), Observe: true, Remove: it.Want == nil,
				Err: fmt.Sprintf("%s: applied, but observed different: %s", it.ID(), difference(it)),
			})
		}
	}
	return fs, began
}

// test checks whether the objects that match the desired state also work.
func (a *applier) test(want netstate.State) []netstate.OpFailure {
	ctx, cancel := context.WithTimeout(a.d.ctx, testDeadline)
	defer cancel()
	fs := a.d.host.Test(ctx, a.owner, want)
	a.testFailed = len(fs) > 0
	return fs
}

// testAgain tests the objects that match the desired state at each full observation, and at every observation while a
// test fails: other programs may cause an observation every second, which must not run the tests each time.
func (a *applier) testAgain(r applyRequest) []netstate.OpFailure {
	if !r.full && !a.testFailed {
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
