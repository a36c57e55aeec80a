package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/asynkron/protoactor-go/actor"

	nodespkg "edgespan/actors/controller/nodes"
	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/override"
)

// A controller is what the routes and the node link need.
var _ fleetapi.Backend = (*Controller)(nil)

// read does one read over the layers and all that is known now, in the turn of who asks. It ends with the question.
func read[T any](ctx context.Context, c *Controller, f func(*ops.World) (T, error)) (T, error) {
	var none T
	done, err := rest.Turn(ctx)
	if err != nil {
		return none, err
	}
	defer done()
	w, err := c.d.world(ctx)
	if err != nil {
		return none, err
	}
	w.Ended = ctx.Err
	return f(w)
}

// Config is the effective config of one node.
func (c *Controller) Config(ctx context.Context, q ops.ConfigQuery) (ops.Document, error) {
	return read(ctx, c, func(w *ops.World) (ops.Document, error) { return w.Config(q) })
}

// Paths is parts of many nodes' configs.
func (c *Controller) Paths(ctx context.Context, q ops.PathsQuery) (ops.Document, error) {
	return read(ctx, c, func(w *ops.World) (ops.Document, error) { return w.Paths(q) })
}

// Layer is one layer.
func (c *Controller) Layer(ctx context.Context, q ops.LayerQuery) (ops.Document, error) {
	return read(ctx, c, func(w *ops.World) (ops.Document, error) { return w.Layer(q) })
}

// Metadata is that of "node", "controller" or "aggregator".
func (c *Controller) Metadata(ctx context.Context, of string) (ops.Document, error) {
	return read(ctx, c, func(w *ops.World) (ops.Document, error) { return w.Describe(of) })
}

// E2E is the config of the controller or the aggregator, as this replica has it.
func (c *Controller) E2E(ctx context.Context, file string, reveal bool) (ops.Document, error) {
	return read(ctx, c, func(w *ops.World) (ops.Document, error) { return w.File(file, c.d.Replica, reveal) })
}

// Topology is the file's form.
func (c *Controller) Topology(ctx context.Context) (ops.Document, error) {
	return read(ctx, c, func(w *ops.World) (ops.Document, error) { return w.Topology() })
}

// Explain says where the values of a node's config are from.
func (c *Controller) Explain(ctx context.Context, node string, path []string) ([]history.Explanation, error) {
	return read(ctx, c, func(w *ops.World) ([]history.Explanation, error) { return w.Explain(node, path) })
}

// Diff is what changed between two revisions.
func (c *Controller) Diff(ctx context.Context, from, to uint64) ([]history.LayerDiff, error) {
	return read(ctx, c, func(w *ops.World) ([]history.LayerDiff, error) {
		r := c.d.Reader(ctx)
		a, err := history.At(r, from)
		if err != nil {
			return nil, notThere(err)
		}
		b, err := history.At(r, to)
		if err != nil {
			return nil, notThere(err)
		}
		diffs, err := history.Diff(a, b)
		if err != nil {
			return nil, err
		}
		return w.MaskDiffs(diffs)
	})
}

// defaultEditions is how many revisions a history shows where nobody says.
const defaultEditions = 50

// History is revisions, the newest first.
func (c *Controller) History(ctx context.Context, q fleetapi.HistoryQuery) ([]fleetapi.Edition, error) {
	return read(ctx, c, func(w *ops.World) ([]fleetapi.Edition, error) {
		limit := q.Limit
		if limit <= 0 {
			limit = defaultEditions
		}
		state := w.State
		if q.Before > 0 && q.Before <= state.Number {
			var err error
			if state, err = history.At(c.d.Reader(ctx), q.Before-1); err != nil {
				return nil, notThere(err)
			}
		}
		return c.editions(ctx, state, q.Layer, limit)
	})
}

