package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"edgespan/actors/controller/metrics"
	nodespkg "edgespan/actors/controller/nodes"
	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/override"
)

var _ fleetapi.Backend = (*Controller)(nil)

// read calls f with the current layers and nodes, in the caller's turn. It stops when ctx ends.
func read[T any](ctx context.Context, c *Controller, f func(*ops.Snapshot) (T, error)) (T, error) {
	var none T
	done, err := rest.AcquireTurn(ctx)
	if err != nil {
		return none, err
	}
	defer done()
	w, err := c.d.snapshot(ctx)
	if err != nil {
		return none, err
	}
	w.Ended = ctx.Err
	return f(w)
}

// Config returns the effective config of one node.
func (c *Controller) Config(ctx context.Context, q ops.ConfigQuery) (ops.DocumentAnswer, error) {
	return read(ctx, c, func(w *ops.Snapshot) (ops.DocumentAnswer, error) { return w.Config(q) })
}

// Paths returns parts of the configs of many nodes.
func (c *Controller) Paths(ctx context.Context, q ops.PathsQuery) (ops.DocumentAnswer, error) {
	return read(ctx, c, func(w *ops.Snapshot) (ops.DocumentAnswer, error) { return w.Paths(q) })
}

// Layer returns one layer.
func (c *Controller) Layer(ctx context.Context, q ops.LayerQuery) (ops.DocumentAnswer, error) {
	return read(ctx, c, func(w *ops.Snapshot) (ops.DocumentAnswer, error) { return w.Layer(q) })
}

// Metadata returns the metadata of "node", "controller" or "aggregator".
func (c *Controller) Metadata(ctx context.Context, of string) (ops.DocumentAnswer, error) {
	return read(ctx, c, func(w *ops.Snapshot) (ops.DocumentAnswer, error) { return w.Describe(of) })
}

// E2E returns the config of the controller or the aggregator, as this replica has it.
func (c *Controller) E2E(ctx context.Context, file string, reveal bool) (ops.DocumentAnswer, error) {
	return read(ctx, c, func(w *ops.Snapshot) (ops.DocumentAnswer, error) { return w.File(file, c.d.Replica, reveal) })
}

// Topology returns the topology in the form of its file.
func (c *Controller) Topology(ctx context.Context) (ops.DocumentAnswer, error) {
	return read(ctx, c, func(w *ops.Snapshot) (ops.DocumentAnswer, error) { return w.Topology() })
}

// Explain reports which layer each value of a node's config comes from.
func (c *Controller) Explain(ctx context.Context, node string, path []string) ([]history.ValueHistory, error) {
	return read(ctx, c, func(w *ops.Snapshot) ([]history.ValueHistory, error) { return w.Explain(node, path) })
}

// Diff returns what changed between two revisions.
func (c *Controller) Diff(ctx context.Context, from, to uint64) ([]history.LayerDiff, error) {
	return read(ctx, c, func(w *ops.Snapshot) ([]history.LayerDiff, error) {
		r := c.d.Reader(ctx)
		a, err := history.At(r, from)
		if err != nil {
			return nil, revisionError(err)
		}
		b, err := history.At(r, to)
		if err != nil {
			return nil, revisionError(err)
		}
		diffs, err := history.Diff(a, b)
		if err != nil {
			return nil, err
		}
		return w.MaskDiffs(diffs)
	})
}

// defaultEditions is how many revisions History returns without a limit.
const defaultEditions = 50

