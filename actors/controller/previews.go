package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"edgespan/actors/controller/nodes"
	"edgespan/actors/controller/storage"
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/httpapi/rest"
	"edgespan/config/kv"
	"edgespan/config/layers"
)

// The states of a node in a preview.
const (
	previewPending   = "pending"
	previewUnchanged = "unchanged"
	previewUnmanaged = "unmanaged"
	previewOffline   = "offline"
	previewUnknown   = "unknown-hardware"
)

// plan is the request of a preview to all replicas: each asks the nodes whose streams it has.
type plan struct {
	Until     time.Time                       `json:"until"`
	Overrides config.Object                   `json:"overrides"` // masked
	Nodes     map[string]fleetapi.NodePreview `json:"nodes"`     // by name; nodes that are not asked
	IDs       map[string]string               `json:"ids"`       // by name; nodes that are asked
	Network   config.Object                   `json:"network,omitempty"`
	Own       map[string]config.Object        `json:"own,omitempty"` // by node name
	OfNetwork bool                            `json:"ofNetwork"`
	Lease     kv.LeaseID                      `json:"lease"`
}

// Preview asks the nodes that a write would touch which actions it would entail there.
func (c *Controller) Preview(ctx context.Context, r fleetapi.WriteRequest) (fleetapi.Preview, error) {
	w, err := c.d.snapshot(ctx)
	if err != nil {
		return fleetapi.Preview{}, err
	}
	p := plan{Until: c.d.Now().Add(c.d.settings().Preview).UTC().Truncate(time.Second),
		Nodes: map[string]fleetapi.NodePreview{}, IDs: map[string]string{}}
	var named []string
	switch x := r.Write.(type) {
	case ops.SetNetwork:
		p.Overrides, p.OfNetwork = mask(w.Metadata, x.Overrides), true
	case ops.SetNodes:
		p.Overrides = maskNodes(w.Metadata, x.Overrides)
		named = config.Keys(x.Overrides)
	default:
		return fleetapi.Preview{},
			fmt.Errorf("preview: %w: must be overrides of the network or of nodes", fleetapi.ErrRefused)
	}
	outcome, err := c.validate(ctx, w, r.Write)
	if err != nil {
		return fleetapi.Preview{}, err
	}
	p.addChange(outcome.Change)
	for _, name := range named {
		p.Nodes[name] = fleetapi.NodePreview{State: previewUnchanged, Actions: []fleetapi.Action{}}
	}
	for _, e := range outcome.Effects {
		for _, name := range e.Nodes {
			p.add(name, c.d)
		}
	}
	id := uuid.NewString()
	end, err := c.d.mayOpen(r.Caller, id, p, len(storage.Encode(p)))
	if err != nil {
		return fleetapi.Preview{}, err
	}
	if p.Lease, err = c.d.previewLease(ctx); err != nil {
		end()
		return fleetapi.Preview{}, err
	}
	if _, err := c.d.Commit(ctx,
		kv.Txn{Then: []kv.Op{kv.PutLeased(history.PreviewKey(id, storage.PreviewPlan), storage.Encode(p),
			p.Lease)}}); err != nil {
		return fleetapi.Preview{}, fmt.Errorf("preview: %w", err)
	}
	return p.result(id, nil), nil
}

// validate validates a write in the caller's turn.
func (c *Controller) validate(ctx context.Context, w *ops.Snapshot, q ops.Write) (ops.WriteOutcome, error) {
	done, err := rest.AcquireTurn(ctx)
	if err != nil {
		return ops.WriteOutcome{}, err
	}
	defer done()
	w.Ended = ctx.Err
	return w.Validate(q)
}

func (d *deps) previewLease(ctx context.Context) (kv.LeaseID, error) {
	ctx, cancel := context.WithTimeout(ctx, storage.StoreTimeout)
	defer cancel()
	id, err := d.Store.Grant(ctx, d.settings().Preview)
	if err != nil {
		return 0, fmt.Errorf("preview: %w", err)
	}
	return id, nil
}

// addChange stores the layers that the change would write.
func (p *plan) addChange(c history.Change) {
	p.Own = map[string]config.Object{}
	for l, doc := range c.Layers {
		switch l.Kind {
		case history.Network:
			p.Network = doc
		case history.Node:
			p.Own[l.Name] = doc
		default:
		}
	}
}

// add records a node that the write touches: its state, or its id if it is to be asked.
func (p *plan) add(name string, d *deps) {
	out := fleetapi.NodePreview{State: previewOffline, Actions: []fleetapi.Action{}}
	if s := d.dir.nodeByName(name); s != nil {
		n := s.List(d.Now(), d.settings())
		switch {
		case !n.Online:
			out.Why = n.Why
		case n.State == string(fleet.Unmanaged):
			out.State = previewUnmanaged
		case n.State == string(fleet.UnknownHardware):
			out.State = previewUnknown
		default:
			p.IDs[name] = n.ID
			delete(p.Nodes, name)
			return
		}
	}
	p.Nodes[name] = out
}