func (c *Controller) editions(ctx context.Context, state history.State, layer *history.Layer,
	limit int) ([]fleetapi.Edition, error) {
	out := []fleetapi.Edition{}
	if layer != nil {
		versions, err := state.Written(*layer, limit)
		if err != nil {
			return nil, err
		}
		for _, v := range versions {
			out = append(out, editionOf(v.By, []string{v.Layer.String()}))
		}
		return out, nil
	}
	records, err := state.Log(limit)
	if err != nil {
		return nil, err
	}
	for _, record := range records {
		changed, err := history.Changed(c.d.Reader(ctx), record.Number)
		if err != nil && !errors.As(err, new(*history.NoRevisionError)) { // of the first one nobody knows what it changed
			return nil, err
		}
		layers := []string{}
		for _, l := range changed {
			layers = append(layers, l.String())
		}
		out = append(out, editionOf(record, layers))
	}
	return out, nil
}

func editionOf(r history.Record, layers []string) fleetapi.Edition {
	return fleetapi.Edition{Number: r.Number, Author: r.Author, Time: r.Time, Message: r.Message, Layers: layers}
}

// Nodes are all nodes that are known.
func (c *Controller) Nodes(ctx context.Context) ([]fleetapi.Node, error) {
	if err := c.d.upToDate(ctx); err != nil {
		return nil, err
	}
	return c.d.dir.nodes(c.d.Now(), c.d.settings()), nil
}

// Node is all that is known of one node.
func (c *Controller) Node(ctx context.Context, name string) (fleetapi.NodeDetail, error) {
	if err := c.d.upToDate(ctx); err != nil {
		return fleetapi.NodeDetail{}, err
	}
	s := c.d.dir.named(name)
	if s == nil {
		return fleetapi.NodeDetail{}, &ops.NotFoundError{What: fmt.Sprintf("node %q", name)}
	}
	pid := s.Process()
	if pid == nil {
		n := s.List(c.d.Now(), c.d.settings())
		return fleetapi.NodeDetail{
			Node: n, Explain: []string{n.State + ": " + n.Why},
			Health: []fleetapi.Item{}, Parameters: []fleetapi.Parameter{}, Actions: []fleetapi.Done{},
			Failures: []fleetapi.Failure{},
		}, nil
	}
	a, err := c.d.Request(ctx, pid, nodespkg.Describe{})
	if err != nil {
		return fleetapi.NodeDetail{}, err
	}
	return a.(fleetapi.NodeDetail), nil
}

// Rollouts are the last revisions on their way to the nodes of this replica.
func (c *Controller) Rollouts(ctx context.Context) ([]fleetapi.Rollout, error) {
	if err := c.d.upToDate(ctx); err != nil {
		return nil, err
	}
	a, err := c.d.Request(ctx, c.d.fleet, listRollouts{})
	if err != nil {
		return nil, err
	}
	return c.withStaged(ctx, a.([]fleetapi.Rollout))
}

// Ready says why no request can be served.
func (c *Controller) Ready(ctx context.Context) error {
	if err := c.d.upToDate(ctx); err != nil {
		return err
	}
	if err := c.d.Store.Sound(); err != nil {
		return fmt.Errorf("%w: read-only: the store: %w", fleetapi.ErrBusy, err)
	}
	return nil
}

// upToDate says why what this replica has in memory can't be told: while the store is away
// others may change what it holds, and an old answer looks like a new one.
func (d *deps) upToDate(ctx context.Context) error {
	if !d.dir.ready.Load() {
		return fmt.Errorf("%w: still reading the store", fleetapi.ErrBusy)
	}
	if err := d.Context.Err(); err != nil {
		return fmt.Errorf("%w: shutting down", fleetapi.ErrBusy)
	}
	if _, err := d.Reader(ctx).Get(history.HeadKey()); err != nil {
		return fmt.Errorf("%w: the store does not answer: %w", fleetapi.ErrBusy, err)
	}
	return nil
}

// Alive asks the actors that all others need, and nobody else: not the store, which may be
// away for an hour. An error is that one of them did not answer until ctx ended.
func (c *Controller) Alive(ctx context.Context) error {
	for _, who := range []*actor.PID{c.d.writes.Actor(), c.d.rollout, c.d.leader, c.d.fleet} {
		if _, err := c.d.Request(ctx, who, storage.Ping{}); err != nil {
			return err
		}
	}
	return nil
}

