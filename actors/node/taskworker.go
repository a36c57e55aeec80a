package node

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/config/stateloop"
	"edgespan/config/stateloop/nodestate"
	"edgespan/config/stateloop/peer"
	"edgespan/config/stateloop/peer/task"
	"edgespan/netinst/netstate"
)

// taskStep is one step for a taskWorker.
type taskStep struct {
	task.Do
	cfg nodestate.TaskConfig // of a task that must be present
}

// taskWorker is the leaf that runs the steps of one executor or check. It blocks and decides nothing.
type taskWorker struct {
	d        *deps
	id       string
	from     [2]netip.Addr // source and destination of the echoes
	answered []bool        // the last results of a check, the newest last
}

func (h *taskWorker) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		c.Send(c.Parent(), taskWorkerReady{h.id, c.Self()})
	case taskStep:
		ctx, cancel := context.WithTimeout(h.d.ctx, msg.Step.Timeout())
		defer cancel()
		a := task.Answered{ID: h.id, Seq: msg.Seq}
		a.Found, a.Reason = h.step(ctx, msg)
		a.At = time.Now()
		c.Send(c.Parent(), a)
	}
}

func (h *taskWorker) step(ctx context.Context, s taskStep) (task.Found, string) {
	absent := s.Target == stateloop.ToBeAbsent
	switch {
	case s.cfg.Kind == peer.KindCheck && !absent:
		return h.probePeer(ctx, s.cfg.Check)
	case s.Step == task.Make:
		return foundOf(s.Step, h.d.executors.Make(ctx, executorOf(h.id, s.cfg.Executor)))
	case s.Step == task.Remove:
		return foundOf(s.Step, h.d.executors.Remove(ctx, h.id))
	case absent:
		has, err := h.d.executors.Has(ctx, h.id)
		if err != nil {
			return foundOf(s.Step, err)
		}
		if has {
			return task.Present, ""
		}
		return task.Absent, ""
	}
	ok, why, err := h.d.executors.Check(ctx, executorOf(h.id, s.cfg.Executor))
	if err != nil {
		return foundOf(s.Step, err)
	}
	return map[netstate.Condition]task.Found{
		netstate.Missing: task.Absent, netstate.Running: task.Busy, netstate.AsDesired: task.Present,
		netstate.Failed: task.Broken,
	}[ok], why
}

// foundOf translates the error of a step, or its absence, into a result.
func foundOf(step task.Step, err error) (task.Found, string) {
	switch {
	case err == nil:
		return task.Well, ""
	case errors.Is(err, context.DeadlineExceeded):
		return task.Failed, fmt.Sprintf("given up after %v: %v", step.Timeout(), err)
	}
	return task.Failed, err.Error()
}

func executorOf(id string, v peer.ExecutorValue) netstate.Executor {
	return netstate.Executor{ID: id, Unit: v.Unit, Argv: v.Command, Env: v.Env, Dir: v.Dir,
		Once: v.Restart == peer.RestartNever}
}

// Parameters of a connection check: the connection is up while one of the last echoes was answered.
const (
	lastEchoes  = 3
	echoTimeout = time.Second
)

// probePeer probes the other end of a tunnel, over the underlay.
func (h *taskWorker) probePeer(ctx context.Context, v peer.CheckValue) (task.Found, string) {
	for _, end := range []struct {
		whose string
		addr  netip.Addr
	}{{"of this node", v.Local}, {"of " + v.Peer, v.Remote}} {
		if !end.addr.IsValid() {
			return task.Waiting, "the underlay's address " + end.whose + " is not known"
		}
	}
	if ends := [2]netip.Addr{v.Local, v.Remote}; ends != h.from {
		h.from, h.answered = ends, nil
	}
	why := ""
	for {
		one, cancel := context.WithTimeout(ctx, echoTimeout)
		_, err := h.d.echo(one, v.Local, v.Remote)
		cancel()
		h.answered = append(h.answered, err == nil)
		h.answered = h.answered[max(0, len(h.answered)-lastEchoes):]
		lost := 0
		for _, answered := range h.answered {
			if !answered {
				lost++
			}
		}
		if err != nil {
			why = err.Error()
		}
		switch {
		case lost < len(h.answered):
			return task.Present, ""
		case len(h.answered) == lastEchoes || ctx.Err() != nil:
			return task.Absent, fmt.Sprintf("%s does not answer: %d of the last %d echo requests were lost: %s", v.Peer, lost,
				len(h.answered), why)
		}
	}
}
