package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/controller/nodes"
	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/bisect"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
)

// canary is a node on which a search tests configs.
type canary struct {
	entry kv.Entry
	pin   string // revision and search of the test whose config the node shall have; "" for none
	by    string // who pushes it, for people
	name  string // of the node whose trial has begun
	trial *fleet.Trial
}

// trialRead is the layers as of the revision that a search tests.
type trialRead struct {
	id, pin   string
	candidate bisect.Candidate
	trial     fleet.Trial
	err       error
}

// setBisect follows the search of a node: the node's actor gets it, and the layers that it tests are read. A test whose
// layers can't be read within its time limit ends without a verdict.
func (a *fleetActor) setBisect(c actor.Context, e kv.Event, id string) {
	k := a.bisects[id]
	if k == nil {
		k = &canary{}
		a.bisects[id] = k
	}
	if k.entry = e.Entry; e.Kind != kv.EventPut {
		k.entry.Value = nil
	}
	if r := a.nodes[id]; r != nil {
		c.Send(r.pid, nodes.BisectChanged{Entry: k.entry})
	}
	record := storage.ValueOf[bisect.Record](e)
	candidate, tests := record.Pin()
	pin := ""
	if tests {
		pin = fmt.Sprint(candidate.Revision, " ", record.Began)
	}
	if e.Kind != kv.EventPut {
		delete(a.bisects, id)
	}
	switch {
	case pin == k.pin:
	case !tests:
		k.pin, k.trial = "", nil
		a.publishTrial(c, k.name, nil)
	default:
		k.pin, k.by = pin, fmt.Sprintf("a bisect by %s, which tests revision %d", record.By, candidate.Revision)
		a.readTrial(trialRead{id: id, pin: pin, candidate: candidate, trial: fleet.Trial{Undo: record.Timeout}})
	}
}

func (a *fleetActor) readTrial(m trialRead) {
	a.d.Leaf("trial", func() {
		m.err = a.d.readTrial(m.candidate, &m.trial)
		a.d.Send(a.self, m)
	})
}

// readTrial is the leaf that reads the layers of a candidate.
func (d *deps) readTrial(c bisect.Candidate, into *fleet.Trial) error {
	state, err := history.At(d.Reader(d.Context), c.Revision)
	if err != nil {
		return err
	}
	versions, err := state.Layers(history.Layer{Kind: history.Network}, history.Layer{Kind: history.Auto, Name: c.As},
		history.Layer{Kind: history.Node, Name: c.As})
	if err != nil {
		return err
	}
	into.Network, into.Auto, into.Own = versions[0].Document, versions[1].Document, versions[2].Document
	return nil
}

// setTrial begins the test of layers that were read, if it is still wanted.
func (a *fleetActor) setTrial(c actor.Context, m trialRead) {
	k := a.bisects[m.id]
	switch {
	case k == nil || k.pin != m.pin:
	case a.fleet == nil:
		a.d.After(storage.StoreBackoff, func() { a.d.Send(a.self, m) })
	case m.err != nil:
		a.d.Log.Warn("read the layers that a bisect tests", zap.String("node", m.id), zap.Error(m.err))
		a.d.After(storage.StoreBackoff, func() { a.readTrial(m) }) // until the test ends
	default:
		k.name, k.trial = a.members[m.id].Name, &m.trial
		a.publishTrial(c, k.name, k.trial)
	}
}

// renameTrials moves the trials of renamed nodes, by id, before the fleet knows the nodes by their new names.
func (a *fleetActor) renameTrials(c actor.Context, ids []string) {
	for _, id := range ids {
		if k := a.bisects[id]; k != nil {
			a.publishTrial(c, k.name, nil)
		}
	}
	for _, id := range ids {
		if k := a.bisects[id]; k != nil {
			k.name = a.members[id].Name
			a.publishTrial(c, k.name, k.trial)
		}
	}
}

// publishTrial sends a node the config of a trial, or after it (nil) the one that it should have.
func (a *fleetActor) publishTrial(c actor.Context, name string, t *fleet.Trial) {
	if a.fleet == nil {
		return
	}
	touched, err := a.fleet.SetTrial(name, t)
	if err != nil {
		a.d.Fail(fmt.Errorf("number the config of a trial: %w", err))
	}
	for _, one := range touched {
		a.publishTouched(c, map[string]fleet.Touched{one.Node: one}, nil)
	}
}