// Reload reads the base files again.
func (c *Controller) Reload() { c.d.Send(c.d.fleet, reload{}) }

// notThere is a revision that there is not, as the routes know it.
func notThere(err error) error {
	var none *history.NoRevisionError
	if errors.As(err, &none) {
		return &ops.NotFoundError{What: fmt.Sprintf("revision %d", none.Number),
			Allowed: "'edgespan history' lists the revisions"}
	}
	return err
}

// actionsOf are actions as the routes show them.
func actionsOf(all []metadata.Action) []fleetapi.Action {
	out := make([]fleetapi.Action, len(all))
	for i, a := range all {
		out[i] = fleetapi.Action{Name: a.Name, Keys: make([]string, len(a.Keys))}
		for j, k := range a.Keys {
			out[i].Keys[j] = config.FormatPath(k)
		}
	}
	return out
}

// Export is the seed's files as of now.
func (c *Controller) Export(ctx context.Context, reveal bool) (history.Files, uint64, error) {
	w, err := c.d.world(ctx)
	if err != nil {
		return history.Files{}, 0, err
	}
	f, err := w.State.Export()
	if err == nil {
		err = c.ownParts(w, &f)
	}
	if err != nil || reveal {
		return f, w.State.Number, err
	}
	f.Network = masked(w.Metadata, f.Network)
	f.Nodes, f.Auto = maskedNodes(w.Metadata, f.Nodes), maskedNodes(w.Metadata, f.Auto)
	f.E2E = maps.Clone(f.E2E)
	for file, o := range f.E2E {
		f.E2E[file] = masked(w.E2E[file], o)
	}
	return f, w.State.Number, nil
}

// ownParts makes the controller's files whole: what this replica keeps for itself is in a layer
// of its own.
func (c *Controller) ownParts(w *ops.World, f *history.Files) error {
	for file := range c.d.E2E {
		own, err := w.State.Layer(history.Layer{Kind: history.E2E, Name: file + "/" + c.d.Replica})
		if err != nil {
			return err
		}
		if own.Document == nil {
			continue
		}
		whole, err := w.File(file, c.d.Replica, true)
		if err != nil {
			return err
		}
		f.E2E = maps.Clone(f.E2E)
		if f.E2E == nil {
			f.E2E = map[string]config.Object{}
		}
		f.E2E[file] = whole.Object
	}
	return nil
}

// maskedNodes are documents by node with their secrets masked.
func maskedNodes(m *metadata.Metadata, nodes config.Object) config.Object {
	nodes = maps.Clone(nodes)
	for name, v := range nodes {
		if o, is := v.(config.Object); is {
			nodes[name] = masked(m, o)
		}
	}
	return nodes
}

// masked is a document with its secrets masked.
func masked(m *metadata.Metadata, o config.Object) config.Object {
	if o == nil {
		return nil
	}
	shown, _ := override.Mask(m, nil, o)
	out, _ := shown.(config.Object)
	return out
}

// FactsEnvironment is the environment of ConfigDB that the config of a node names, by the node's id; 0: none.
func (c *Controller) FactsEnvironment(ctx context.Context, id string) (int64, error) {
	s := c.d.dir.node(id)
	if s == nil {
		return 0, nil
	}
	name, _ := s.Called()
	path := []string{"sysParams", "factsEnvironment"}
	w, err := c.d.world(ctx) // without a turn: who asks may have that of the other API
	if err != nil {
		return 0, err
	}
	doc, err := w.Config(ops.ConfigQuery{Node: name, Paths: [][]string{path}})
	var missing *ops.NotFoundError
	var refused *ops.Refused
	if errors.As(err, &missing) || errors.As(err, &refused) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	v, _ := config.Lookup(doc.Object, path)
	n, _ := v.(int64) // no number names none
	return n, nil
}
