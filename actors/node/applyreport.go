package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/node/api"
	"edgespan/config/events"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/netinst"
	"edgespan/netinst/manager"
	"edgespan/netinst/netstate"
	"edgespan/netinst/registry"
)

// logApplyReport writes log lines and events for the result of an apply of a network or of the host state: one for each
// change, none for a failure that persists.
func (d *deps) logApplyReport(object, name string, a manager.ApplyReport) {
	log := d.tracedLog(d.of(logApplier)).With(zap.String("object", object))
	cause := causeOf(object, a)
	record := func(e nodeapi.Event) {
		e.Cause = cause
		d.recordEvent(e)
	}
	if a.Contest != "" && !a.Contested {
		log.Warn("other programs keep changing objects of edgespan; repairs are now counted and made less often",
			zap.String("count", a.Contest))
		record(event(nodeapi.EventContested, object, name, a.Contest))
	}
	if len(a.Repaired) > 0 && !a.Contested {
		log.Info("repaired changes of other programs", zap.Strings("objects", a.Repaired))
		record(event(nodeapi.EventRepaired, object, name, strings.Join(a.Repaired, ", ")))
	}
	for _, r := range a.Repaired {
		d.work.Repaired(r)
		if p, died := strings.CutPrefix(r, "add process "); died {
			record(event(nodeapi.EventProcess, object, name, p+" died and was restarted"))
		}
	}
	for _, f := range a.Began {
		text := f.Op + " failed"
		if f.Waiting {
			text = f.Op + " waits"
			log.Info("op waits", opFields(f)...)
		} else {
			log.Warn("op failed", opFields(f)...)
			d.work.OpFailed(f.Op)
		}
		e := event(nodeapi.EventFailed, aboutOp(object, f), name, text)
		e.Op, e.Command, e.Error = f.Op, f.Command, f.Error
		record(e)
	}
	for _, f := range a.Ended {
		log.Info("op succeeded again", zap.String("op", f.Op), zap.Int("attempts", f.Attempts))
		record(event(nodeapi.EventRecovered, aboutOp(object, f), name,
			fmt.Sprintf("%s, after %d attempts", f.Op, f.Attempts)))
	}
	if fresh := a.Changes - len(a.Repaired); fresh > 0 {
		record(event(nodeapi.EventApplied, object, name, fmt.Sprintf("%d changes", fresh)))
	}
}

func opFields(f manager.FailedOp) []zap.Field {
	return []zap.Field{zap.String("op", f.Op), zap.String("command", f.Command), zap.String("err", f.Error)}
}

// causeOf returns the cause of the events of an apply.
func causeOf(object string, a manager.ApplyReport) events.Cause {
	seq := fmt.Sprintf("%d.%d.%d", a.Seq.Epoch>>32, uint32(a.Seq.Epoch), a.Seq.N)
	if uint32(a.Seq.Epoch) == 0 { // of no network: the epoch is that of the process
		seq = fmt.Sprintf("%d.%s.%d", a.Seq.Epoch>>32, object, a.Seq.N)
	}
	return events.Cause{Config: a.Generation, Apply: seq, Began: string(a.Trigger)}
}

// changed logs and records a change of the network's state. The cause is that of the apply that it follows from, or the
// config.
func (b *bridge) changed(s netinst.NetworkInstanceStatus, cause events.Cause) {
	b.d.tracedLog(b.log).Info("network instance", zap.String("from", string(b.state)), zap.String("to", string(s.State)),
		zap.String("err", s.Error))
	text := string(s.State)
	if b.state != "" {
		text = string(b.state) + " -> " + text
	}
	b.state, b.name = s.State, s.DisplayName
	e := event(nodeapi.EventState, "ni/"+b.key, b.name, text)
	e.Error, e.Cause = s.Error, cause
	c, desired := b.d.topics.NetworkConfig.Get("", b.key)
	switch {
	case cause.Config > 0:
	case desired:
		e.Cause.Config = c.Generation
	default: // the one that lacks the network
		e.Cause.Config = b.d.published.Load()
	}
	b.d.recordEvent(e)
}

// aboutOp returns the adapter that an op belongs to, or the network if it belongs to none.
func aboutOp(object string, f manager.FailedOp) string {
	if key, err := netinst.ParseAdapterKey(f.Adapter); err == nil {
		return "adapter/" + api.AdapterID(key.AppUUID.String(), key.Index)
	}
	return object
}

// hostApplier is the applier of the host state. It also finds the networks that have objects on the host, since that
// blocks too.
type hostApplier struct{ applier }

func (g *hostApplier) Receive(c actor.Context) {
	_, start := c.Message().(*actor.Started)
	if _, again := c.Message().(findOwners); start || again {
		ctx, cancel := context.WithTimeout(g.d.ctx, observeDeadline)
		owners, err := g.d.host.Owners(ctx)
		cancel()
		if err == nil || g.d.ctx.Err() == nil { // else the daemon ends
			c.Send(c.Parent(), search{owners, err})
		}
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
		manager.ApplyOutcome{Failures: msg.failures, Err: msg.err, Done: msg.done, At: r.d.now(), Retry: retry})
	a.Seq = r.d.seqOf(msg)
	r.d.logApplyReport(netstate.HostOwner, "", a)
	must(r.trouble.Publish("", netstate.HostOwner, api.Trouble{Failing: a.Failing, Retry: a.Retry}))
}