// History lists revisions, newest first.
func (c *Controller) History(ctx context.Context, q fleetapi.HistoryQuery) ([]fleetapi.Edition, error) {
	return read(ctx, c, func(w *ops.Snapshot) ([]fleetapi.Edition, error) {
		limit := q.Limit
		if limit <= 0 {
			limit = defaultEditions
		}
		state := w.State
		if q.Before > 0 && q.Before <= state.Number {
			var err error
			if state, err = history.At(c.d.Reader(ctx), q.Before-1); err != nil {
				return nil, revisionError(err)
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
			out = append(out, newEdition(v.By, []string{v.Layer.String()}))
		}
		return out, nil
	}
	records, err := state.Log(limit)
	if err != nil {
		return nil, err
	}
	for _, record := range records {
		changed, err := history.ChangedLayers(c.d.Reader(ctx), record.Number)
		if err != nil && !errors.As(err, new(*history.NoRevisionError)) { // its predecessor was pruned
			return nil, err
		}
		layers := []string{}
		for _, l := range changed {
			layers = append(layers, l.String())
		}
		out = append(out, newEdition(record, layers))
	}
	return out, nil
}

func newEdition(r history.RevisionRecord, layers []string) fleetapi.Edition {
	return fleetapi.Edition{Number: r.Number, Author: r.Author, Time: r.Time, Message: r.Message, Layers: layers}
}

// Nodes lists all known nodes.
func (c *Controller) Nodes(ctx context.Context) ([]fleetapi.Node, error) {
	if err := c.d.checkUpToDate(ctx); err != nil {
		return nil, err
	}
	return c.d.dir.nodes(c.d.Now(), c.d.settings()), nil
}

// CountNodes counts the nodes by what is known of them now. It asks no actor and no store.
func (c *Controller) CountNodes() metrics.Fleet {
	f := c.d.dir.count(c.d.Now(), c.d.settings())
	f.Rollout = c.d.Last()
	return f
}

func (d *directory) count(now time.Time, set fleet.Settings) metrics.Fleet {
	out := metrics.Fleet{States: map[fleet.State]int{}}
	for _, h := range d.handles() {
		n := h.List(now, set)
		out.States[fleet.State(n.State)]++
		if n.Online {
			out.Online++
		}
		if n.Ready {
			out.Ready++
		}
		if n.Online && fleet.State(n.State) != fleet.OtherReplica {
			out.Streams++
		}
	}
	return out
}

// Node returns everything known of one node.
func (c *Controller) Node(ctx context.Context, name string) (fleetapi.NodeDetail, error) {
	if err := c.d.checkUpToDate(ctx); err != nil {
		return fleetapi.NodeDetail{}, err
	}
	s := c.d.dir.nodeByName(name)
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

// Rollouts lists the last revisions on their way to the nodes of this replica, and staged rollouts.
func (c *Controller) Rollouts(ctx context.Context) ([]fleetapi.Rollout, error) {
	if err := c.d.checkUpToDate(ctx); err != nil {
		return nil, err
	}
	a, err := c.d.Request(ctx, c.d.fleet, listRollouts{})
	if err != nil {
		return nil, err
	}
	return c.withStaged(ctx, a.([]fleetapi.Rollout))
}

// Ready reports why no request can be served.
func (c *Controller) Ready(ctx context.Context) error {
	if err := c.d.checkUpToDate(ctx); err != nil {
		return err
	}
	if err := c.d.Store.CheckWritable(); err != nil {
		return fmt.Errorf("%w: read-only: the store: %w", fleetapi.ErrBusy, err)
	}
	return nil
}

// checkUpToDate reports why this replica must not answer from memory: while the store is away, other replicas may
// change it, and a stale answer looks like a current one.
func (d *deps) checkUpToDate(ctx context.Context) error {
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

// Alive pings the actors that all others need. It does not ask the store, which may be away for an hour. It returns an
// error if one of them does not answer before ctx ends.
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

// revisionError turns a missing revision into the routes' error for it.
func revisionError(err error) error {
	var none *history.NoRevisionError
	if errors.As(err, &none) {
		return &ops.NotFoundError{What: fmt.Sprintf("revision %d", none.Number),
			Allowed: "'edgespan history' lists the revisions"}
	}
	return err
}

// actionsOf converts actions to their form in the API.
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

// Export returns the current state as the seed's files.
func (c *Controller) Export(ctx context.Context, reveal bool) (history.Files, uint64, error) {
	w, err := c.d.snapshot(ctx)
	if err != nil {
		return history.Files{}, 0, err
	}
	f, err := w.State.Export()
	if err == nil {
		err = c.addOwnParts(w, &f)
	}
	if err != nil || reveal {
		return f, w.State.Number, err
	}
	f.Network = mask(w.Metadata, f.Network)
	f.Nodes, f.Auto = maskNodes(w.Metadata, f.Nodes), maskNodes(w.Metadata, f.Auto)
	f.E2E = maps.Clone(f.E2E)
	for file, o := range f.E2E {
		f.E2E[file] = mask(w.E2E[file], o)
	}
	return f, w.State.Number, nil
}

// addOwnParts completes the controller's files with this replica's own parts, which are in a separate layer.
func (c *Controller) addOwnParts(w *ops.Snapshot, f *history.Files) error {
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

// maskNodes masks the secrets of documents by node.
func maskNodes(m *metadata.Metadata, nodes config.Object) config.Object {
	nodes = maps.Clone(nodes)
	for name, v := range nodes {
		if o, ok := v.(config.Object); ok {
			nodes[name] = mask(m, o)
		}
	}
	return nodes
}

// mask masks the secrets of a document.
func mask(m *metadata.Metadata, o config.Object) config.Object {
	if o == nil {
		return nil
	}
	shown, _ := override.Mask(m, nil, o)
	out, _ := shown.(config.Object)
	return out
}

// FactsEnvironment returns the environment of ConfigDB that a node's config names, by the node's id; 0 for none.
func (c *Controller) FactsEnvironment(ctx context.Context, id string) (int64, error) {
	s := c.d.dir.node(id)
	if s == nil {
		return 0, nil
	}
	name, _ := s.Names()
	path := []string{"sysParams", "factsEnvironment"}
	w, err := c.d.snapshot(ctx) // without a turn: the caller may hold one of the other API
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
	n, _ := v.(int64) // 0 if it is not a number
	return n, nil
}
