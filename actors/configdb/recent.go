package configdb

import (
	"sync"

	"edgespan/config/configdb/model"
	"edgespan/config/kv"
)

// Bounds of the newest records that are kept for watches; older ones are read from the store.
const (
	maxRecent      = 1024
	maxRecentBytes = 4 << 20
)

// recent holds the newest records, in order and without gaps, and notifies waiters of new ones.
type recent struct {
	mu      sync.Mutex
	records []model.Record
	sizes   []int // of the records, in the store
	size    int
	last    uint64 // the newest revision whose record is in the store
	moved   chan struct{}
}

func (r *recent) init() { r.moved = make(chan struct{}) }

// skip records that the store has records up to a revision, which are not kept here.
func (r *recent) skip(to uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to != r.last {
		r.records, r.sizes, r.size, r.last = nil, nil, 0, to
		r.wakeWaiters()
	}
}

func (r *recent) wakeWaiters() {
	close(r.moved)
	r.moved = make(chan struct{})
}

// add adds the records of a transaction.
func (r *recent) add(b kv.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.last
	for _, e := range b.Events {
		record, ok, err := model.RecordOf(e)
		if err != nil {
			return err
		}
		if !ok || record.Revision <= r.last {
			continue
		}
		if record.Revision != r.last+1 {
			r.records, r.sizes, r.size = nil, nil, 0
		}
		r.records, r.sizes = append(r.records, record), append(r.sizes, len(e.Entry.Value))
		r.last, r.size = record.Revision, r.size+len(e.Entry.Value)
		for len(r.records) > maxRecent || r.size > maxRecentBytes {
			r.size -= r.sizes[0]
			r.records, r.sizes = r.records[1:], r.sizes[1:]
		}
	}
	if r.last != before {
		r.wakeWaiters()
	}
	return nil
}

// since returns the records after a revision. If kept is false they must be read from the store; moved is closed when
// there are more.
func (r *recent) since(after uint64) (records []model.Record, kept bool, moved chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := uint64(len(r.records))
	switch {
	case after >= r.last:
		return nil, true, r.moved
	case after >= r.last-n:
		return r.records[after-(r.last-n):], true, r.moved
	}
	return nil, false, r.moved
}
