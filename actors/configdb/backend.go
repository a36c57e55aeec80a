package configdb

import (
	"context"
	"fmt"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/rest"
	"edgespan/config/kv"
)

// read calls find with a state that includes every acknowledged write.
func read[T any](ctx context.Context, k *Keeper, find func(*model.State, source) (T, error)) (T, error) {
	state, err := k.d.currentState(ctx)
	if err != nil {
		var none T
		return none, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	done, err := rest.AcquireTurn(ctx)
	if err != nil {
		var none T
		return none, err
	}
	defer done()
	return find(state, k.d.newSource(ctx))
}

// Components lists all components, by id.
func (k *Keeper) Components(ctx context.Context, reveal bool) ([]model.Component, error) {
	return read(ctx, k, func(s *model.State, src source) ([]model.Component, error) { return s.Components(src, reveal) })
}

// Component returns one component.
func (k *Keeper) Component(ctx context.Context, id int64, reveal bool) (model.Component, error) {
	return read(ctx, k, func(s *model.State, src source) (model.Component, error) {
		return s.Component(id, src, reveal)
	})
}

// Definitions lists all definitions, or those of one component; with *component nil, those without a component.
func (k *Keeper) Definitions(ctx context.Context, component **int64, reveal bool) ([]model.Definition, error) {
	return read(ctx, k, func(s *model.State, src source) ([]model.Definition, error) {
		return s.Definitions(component, src, reveal)
	})
}

// Definition returns one definition.
func (k *Keeper) Definition(ctx context.Context, id int64, reveal bool) (model.Definition, error) {
	return read(ctx, k, func(s *model.State, src source) (model.Definition, error) {
		return s.Definition(id, src, reveal)
	})
}

// Secrets returns the declared secret keys of a definition.
func (k *Keeper) Secrets(ctx context.Context, id int64) ([]string, error) {
	return read(ctx, k, func(s *model.State, _ source) ([]string, error) { return s.Secrets(id) })
}

// Environments lists all environments, by id.
func (k *Keeper) Environments(ctx context.Context) ([]model.Environment, error) {
	return read(ctx, k, func(s *model.State, _ source) ([]model.Environment, error) { return s.Environments(), nil })
}

// Environment returns one environment.
func (k *Keeper) Environment(ctx context.Context, id int64) (model.Environment, error) {
	return read(ctx, k, func(s *model.State, _ source) (model.Environment, error) { return s.Environment(id) })
}

// Levels lists the levels of an environment, from the broadest to the narrowest.
func (k *Keeper) Levels(ctx context.Context, environment int64) ([]model.Level, error) {
	return read(ctx, k, func(s *model.State, src source) ([]model.Level, error) {
		return s.Levels(environment, src.Meter())
	})
}

// Level returns one level.
func (k *Keeper) Level(ctx context.Context, environment int64, level model.Ref) (model.Level, error) {
	return read(ctx, k, func(s *model.State, src source) (model.Level, error) {
		return s.Level(environment, level, src.Meter())
	})
}

// Nodes lists the nodes that are registered in an environment.
func (k *Keeper) Nodes(ctx context.Context, environment int64) ([]model.Node, error) {
	return read(ctx, k, func(s *model.State, src source) ([]model.Node, error) {
		return s.Nodes(environment, src.Meter())
	})
}

// Node finds a node by any of its names.
func (k *Keeper) Node(ctx context.Context, environment int64, name string) (model.Node, error) {
	return read(ctx, k, func(s *model.State, _ source) (model.Node, error) { return s.Node(environment, name) })
}

// ResolveResource returns the definition that a name or an id refers to in an environment.
func (k *Keeper) ResolveResource(ctx context.Context, environment int64, r model.Ref) (model.Definition, error) {
	return read(ctx, k, func(s *model.State, _ source) (model.Definition, error) {
		return s.ResolveResource(environment, r)
	})
}

// Versions lists the versions of a half of a record, newest first.
func (k *Keeper) Versions(ctx context.Context, q model.VersionsQuery) ([]model.Version, error) {
	return read(ctx, k, func(s *model.State, src source) ([]model.Version, error) { return s.Versions(q, src) })
}

// Records lists the revisions of the facts, newest first.
func (k *Keeper) Records(ctx context.Context, q model.RecordsQuery) ([]model.Record, error) {
	return read(ctx, k, func(s *model.State, src source) ([]model.Record, error) { return s.Records(q, src) })
}

// inRevisions is the prefix of the records (docs/adr/0022).
const inRevisions kv.Prefix = "facts/revisions/"

func recordKey(n uint64) kv.Key { return kv.Key(fmt.Sprintf("%s%016x", inRevisions, n)) }

// watchPage is how many records a watch that is behind reads at once.
const watchPage = 16 // one may be a megabyte, compressed

// Watch delivers each record after a revision, in order. It returns nil when the context ends, or the error of deliver.
// A slow deliver delays no other caller.
func (k *Keeper) Watch(ctx context.Context, after uint64, deliver func(model.Record) error) error {
	state, err := k.d.currentState(ctx)
	if err != nil {
		return err
	}
	if newest := state.Revision(); after > newest {
		return &model.RequestError{Kind: model.Invalid,
			Text: fmt.Sprintf("watch: since: invalid value %d: must be at most %d, the newest revision", after, newest)}
	}
	for {
		records, kept, moved := k.d.recent.since(after)
		if !kept {
			if records, err = k.readOlder(ctx, after); err != nil {
				return err
			}
		}
		for _, r := range records {
			if ctx.Err() != nil {
				return nil
			}
			if err := deliver(k.d.Key.Show(r)); err != nil {
				return err
			}
			after = r.Revision
		}
		if len(records) > 0 {
			continue
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil
		case <-k.d.ctx.Done():
			return busyError("watch: this replica is shutting down")
		}
	}
}

// readOlder reads a page of the records after a revision from the store.
func (k *Keeper) readOlder(ctx context.Context, after uint64) (records []model.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	o := kv.ListOptions{Limit: watchPage}
	if after > 0 {
		o.After = recordKey(after)
	}
	page, err := source{ctx: ctx, d: k.d}.List(inRevisions, o)
	if err != nil {
		return nil, err
	}
	records = make([]model.Record, 0, len(page.Entries))
	for _, e := range page.Entries {
		r, ok, err := model.RecordOf(kv.Event{Kind: kv.EventPut, Entry: e})
		if err != nil {
			return nil, err
		}
		if ok {
			records = append(records, r)
		}
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("watch: the store has no record of revision %d", after+1)
	}
	return records, nil
}
