package clitest

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/backup"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/schema"
	"edgespan/platform/confdir"
)

// moduleRoot returns the folder of go.mod.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("there is no go.mod above this test")
	return ""
}

// Terragraph returns the folder of the seed's real files.
func Terragraph(t *testing.T) string {
	t.Helper()
	return filepath.Join(moduleRoot(t), "config/testdata/terragraph")
}

// LayersBackend is a controller with the real operations on layers, a store in memory, and the real metadata and base
// versions. Only its nodes are fake.
type LayersBackend struct {
	*FleetBackend

	turn       sync.Mutex
	store      ModelReader
	Operations ops.Snapshot // each request replaces State by the store's
}

var _ fleetapi.Backend = (*LayersBackend)(nil)

// ModelReader reads a store in memory.
type ModelReader struct{ *kv.Model }

func (s ModelReader) Get(keys ...kv.Key) ([]kv.Entry, error) {
	out := make([]kv.Entry, len(keys))
	for i, key := range keys {
		e, _, err := s.Model.Get(key)
		if err != nil {
			return nil, err
		}
		e.Key, out[i] = key, e
	}
	return out, nil
}

// Backup writes a real backup of the store.
func (b *LayersBackend) Backup(_ context.Context, version string) (func(context.Context, io.Writer) error, error) {
	s, err := backup.Open(b.store, backup.Header{Version: version, Store: "6a0c0f2e-0000-4000-8000-000000000001"})
	return func(_ context.Context, out io.Writer) error { return s.Write(b.store, out) }, err
}