// StartBisect begins a search. Its candidates are computed here; the replica with the canary's stream does the rest.
func (c *Controller) StartBisect(ctx context.Context, by fleetapi.Caller, q bisect.Request) (fleetapi.Bisect, error) {
	q = q.WithDefaults()
	record, err := read(ctx, c, func(w *ops.Snapshot) (*bisect.Record, error) {
		if err := ops.RefuseRequest(q.Check(w.State.Number, c.fitForBisect)); err != nil {
			return nil, err
		}
		candidates, err := w.Candidates(q, c.d.Reader(ctx))
		if err != nil {
			return nil, err
		}
		detail, err := c.Node(ctx, q.Canary)
		if err != nil {
			return nil, err
		}
		past := map[string]bisect.Past{}
		for _, f := range detail.Failures {
			past[f.MD5] = bisect.Past{Reason: fleet.Reason(f.Reason), Why: f.Why, At: f.At}
		}
		return q.New(c.d.Now(), storage.Author(by), candidates, past), nil
	})
	if err != nil {
		return fleetapi.Bisect{}, err
	}
	if len(storage.Encode(record)) > bisect.MaxRecord {
		return fleetapi.Bisect{}, refuseLargeSearch()
	}
	canary := c.d.dir.nodeByName(q.Canary)
	if canary == nil { // forgotten meanwhile
		return fleetapi.Bisect{}, &ops.NotFoundError{What: fmt.Sprintf("node %q", q.Canary)}
	}
	_, id := canary.Names()
	err = c.d.changeBisect(ctx, id, func(old *bisect.Record) (*bisect.Record, error) {
		if old != nil && old.Phase != bisect.Ended {
			return nil, fmt.Errorf("bisect on %s: %w: %s has begun one at %s: wait for its end, or run 'edgespan bisect "+
				"abort %s'", q.Canary, fleetapi.ErrRefused, old.By, old.Began.Format("15:04:05"), q.Canary)
		}
		return record, nil
	})
	return fleetapi.NewBisect(record), err
}

func refuseLargeSearch() error {
	return ops.RefuseRequest(config.Faults{{Path: []string{"good"}, Problem: "too many revisions for one search",
		Expectation: "must be nearer to the bad revision"}})
}

// fitForBisect says whether a node has joined, and why it can't test configs.
func (c *Controller) fitForBisect(name string) (known bool, unfit string) {
	s := c.d.dir.nodeByName(name)
	if s == nil {
		return false, ""
	}
	if _, id := s.Names(); id == "" {
		return false, ""
	}
	n := s.List(c.d.Now(), c.d.settings())
	switch state := fleet.State(n.State); {
	case state == fleet.Offline, state == fleet.NoReport, state.NeedsOperator() && state != fleet.RolledBack:
		return true, fmt.Sprintf("it is %s: %s", n.State, n.Why)
	}
	return true, ""
}

// AbortBisect ends the search of a node.
func (c *Controller) AbortBisect(ctx context.Context, by fleetapi.Caller, node string) error {
	s := c.d.dir.nodeByName(node)
	if s == nil {
		return &ops.NotFoundError{What: fmt.Sprintf("node %q", node)}
	}
	_, id := s.Names()
	return c.d.changeBisect(ctx, id, func(r *bisect.Record) (*bisect.Record, error) {
		if r == nil || !r.Abort(storage.Author(by)) {
			return nil, fmt.Errorf("abort the bisect on %s: %w: none is testing", node, fleetapi.ErrRefused)
		}
		return r, nil
	})
}

// changeBisect changes the record of a node's search.
func (d *deps) changeBisect(ctx context.Context, id string, change func(*bisect.Record) (*bisect.Record, error)) error {
	for range maxTries {
		entries, err := d.Reader(ctx).Get(history.BisectKey(id))
		if err != nil {
			return err
		}
		var old *bisect.Record
		if e := entries[0]; e.Exists() {
			old = &bisect.Record{}
			if err := json.Unmarshal(e.Value, old); err != nil {
				d.Log.Error("read the search on a node: another one replaces it", zap.String("node", id), zap.Error(err))
				old = nil
			}
		}
		record, err := change(old)
		if err != nil {
			return err
		}
		at := kv.AtRevision(history.BisectKey(id), entries[0].ModRevision)
		o, err := d.Commit(ctx, kv.Txn{Compares: []kv.Compare{at, kv.Exists(history.NodeKey(id))},
			Then: []kv.Op{kv.Put(at.Key, storage.Encode(record))}})
		switch {
		case errors.Is(err, kv.ErrTooLarge):
			return refuseLargeSearch()
		case err != nil:
			return fmt.Errorf("store the search: %w", err)
		case o.Succeeded:
			return nil
		}
	}
	return errMoved
}

// Bisects returns the last search of each canary, the newest first.
func (c *Controller) Bisects(ctx context.Context) ([]fleetapi.Bisect, error) {
	if err := c.d.checkUpToDate(ctx); err != nil {
		return nil, err
	}
	entries, err := c.d.Reader(ctx).All(history.InBisects, 0)
	if err != nil {
		return nil, err
	}
	out := []fleetapi.Bisect{}
	for _, e := range entries {
		var r bisect.Record
		if err := json.Unmarshal(e.Value, &r); err != nil {
			c.d.Log.Error("read the search on a node: it is left out", zap.String("key", string(e.Key)), zap.Error(err))
			continue
		}
		b := fleetapi.NewBisect(&r)
		if id := history.KeyTexts(e.Key); len(id) > 0 {
			if s := c.d.dir.node(id[0]); s != nil {
				b.Node, _ = s.Names() // it may have been renamed
			}
		}
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b fleetapi.Bisect) int { return b.Began.Compare(a.Began) })
	return out, nil
}
