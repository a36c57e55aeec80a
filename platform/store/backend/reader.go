package backend

import (
	"context"

	"edgespan/config/kv"
)

// Reader reads a store with the interface of config/fleet/history and one context for all calls. It is for code
// without actors, such as a program at its start.
type Reader struct {
	ctx   context.Context
	store Store
}

// NewReader returns a reader whose calls end with ctx.
func NewReader(ctx context.Context, s Store) Reader { return Reader{ctx, s} }

// Get reads up to kv.MaxOps keys at one revision and returns them in the given order.
func (r Reader) Get(keys ...kv.Key) ([]kv.Entry, error) {
	ops := make([]kv.Op, len(keys))
	for i, k := range keys {
		ops[i] = kv.Get(k)
	}
	out, err := r.store.Commit(r.ctx, kv.Txn{Then: ops})
	if err != nil {
		return nil, err
	}
	entries := make([]kv.Entry, len(out.Results))
	for i, result := range out.Results {
		entries[i] = result.Entry
		entries[i].Key = keys[i]
	}
	return entries, nil
}

// List reads the keys below a prefix, in order.
func (r Reader) List(below kv.Prefix, o kv.ListOptions) (kv.Page, error) {
	return r.store.List(r.ctx, below, o)
}
