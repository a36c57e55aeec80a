package serve

import (
	"context"
	"time"

	ctlmetrics "edgespan/actors/controller/metrics"
	"edgespan/config/httpapi/metrics"
	"edgespan/config/httpapi/rest"
	"edgespan/config/kv"
	"edgespan/platform/store/backend"
)

// sizeTimeout bounds the question for the size of the store, which may be elsewhere.
const sizeTimeout = 2 * time.Second

// measured is a store that counts its operations.
type measured struct {
	backend.Store
	work *ctlmetrics.Work
}

func (m measured) Get(ctx context.Context, key kv.Key) (kv.Entry, kv.Revision, error) {
	began := time.Now()
	e, at, err := m.Store.Get(ctx, key)
	m.work.Stored("get", time.Since(began), err)
	return e, at, err
}

func (m measured) List(ctx context.Context, prefix kv.Prefix, o kv.ListOptions) (kv.Page, error) {
	began := time.Now()
	p, err := m.Store.List(ctx, prefix, o)
	m.work.Stored("list", time.Since(began), err)
	return p, err
}

func (m measured) Commit(ctx context.Context, txn kv.Txn) (kv.TxnResult, error) {
	began := time.Now()
	r, err := m.Store.Commit(ctx, txn)
	m.work.Stored("commit", time.Since(began), err)
	return r, err
}

// observed counts the requests to an API.
func (s *service) observed(api string) rest.Option {
	return rest.WithObserver(func(method, route string, status int, took time.Duration) {
		s.foundation.work.Requested(api, method, route, status, took)
	})
}

// metricsPage returns the page of this replica's metrics.
func (s *service) metricsPage() *metrics.Page {
	return metrics.NewPage(&ctlmetrics.Table, func(to *metrics.Scrape) {
		ctx, cancel := context.WithTimeout(context.Background(), sizeTimeout)
		defer cancel()
		now := ctlmetrics.Snapshot{Version: s.app.Version, Fleet: s.fleet.CountNodes(), Ready: s.fleet.Ready(ctx) == nil,
			Audited: s.audit.writable(), Spans: s.spans()}
		store := s.foundation.store
		now.Store = ctlmetrics.Store{Writable: store.CheckWritable() == nil, NearlyFull: store.CheckSpace() != nil, Size: -1}
		if size, err := store.Size(ctx); err == nil {
			now.Store.Size = size
		}
		answers, documents := s.facts.Caches()
		now.Facts = ctlmetrics.Facts{Ready: s.facts.Ready(ctx) == nil, Caches: map[string]ctlmetrics.CacheUse{
			"answers": ctlmetrics.CacheUse(answers), "documents": ctlmetrics.CacheUse(documents)}}
		now.Collect(s.foundation.work, to)
	})
}