// result returns the preview with the answers so far, by node id.
func (p *plan) result(id string, answers map[string]fleetapi.NodePreview) fleetapi.Preview {
	out := fleetapi.Preview{ID: id, Until: p.Until, Overrides: p.Overrides, Nodes: maps.Clone(p.Nodes), Complete: true}
	for name, node := range p.IDs {
		if a, ok := answers[node]; ok {
			out.Nodes[name] = a
		} else {
			out.Nodes[name], out.Complete = fleetapi.NodePreview{State: previewPending, Actions: []fleetapi.Action{}}, false
		}
	}
	return out
}

// PreviewResult returns a preview with the answers so far.
func (c *Controller) PreviewResult(ctx context.Context, id string) (fleetapi.Preview, error) {
	entries, err := c.d.Reader(ctx).All(history.PreviewsBelow(id), 0)
	if err != nil {
		return fleetapi.Preview{}, fmt.Errorf("preview: %w", err)
	}
	var p *plan
	answers := map[string]fleetapi.NodePreview{}
	for _, e := range entries {
		names := history.KeyTexts(e.Key)
		if storage.IsPreview(e.Key) {
			p = &plan{}
			if p.parse(e.Value) != nil {
				p = nil
			}
			continue
		}
		var a fleetapi.NodePreview
		if json.Unmarshal(e.Value, &a) == nil {
			answers[names[len(names)-1]] = a
		}
	}
	if p == nil {
		return fleetapi.Preview{}, &ops.NotFoundError{What: fmt.Sprintf("preview %q", id),
			Allowed: "previews are kept for " + c.d.settings().Preview.String()}
	}
	return p.result(id, answers), nil
}

// parse reads a plan. It parses documents with package config, which preserves numbers exactly.
func (p *plan) parse(text []byte) error {
	o, faults := config.ParseObject(text)
	if len(faults) > 0 {
		return faults
	}
	if err := json.Unmarshal(text, p); err != nil {
		return fmt.Errorf("read preview: %w", err)
	}
	p.Overrides, _ = o["overrides"].(config.Object)
	p.Network, _ = o["network"].(config.Object)
	own, _ := o["own"].(config.Object)
	for name := range p.Own {
		p.Own[name], _ = own[name].(config.Object)
	}
	return nil
}

// requestPreviews asks this replica's nodes for their answers to a preview.
func (a *fleetActor) requestPreviews(e kv.Entry) {
	var p plan
	if err := p.parse(e.Value); err != nil {
		return
	}
	type one struct {
		handle *nodes.Handle
		set    layers.Set
	}
	var own []one
	for name, id := range p.IDs {
		r := a.nodes[id]
		set, has := layers.Set{}, false
		if r != nil {
			set, has = a.fleet.Layers(name)
		}
		if !has {
			continue
		}
		if p.OfNetwork {
			set[layers.Network] = p.Network
		}
		if own, ok := p.Own[name]; ok {
			set[layers.Node] = own
		}
		own = append(own, one{r.handle, set})
	}
	id := history.KeyTexts(e.Key)[0]
	a.d.Leaf("preview", func() {
		for _, o := range own {
			if effective, clashes := o.set.Effective(); clashes == nil && a.d.Context.Err() == nil {
				a.d.Send(o.handle.Process(),
					nodes.PreviewRequest{ID: id, Document: config.AppendCanonical(nil, effective), Lease: p.Lease})
			}
		}
	})
}

// Limits on the open previews of one caller, at each replica: a plan is stored until its lease ends.
const (
	maxPreviews     = 64
	maxPreviewBytes = 32 << 20
)

// previews are the open previews of this replica, by caller.
type previews struct {
	mu sync.Mutex
	of map[string][]openPreview
}

type openPreview struct {
	id    string
	until time.Time
	bytes int
}

// open counts a preview, or returns how long the caller has to wait for a free place.
func (p *previews) open(who string, now time.Time, one openPreview) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[string][]openPreview{}
	}
	for caller, all := range p.of { // one entry per name
		if all = slices.DeleteFunc(all, func(o openPreview) bool { return !now.Before(o.until) }); len(all) == 0 {
			delete(p.of, caller)
		} else {
			p.of[caller] = all
		}
	}
	all, bytes := p.of[who], one.bytes
	for _, o := range all {
		bytes += o.bytes
	}
	if len(all) > 0 && (len(all) >= maxPreviews || bytes > maxPreviewBytes) {
		next := slices.MinFunc(all, func(a, b openPreview) int { return a.until.Compare(b.until) })
		return max(next.until.Sub(now), time.Second)
	}
	p.of[who] = append(all, one)
	return 0
}

// end removes a preview that could not be stored.
func (p *previews) end(who, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[who] = slices.DeleteFunc(p.of[who], func(o openPreview) bool { return o.id == id })
}

// mayOpen counts a caller's preview and the bytes that it stores; end undoes both.
func (d *deps) mayOpen(by fleetapi.Caller, id string, p plan, bytes int) (end func(), err error) {
	if wait := d.previews.open(by.ShareKey(), d.Now(), openPreview{id, p.Until, bytes}); wait > 0 {
		return nil, storage.RateLimited(wait, "preview: %s has too many open: at most %d, of %d MiB together", by.Name,
			maxPreviews, maxPreviewBytes>>20)
	}
	release, err := d.writes.Reserve(by, bytes)
	if err != nil {
		d.previews.end(by.ShareKey(), id)
		return nil, err
	}
	return func() { d.previews.end(by.ShareKey(), id); release() }, nil
}
