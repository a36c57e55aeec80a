package configdbapi

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/kv"
)

// real is a Backend of the ledger over the model of a store.
type real struct {
	mu      sync.Mutex
	model   *kv.Model
	state   *model.State
	pending chan struct{} // closed by the next write
}

func newReal(t *testing.T) *real {
	t.Helper()
	r := &real{pending: make(chan struct{})}
	r.open(t)
	return r
}

func (r *real) open(t testing.TB) {
	t.Helper()
	r.model = kv.NewModel()
	var err error
	if r.state, err = model.Load(source{r.model, nil}); err != nil {
		t.Fatal(err)
	}
}

// source adapts the model of a store to the reader that the ledger expects.
type source struct {
	*kv.Model
	m *configdb.Meter
}

func (s source) Meter() *configdb.Meter { return s.m }

func (s source) Get(keys ...kv.Key) ([]kv.Entry, error) {
	out := make([]kv.Entry, len(keys))
	for i, k := range keys {
		e, _, err := s.Model.Get(k)
		if err != nil {
			return nil, err
		}
		out[i] = e
	}
	return out, nil
}

func (s source) Blob(sha string) (configdb.JSON, error) { return model.ReadBlob(s, sha) }

// look queries the newest state, one caller at a time.
func look[T any](ctx context.Context, r *real, f func(*model.State, source) (T, error)) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return f(r.state, source{r.model, Meter(ctx)})
}

func (r *real) Components(ctx context.Context, reveal bool) ([]model.Component, error) {
	return look(ctx, r, func(s *model.State, b source) ([]model.Component, error) { return s.Components(b, reveal) })
}

func (r *real) Component(ctx context.Context, id int64, reveal bool) (model.Component, error) {
	return look(ctx, r, func(s *model.State, b source) (model.Component, error) { return s.Component(id, b, reveal) })
}

func (r *real) Definitions(ctx context.Context, c **int64, reveal bool) ([]model.Definition, error) {
	return look(ctx, r, func(s *model.State, b source) ([]model.Definition, error) { return s.Definitions(c, b, reveal) })
}

func (r *real) Definition(ctx context.Context, id int64, reveal bool) (model.Definition, error) {
	return look(ctx, r, func(s *model.State, b source) (model.Definition, error) { return s.Definition(id, b, reveal) })
}

func (r *real) Secrets(ctx context.Context, id int64) ([]string, error) {
	return look(ctx, r, func(s *model.State, _ source) ([]string, error) { return s.Secrets(id) })
}

func (r *real) Environments(ctx context.Context) ([]model.Environment, error) {
	return look(ctx, r, func(s *model.State, _ source) ([]model.Environment, error) { return s.Environments(), nil })
}

func (r *real) Environment(ctx context.Context, id int64) (model.Environment, error) {
	return look(ctx, r, func(s *model.State, _ source) (model.Environment, error) { return s.Environment(id) })
}

func (r *real) Levels(ctx context.Context, e int64) ([]model.Level, error) {
	return look(ctx, r, func(s *model.State, _ source) ([]model.Level, error) { return s.Levels(e, nil) })
}

func (r *real) Level(ctx context.Context, e int64, l model.Ref) (model.Level, error) {
	return look(ctx, r, func(s *model.State, _ source) (model.Level, error) { return s.Level(e, l, nil) })
}

func (r *real) Nodes(ctx context.Context, e int64) ([]model.Node, error) {
	return look(ctx, r, func(s *model.State, _ source) ([]model.Node, error) { return s.Nodes(e, nil) })
}

func (r *real) Node(ctx context.Context, e int64, name string) (model.Node, error) {
	return look(ctx, r, func(s *model.State, _ source) (model.Node, error) { return s.Node(e, name) })
}

func (r *real) ResolveResource(ctx context.Context, e int64, ref model.Ref) (model.Definition, error) {
	return look(ctx, r, func(s *model.State, _ source) (model.Definition, error) { return s.ResolveResource(e, ref) })
}

func (r *real) Answer(ctx context.Context, q model.Query, known []string) (model.Answer, error) {
	return look(ctx, r, func(s *model.State, b source) (model.Answer, error) {
		c, err := s.Chain(q, b)
		if err != nil {
			return model.Answer{}, err
		}
		for _, k := range known {
			if k == c.ETag() {
				return c.Unmodified(), nil
			}
		}
		return c.Answer(b)
	})
}

func (r *real) Keys(ctx context.Context, q model.Query, e configdb.KeysEdit) (model.Answer, error) {
	return look(ctx, r, func(s *model.State, b source) (model.Answer, error) {
		c, err := s.Chain(q, b)
		if err != nil {
			return model.Answer{}, err
		}
		return c.Keys(b, e)
	})
}

