package node

import (
	"context"
	"fmt"
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