// NewWorld returns a world whose nodes are node-1 and node-2 of the real topology. Both have reported.
func NewWorld(t *testing.T) *LayersBackend {
	t.Helper()
	base, err := filepath.Abs(filepath.Join(Terragraph(t), "base_versions")) // the test may change its folder
	if err != nil {
		t.Fatal(err)
	}
	dir, err := confdir.Open(base)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(Terragraph(t), "config_metadata.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, faults := config.ParseObject(text)
	if faults != nil {
		t.Fatal(faults)
	}
	b := &LayersBackend{FleetBackend: SmallFleet(), store: ModelReader{kv.NewModel()}}
	b.Operations = ops.Snapshot{
		Hardware: fleet.Hardware{Library: dir.Library},
		Layers:   func(k fleet.Kind) (layers.Set, error) { return dir.Read(k.Choice) },
		Metadata: parsed(t, doc, false), MaskKey: []byte("key"),
		E2E: map[string]*metadata.Metadata{"controller": parsed(t, schema.ControllerMetadata(), true),
			"aggregator": parsed(t, schema.AggregatorMetadata(), true)},
		Nodes: map[string]ops.NodeFact{},
	}
	for _, name := range []string{"node-1", "node-2"} {
		b.Operations.Nodes[name] = ops.NodeFact{Versions: layers.Versions{Software: "RELEASE_M81", Firmware: "10.11.0"},
			Reported: true, Alive: true, ID: "id of " + name}
	}
	return b
}

func parsed(t *testing.T, doc config.Object, e2e bool) *metadata.Metadata {
	t.Helper()
	m, faults := metadata.Parse(doc, metadata.Options{E2E: e2e})
	if faults != nil {
		t.Fatal(faults)
	}
	return m
}

// now returns the world at the newest revision.
func (b *LayersBackend) now() (*ops.Snapshot, error) {
	state, err := history.Head(b.store)
	w := b.Operations
	w.State = state
	return &w, err
}

// Read reads from the world at the newest revision.
func Read[T any](b *LayersBackend, f func(*ops.Snapshot) (T, error)) (T, error) {
	b.turn.Lock()
	defer b.turn.Unlock()
	w, err := b.now()
	if err != nil {
		var none T
		return none, err
	}
	return f(w)
}

func (b *LayersBackend) Config(_ context.Context, q ops.ConfigQuery) (ops.DocumentAnswer, error) {
	return Read(b, func(w *ops.Snapshot) (ops.DocumentAnswer, error) { return w.Config(q) })
}

func (b *LayersBackend) Paths(_ context.Context, q ops.PathsQuery) (ops.DocumentAnswer, error) {
	return Read(b, func(w *ops.Snapshot) (ops.DocumentAnswer, error) { return w.Paths(q) })
}

func (b *LayersBackend) Layer(_ context.Context, q ops.LayerQuery) (ops.DocumentAnswer, error) {
	return Read(b, func(w *ops.Snapshot) (ops.DocumentAnswer, error) { return w.Layer(q) })
}

func (b *LayersBackend) Metadata(_ context.Context, of string) (ops.DocumentAnswer, error) {
	return Read(b, func(w *ops.Snapshot) (ops.DocumentAnswer, error) { return w.Describe(of) })
}

func (b *LayersBackend) E2E(_ context.Context, file string, reveal bool) (ops.DocumentAnswer, error) {
	return Read(b, func(w *ops.Snapshot) (ops.DocumentAnswer, error) { return w.File(file, "", reveal) })
}

func (b *LayersBackend) Topology(context.Context) (ops.DocumentAnswer, error) {
	return Read(b, func(w *ops.Snapshot) (ops.DocumentAnswer, error) { return w.Topology() })
}

func (b *LayersBackend) Explain(_ context.Context, node string, path []string) ([]history.ValueHistory, error) {
	return Read(b, func(w *ops.Snapshot) ([]history.ValueHistory, error) { return w.Explain(node, path) })
}

func (b *LayersBackend) History(_ context.Context, q fleetapi.HistoryQuery) ([]fleetapi.Edition, error) {
	return Read(b, func(w *ops.Snapshot) ([]fleetapi.Edition, error) {
		records, err := w.State.Log(0)
		var out []fleetapi.Edition
		for _, r := range records {
			if q.Before > 0 && r.Number >= q.Before || q.Limit > 0 && len(out) == q.Limit {
				continue
			}
			e := fleetapi.Edition{Number: r.Number, Author: r.Author, Time: r.Time, Message: r.Message}
			changed, err := history.ChangedLayers(b.store, r.Number)
			if err != nil {
				return nil, err
			}
			hit := q.Layer == nil
			for _, layer := range changed {
				e.Layers = append(e.Layers, layer.String())
				hit = hit || layer == *q.Layer
			}
			if hit {
				out = append(out, e)
			}
		}
		return out, err
	})
}

func (b *LayersBackend) Diff(_ context.Context, from, to uint64) ([]history.LayerDiff, error) {
	return Read(b, func(w *ops.Snapshot) ([]history.LayerDiff, error) {
		before, err := history.At(b.store, from)
		if err != nil {
			return nil, err
		}
		after, err := history.At(b.store, to)
		if err != nil {
			return nil, err
		}
		diffs, err := history.Diff(before, after)
		if err != nil {
			return nil, err
		}
		return w.MaskDiffs(diffs)
	})
}

func (b *LayersBackend) Write(_ context.Context, r fleetapi.WriteRequest) (fleetapi.Written, error) {
	return Read(b, func(w *ops.Snapshot) (fleetapi.Written, error) {
		out, err := w.Validate(r.Write)
		if err != nil {
			return fleetapi.Written{}, err
		}
		done := writtenOf(out)
		done.Revision, done.DryRun = w.State.Number, r.DryRun
		c := out.Change
		c.Author, c.Message, c.IfMatch = r.Caller.Name, r.Message, r.IfMatch
		c.Time = time.Date(2026, 11, 21, 13, int(w.State.Number), 0, 0, time.UTC)
		plan, err := w.State.Plan(c)
		if err != nil || r.DryRun {
			return done, err
		}
		for _, txn := range plan.Txns {
			if o, err := b.store.Commit(txn); err != nil || !o.Succeeded {
				return done, fmt.Errorf("commit: %v %w", o.Succeeded, err)
			}
		}
		done.Revision = plan.Record.Number
		return done, nil
	})
}

// writtenOf converts an outcome to its form in the API.
func writtenOf(o ops.WriteOutcome) fleetapi.Written {
	w := fleetapi.Written{Changed: len(o.Change.Layers) > 0, Warnings: o.Warnings, Actions: actionsOf(o.Actions),
		Peers: o.Peers}
	for _, p := range o.Unknown {
		w.Unknown = append(w.Unknown, config.FormatPath(p))
	}
	for _, e := range o.Effects {
		x := fleetapi.Effect{Nodes: e.Nodes, Actions: actionsOf(e.Actions)}
		for _, v := range e.Values {
			value := fleetapi.Value{Path: config.FormatPath(v.Path), Old: v.Old, New: v.New, HadOld: v.HadOld, HasNew: v.HasNew}
			if v.HasNew {
				value.Origin = v.Origin.String()
			}
			x.Values = append(x.Values, value)
		}
		w.Effects = append(w.Effects, x)
	}
	return w
}

func actionsOf(actions []metadata.Action) []fleetapi.Action {
	var out []fleetapi.Action
	for _, a := range actions {
		x := fleetapi.Action{Name: a.Name}
		for _, k := range a.Keys {
			x.Keys = append(x.Keys, config.FormatPath(k))
		}
		out = append(out, x)
	}
	return out
}