func (r *real) Hiera(ctx context.Context, q model.HieraQuery, _ []string) (model.Answer, error) {
	return look(ctx, r, func(s *model.State, b source) (model.Answer, error) {
		h, err := s.Hiera(q, b.Meter())
		if err != nil {
			return model.Answer{}, err
		}
		return h.Answer(b)
	})
}

func (r *real) Versions(ctx context.Context, q model.VersionsQuery) ([]model.Version, error) {
	return look(ctx, r, func(s *model.State, b source) ([]model.Version, error) { return s.Versions(q, b) })
}

func (r *real) Records(ctx context.Context, q model.RecordsQuery) ([]model.Record, error) {
	return look(ctx, r, func(s *model.State, b source) ([]model.Record, error) { return s.Records(q, b) })
}

// Write carries out what the ledger plans. There is no other writer.
func (r *real) Write(ctx context.Context, w WriteRequest) (model.Written, error) {
	return look(ctx, r, func(s *model.State, b source) (model.Written, error) {
		for {
			p, err := r.state.Plan([]model.QueuedWrite{{Write: w.Write, Author: w.Author, Message: w.Message, Time: moment,
				Blind: w.DryRun && !w.Reveal}}, b)
			if err != nil {
				return model.Written{}, err
			}
			if len(p.Results) == 1 && p.Results[0].Fault != nil {
				return model.Written{}, p.Results[0].Fault
			}
			if len(p.Results) == 1 && (w.DryRun || len(p.Txns) == 0) {
				return p.Results[0].Written, nil
			}
			var at kv.Revision
			for _, txn := range p.Txns {
				out, err := r.model.Commit(txn)
				if err != nil || !out.Succeeded {
					return model.Written{}, errors.Join(errors.New("the store is nobody else's"), err)
				}
				at = out.Revision
			}
			r.state = p.Next(at)
			if len(p.Results) == 1 {
				close(r.pending)
				r.pending = make(chan struct{})
				return p.Results[0].Written, nil
			}
		}
	})
}

