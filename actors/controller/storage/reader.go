package storage

import (
	"context"
	"fmt"
	"slices"

	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

// Reader is a history.Reader over the store; each call has a time limit.
type Reader struct {
	ctx   context.Context
	store Store
}

// NewReader returns a reader of a store that works until ctx ends.
func NewReader(ctx context.Context, s Store) Reader { return Reader{ctx, s} }

// Get reads keys in one transaction.
func (r Reader) Get(keys ...kv.Key) ([]kv.Entry, error) {
	ctx, cancel := context.WithTimeout(r.ctx, StoreTimeout)
	defer cancel()
	out := make([]kv.Entry, len(keys))
	if len(keys) == 1 {
		e, _, err := r.store.Get(ctx, keys[0])
		out[0] = e
		out[0].Key = keys[0]
		return out, err
	}
	txn := kv.Txn{Then: make([]kv.Op, len(keys))}
	for i, k := range keys {
		txn.Then[i] = kv.Get(k)
	}
	o, err := r.store.Commit(ctx, txn)
	if err != nil {
		return nil, err
	}
	for i := range keys {
		out[i] = o.Results[i].Entry
		out[i].Key = keys[i]
	}
	return out, nil
}

// List reads one page of the keys below a prefix.
func (r Reader) List(below kv.Prefix, o kv.ListOptions) (kv.Page, error) {
	ctx, cancel := context.WithTimeout(r.ctx, StoreTimeout)
	defer cancel()
	return r.store.List(ctx, below, o)
}

// listPage is how many keys one page has.
const listPage = 1000

// All reads all keys below a prefix, as of a revision.
func (r Reader) All(below kv.Prefix, at kv.Revision) (out []kv.Entry, err error) {
	o := kv.ListOptions{At: at, Limit: listPage}
	for {
		page, err := r.List(below, o)
		if err != nil {
			return nil, err
		}
		out = append(out, page.Entries...)
		if !page.More {
			return out, nil
		}
		o.After, o.At = page.Entries[len(page.Entries)-1].Key, page.Revision
	}
}

// Listing is all keys that the fleet uses, as of one revision.
type Listing struct {
	At     kv.Revision
	Head   kv.Entry
	Events []kv.Event // a put for each key
	Has    map[kv.Key]bool
}

// followedFolders are the folders that every replica follows.
var followedFolders = []kv.Prefix{
	history.InNodes, history.InTokens, history.InGenerations, history.InOwners, history.InOutboxes, history.InProposed,
	history.InAccepted,
	history.InOperators, history.InRevoked, history.InRollouts, history.InAdmissions, history.InRolloutProgress,
	history.InBisects,
	history.InUnderlays,
}

// list reads the keys that the fleet uses. A repeated listing includes the nodes' pushes, whose changes by other
// replicas may have been missed; at first each node reads its own.
func (a *Access) list(again bool) (l Listing, err error) {
	r := a.Reader(a.Context)
	ctx, cancel := context.WithTimeout(a.Context, StoreTimeout)
	defer cancel()
	if l.Head, l.At, err = a.store.Get(ctx, history.HeadKey()); err != nil {
		return l, fmt.Errorf("read head: %w", err)
	}
	l.Has = map[kv.Key]bool{}
	folders := followedFolders
	if again {
		folders = append(slices.Clone(folders), history.InPushes)
	}
	for _, folder := range folders {
		entries, err := r.All(folder, l.At)
		if err != nil {
			return l, fmt.Errorf("list %s: %w", folder, err)
		}
		for _, e := range entries {
			l.Events = append(l.Events, kv.Event{Kind: kv.EventPut, Entry: e})
			l.Has[e.Key] = true
		}
	}
	return l, nil
}
