package configdb

import (
	"context"
	"errors"

	"edgespan/config/configdb"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/kv"
)

// source reads the store for the model until its context ends; each call has a time limit. Documents come from the
// cache if possible.
type source struct {
	ctx context.Context
	d   *deps
	m   *configdb.Meter // of one request; nil: the replica itself
}

// newSource returns a source for one request, which ends with its context.
func (d *deps) newSource(ctx context.Context) source { return source{ctx, d, configdbapi.Meter(ctx)} }

// Meter returns the remaining budget of the request.
func (s source) Meter() *configdb.Meter { return s.m }

var _ model.Source = source{}

// Get reads keys in one transaction.
func (s source) Get(keys ...kv.Key) ([]kv.Entry, error) {
	ctx, cancel := context.WithTimeout(s.ctx, storeTimeout)
	defer cancel()
	if len(keys) == 1 {
		e, _, err := s.d.Store.Get(ctx, keys[0])
		e.Key = keys[0]
		return []kv.Entry{e}, storeError(err)
	}
	txn := kv.Txn{Then: make([]kv.Op, len(keys))}
	for i, k := range keys {
		txn.Then[i] = kv.Get(k)
	}
	o, err := s.d.Store.Commit(ctx, txn)
	if err != nil {
		return nil, storeError(err)
	}
	out := make([]kv.Entry, len(keys))
	for i, k := range keys {
		out[i] = o.Results[i].Entry
		out[i].Key = k
	}
	return out, nil
}

// List reads one page of the keys below a prefix.
func (s source) List(below kv.Prefix, o kv.ListOptions) (kv.Page, error) {
	ctx, cancel := context.WithTimeout(s.ctx, storeTimeout)
	defer cancel()
	page, err := s.d.Store.List(ctx, below, o)
	return page, storeError(err)
}

// Blob returns the content of a document.
func (s source) Blob(sha string) (configdb.JSON, error) {
	text, ok := s.d.blobs.get(sha)
	if s.d.blobs.use.add(ok); ok {
		return text, nil
	}
	text, err := model.ReadBlob(s, sha)
	if err != nil {
		return nil, err
	}
	s.d.blobs.put(sha, text, len(text))
	return text, nil
}

// storeError turns an error of the store into a busy error. A compacted listing keeps its error: the caller starts
// over.
func storeError(err error) error {
	if err == nil || errors.Is(err, kv.ErrCompacted) {
		return err
	}
	return busyError("facts: the store does not answer: %v", err)
}
