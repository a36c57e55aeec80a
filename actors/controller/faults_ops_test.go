package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
)

// begin records a request and carries it out concurrently with the history.
func (w *faulty) begin(o *sent, c *Controller, do func(context.Context) (fleetapi.Written, error)) {
	limit := time.Duration(1+w.rand.IntN(30)) * time.Second
	if w.brief {
		limit = min(limit, 10*time.Second)
	}
	w.mu.Lock()
	o.id = len(w.ops)
	w.ops = append(w.ops, o)
	w.moments++
	o.began, o.first = w.moments, w.s.newest()
	w.mu.Unlock()
	if o.message == "" {
		o.message = fmt.Sprintf("op %d", o.id)
	}
	what := fmt.Sprintf("%+v", o.write)
	w.note("op %d: %s asks %s: %s %s, bound to %v, dry %v", o.id, o.by.Name, c.d.Replica, o.what,
		what[:min(len(what), 200)], o.ifMatch, o.dry)
	w.work.Go(func() {
		ctx, cancel := context.WithTimeout(w.Context(), limit)
		defer cancel()
		out, err := do(ctx)
		w.note("op %d: %d, changed %v, %v", o.id, out.Revision, out.Changed, err)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.moments++
		o.ended, o.last, o.out, o.err = w.moments, w.s.newest(), out, err
	})
}

// ask requests a write. A write of a layer may be conditional on the revision that the operator has seen.
func (w *faulty) ask(by fleetapi.Caller, what string, x ops.Write, layer *history.Layer) {
	o := &sent{by: by, what: what, write: x, dry: w.rand.IntN(20) == 0 && what != "topology" && what != "flag" &&
		what != "last"}
	if layer != nil && w.rand.IntN(3) == 0 {
		o.ifMatch = map[history.Layer]uint64{*layer: w.seen(*layer)}
	}
	c := w.some()
	w.begin(o, c, func(ctx context.Context) (fleetapi.Written, error) {
		return c.Write(ctx, fleetapi.WriteRequest{Caller: by, Write: x, Message: o.message, IfMatch: o.ifMatch,
			DryRun: o.dry})
	})
}

// seen returns the revision of a layer as last read.
func (w *faulty) seen(l history.Layer) uint64 {
	state, err := history.At(storage.NewReader(w.Context(), w.s.Store), w.audit.head)
	if err == nil {
		var v history.Version
		if v, err = state.Layer(l); err == nil {
			return v.Revision
		}
	}
	w.Error(err)
	return 0
}

// command sends a command to the newest rollout.
func (w *faulty) command(by fleetapi.Caller, what fleetapi.RolloutCommand) {
	number := w.audit.last()
	if number == 0 {
		return
	}
	c := w.some()
	w.begin(&sent{by: by, what: fmt.Sprintf("%s rollout %d", what, number), command: what, rollout: number}, c,
		func(ctx context.Context) (fleetapi.Written, error) {
			return fleetapi.Written{}, c.CommandRollout(ctx, by, number, what)
		})
}

func (w *faulty) commandNode() {
	n, c := w.one(), w.some()
	what := []fleetapi.Command{fleetapi.Retry, fleetapi.Release, fleetapi.Confirm}[w.rand.IntN(3)]
	w.begin(&sent{by: alice, what: fmt.Sprintf("%s %s", what, n.name)}, c,
		func(ctx context.Context) (fleetapi.Written, error) {
			return fleetapi.Written{}, c.Command(ctx, alice, n.name, what)
		})
}

// readHead reads the newest revision.
func (w *faulty) readHead() {
	c := w.some()
	w.begin(&sent{by: bob, what: "read"}, c, func(ctx context.Context) (fleetapi.Written, error) {
		all, err := c.History(ctx, fleetapi.HistoryQuery{Limit: 1})
		if err != nil || len(all) == 0 {
			return fleetapi.Written{}, errors.Join(err, errNothingRead)
		}
		return fleetapi.Written{Revision: all[0].Number}, nil
	})
}

var errNothingRead = errors.New("nothing was read")

// refused reports whether an error means that nothing was done.
func refused(err error) bool {
	var conflicts history.Conflicts
	var faults config.Faults
	var none *ops.NotFoundError
	var revision *history.NoRevisionError
	return errors.As(err, &conflicts) || errors.As(err, &faults) || errors.As(err, &none) || errors.As(err, &revision) ||
		errors.Is(err, fleetapi.ErrRefused)
}