func (r *real) Watch(ctx context.Context, after uint64, deliver func(model.Record) error) error {
	for {
		r.mu.Lock()
		pending := r.pending
		all, err := r.state.Records(model.RecordsQuery{}, source{r.model, nil})
		r.mu.Unlock()
		if err != nil {
			return err
		}
		for i := len(all) - 1; i >= 0; i-- {
			if all[i].Revision <= after {
				continue
			}
			if err := deliver(all[i]); err != nil {
				return err
			}
			after = all[i].Revision
		}
		select {
		case <-pending:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var _ Backend = (*real)(nil)

// TestTheWayOfTheSeed follows the seed's workflow of facts, with the client and the ledger: component, environment,
// upload by name, override, effective values, versions, and rollback.
func TestTheWayOfTheSeed(t *testing.T) {
	c := serving(t, newReal(t), "admin")
	ctx := t.Context()
	fuel, err := c.CreateComponent(ctx, NewComponent{Name: "fuel9.0",
		Definitions: []NewDefinition{{Name: "astute"}, {Name: "override/node"}}}, WriteOptions{})
	if err != nil || len(fuel.Definitions) != 2 {
		t.Fatalf("%+v %v", fuel, err)
	}
	if _, err := c.CreateEnvironment(ctx,
		NewEnvironment{ID: new(int64(1)), Components: []configdb.JSON{configdb.JSON(`"fuel9.0"`)}, Levels: []string{"nodes"}},
		WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	node := Place{Environment: 1, Levels: []model.LevelValue{{Level: "nodes", Value: "1"}}, Resource: "override/node"}
	all := Place{Environment: 1, Resource: "override/node"}
	one, err := c.Put(ctx, node, model.Values, configdb.JSON(`{"a":1.0,"b":123456789012345678901234567890}`),
		WriteOptions{})
	if err != nil || one.Version != 1 {
		t.Fatalf("%+v %v", one, err)
	}
	same, err := c.Put(ctx, node, model.Values, configdb.JSON(`{ "b" :123456789012345678901234567890, "a":1.0}`),
		WriteOptions{})
	if err != nil || same.Version != 1 || same.ETag != one.ETag || same.Revision != one.Revision {
		t.Errorf("the same again: %+v %v, was %+v", same, err, one)
	}
	for place, value := range map[*Place]string{&all: `{"a":2,"c":[1]}`, &node: `{"d":null}`} {
		if _, err := c.Put(ctx, *place, model.Overrides, configdb.JSON(value), WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.Read(ctx, node, model.Values, Read{Effective: true})
	if err != nil || got.Body.String() != `{"a":1.0,"b":123456789012345678901234567890,"c":[1],"d":null}` ||
		got.Version != 1 {
		t.Errorf("effective: %+v %v", got, err)
	}
	if again, err := c.Read(ctx, node, model.Values, Read{Effective: true, Known: got.ETag}); err != nil ||
		again.Body != nil {
		t.Errorf("effective again: %+v %v", again, err)
	}
	if _, err := c.Put(ctx, node, model.Values, configdb.JSON(`{"a":3}`), WriteOptions{IfMatch: `"stale"`}); !is412(err) {
		t.Errorf("a stale write: %v", err)
	}
	raw, err := c.Read(ctx, node, model.Values, Read{})
	if err != nil || raw.ETag != one.ETag {
		t.Errorf("raw: %+v %v, was written as %s", raw, err, one.ETag)
	}
	if two, err := c.Put(ctx, node, model.Values, configdb.JSON(`{"a":3}`), WriteOptions{IfMatch: raw.ETag}); err != nil ||
		two.Version != 2 {
		t.Errorf("a write of what was seen: %+v %v", two, err)
	}
	if got, err := c.Read(ctx, node, model.Values, Read{Version: 1}); err != nil ||
		got.Body.String() != raw.Body.String() {
		t.Errorf("version 1: %+v %v", got, err)
	}
	if ops, err := c.Diff(ctx, node, model.Values, 1, 2); err != nil || len(ops) != 2 {
		t.Errorf("diff: %+v %v", ops, err)
	}
	if back, err := c.Rollback(ctx, node, model.Values, RollbackBody{Version: 1}, WriteOptions{}); err != nil ||
		back.Version != 3 || !back.Changed {
		t.Errorf("rollback: %+v %v", back, err)
	}
	if gone, err := c.Remove(ctx, node, model.Values, WriteOptions{}); err != nil || gone.Version != 3 {
		t.Errorf("a removal is no upload: %+v %v", gone, err)
	}
	if next, err := c.Put(ctx, node, model.Values, configdb.JSON(`{"b":1}`), WriteOptions{}); err != nil ||
		next.Version != 4 {
		t.Errorf("the upload after it: %+v %v", next, err)
	}
	if got, err := c.Read(ctx, node, model.Values, Read{Version: 4}); err != nil || got.Body.String() != `{"b":1}` ||
		got.Version != 4 {
		t.Errorf("version 4: %+v %v", got, err)
	}
	if nodes, err := c.Nodes(ctx, 1); err != nil || len(nodes) != 1 || nodes[0].ID != "1" {
		t.Errorf("an upload registers its node: %+v %v", nodes, err)
	}
	seen, enough := uint64(0), errors.New("enough")
	newest, err := c.History(ctx, model.RecordsQuery{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	err = c.Watch(ctx, WatchOptions{FromStart: true}, time.Second, func(r model.Record) error {
		if r.Revision != seen+1 {
			t.Errorf("revision %d after %d", r.Revision, seen)
		}
		if seen = r.Revision; seen == newest[0].Revision {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("watch: %v", err)
	}
}

func is412(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == 412
}

// TestKeysOfNothing changes keys where nothing was written: that fault is reported first, whatever the body is, as the
// original does.
func TestKeysOfNothing(t *testing.T) {
	h := Handler(newReal(t), door{})
	for _, c := range []struct {
		ask, body string
		status    int
	}{
		{"POST components", `{"name":"c","resource_definitions":[{"name":"r"}]}`, 201},
		{"POST environments", `{"components":["c"],"hierarchy_levels":["nodes"]}`, 201},
		{"PATCH environments/1/resources/r/values/keys/set", `{}`, 404},
		{"PUT environments/1/nodes/1/resources/r/overrides/keys/delete", `{}`, 404},
		{"PATCH environments/1/resources/r/values/keys/set", `[]`, 404},
		{"PATCH environments/1/resources/none/values/keys/set", `x`, 404},
		{"PATCH environments/1/resources/r/values/keys/get", `{}`, 400},
		{"PATCH environments/1/resources/r/overrides/keys/set", `[["a",1]]`, 204},
		{"PATCH environments/1/resources/r/values/keys/set", `{}`, 400},
		{"PATCH environments/1/resources/r/overrides/keys/delete", `["a"]`, 400},
		{"PATCH environments/1/resources/r/values/keys/set", `[]`, 204},
	} {
		method, target, _ := strings.Cut(c.ask, " ")
		if w := ask(h, asked{method: method, target: target, body: c.body}); w.Code != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.ask, c.body, w.Code, w.Body, c.status)
		}
	}
}
