package bolt

import (
	"context"
	"errors"
	"fmt"

	"edgespan/config/kv"
)

// Bounds of one sync: the first writer of a batch waits for the last.
const (
	batchJobs  = 512
	batchBytes = 8 << 20
)

// job is one write that waits for its sync.
type job struct {
	size int // bytes, approximately
	// do makes the changes. If it returns a refusal, it has changed nothing.
	do   func(*write) error
	err  error
	done chan struct{}
}

// refusal is an error that left the file unchanged. Any other error means a damaged file or a failed disk: it rolls
// back the batch and stops all writes.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// write is one batch of writes.
type write struct {
	view
	revision kv.Revision // of the last change so far
	dirty    bool
	after    []func() // changes in memory after the sync
}

// submit passes a job to the writer and waits until it is on disk.
func (s *Store) submit(ctx context.Context, size int, do func(*write) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{size: size, do: do, done: make(chan struct{})}
	select {
	case s.jobs <- j:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return kv.ErrClosed
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		return fmt.Errorf("it may have taken place or not: %w", ctx.Err())
	}
}

// write is the goroutine that changes the file. All jobs that wait when it is free share one sync.
func (s *Store) write() {
	defer s.ended.Done()
	for {
		select {
		case <-s.closing:
			return
		case first := <-s.jobs:
			s.commit(s.gather(first))
		case <-s.again():
			s.commit([]*job{probe()})
		}
	}
}

func (s *Store) gather(first *job) []*job {
	batch, bytes := []*job{first}, first.size
	for len(batch) < batchJobs && bytes < batchBytes {
		select {
		case j := <-s.jobs:
			batch, bytes = append(batch, j), bytes+j.size
		default:
			return batch
		}
	}
	return batch
}

// commit commits a batch and passes the result to each job.
func (s *Store) commit(batch []*job) {
	err := s.resting()
	if err == nil {
		err = s.apply(batch)
	}
	for _, j := range batch {
		if err != nil {
			j.err = err
		}
		close(j.done)
	}
	s.mu.Lock()
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
}

func (s *Store) apply(batch []*job) error {
	tx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	w := &write{view: viewOf(tx)}
	w.revision = w.last()
	for _, j := range batch {
		j.err = j.do(w)
		var refused refusal
		if j.err != nil && !errors.As(j.err, &refused) {
			return s.fail(errors.Join(j.err, tx.Rollback()))
		}
	}
	if !w.dirty {
		return tx.Rollback()
	}
	begun, id := s.clock.Now(), tx.ID()
	if err := tx.Commit(); err != nil {
		return s.uncommitted(id, s.clock.Now().Sub(begun), err)
	}
	for _, f := range w.after {
		f()
	}
	s.committed()
	return nil
}

func (s *Store) Commit(ctx context.Context, txn kv.Txn) (kv.TxnResult, error) {
	if err := txn.Check(); err != nil {
		return kv.TxnResult{}, err
	}
	var out kv.TxnResult
	var err error
	if txn.Writes() {
		err = s.submit(ctx, txn.Size(), func(w *write) (err error) {
			out, err = w.txn(txn)
			return err
		})
	} else {
		err = s.readFile(ctx, func(v view) (err error) {
			out, err = v.read(txn)
			return err
		})
	}
	if err != nil {
		return kv.TxnResult{}, fmt.Errorf("commit: %w", err)
	}
	return out, nil
}

// txn performs one transaction.
func (w *write) txn(txn kv.Txn) (kv.TxnResult, error) {
	out := kv.TxnResult{Succeeded: true}
	for _, c := range txn.Compares {
		now, err := w.at(c.Key, w.revision)
		if err != nil {
			return out, err
		}
		out.Succeeded = out.Succeeded && c.Holds(now)
	}
	ops := txn.Then
	if !out.Succeeded {
		ops = txn.Else
	}
	for _, op := range ops {
		if op.Lease != 0 && w.leases.Get(number(uint64(op.Lease))) == nil {
			return out, refusal{fmt.Errorf("put %q: lease %d: %w", op.Key, op.Lease, kv.ErrNoLease)}
		}
	}
	c := change{write: w, revision: w.revision + 1}
	for _, op := range ops {
		result, err := c.op(op)
		if err != nil {
			return out, err
		}
		out.Results = append(out.Results, result)
	}
	if err := c.record(); err != nil {
		return out, err
	}
	out.Revision = w.revision
	return out, nil
}

// read performs a transaction that only reads. It runs concurrently with the writer and does not wait for its disk.
func (v view) read(txn kv.Txn) (kv.TxnResult, error) {
	out := kv.TxnResult{Succeeded: true, Revision: v.last()}
	for _, c := range txn.Compares {
		now, err := v.at(c.Key, out.Revision)
		if err != nil {
			return out, err
		}
		out.Succeeded = out.Succeeded && c.Holds(now)
	}
	ops := txn.Then
	if !out.Succeeded {
		ops = txn.Else
	}
	for _, op := range ops {
		e, err := v.at(op.Key, out.Revision)
		if err != nil {
			return out, err
		}
		out.Results = append(out.Results, kv.Result{Entry: e})
	}
	return out, nil
}

// change is one transaction of a batch.
type change struct {
	*write
	revision kv.Revision
	keys     []kv.Key
}

func (c *change) op(op kv.Op) (kv.Result, error) {
	switch op.Kind {
	case kv.OpGet:
		e, err := c.at(op.Key, c.revision)
		return kv.Result{Entry: e}, err
	case kv.OpPut:
		return kv.Result{}, c.put(op)
	case kv.OpDelete:
		n, err := c.remove(op.Key)
		return kv.Result{Deleted: n}, err
	case kv.OpDeletePrefix:
		var keys []kv.Key
		err := c.below(op.Prefix, "", c.revision, func(e kv.Entry) bool {
			keys = append(keys, e.Key)
			return true
		})
		if err == nil {
			_, err = c.remove(keys...)
		}
		return kv.Result{Deleted: len(keys)}, err
	}
	return kv.Result{}, fmt.Errorf("operation of kind %d", op.Kind)
}

func (c *change) put(op kv.Op) error {
	before, err := c.at(op.Key, c.revision)
	if err != nil {
		return err
	}
	if err := c.detachLease(before); err != nil {
		return err
	}
	if op.Lease != 0 {
		if err := c.leased.Put(leasedKey(op.Lease, op.Key), nil); err != nil {
			return err
		}
	}
	c.keys = append(c.keys, op.Key)
	e := kv.Entry{Version: before.Version + 1, Lease: op.Lease, Value: op.Value}
	return c.versions.Put(versionKey(op.Key, c.revision), encode(e))
}

// remove deletes the keys that exist, and returns their number.
func (c *change) remove(keys ...kv.Key) (int, error) {
	n := 0
	for _, k := range keys {
		before, err := c.at(k, c.revision)
		if err != nil {
			return n, err
		}
		if !before.Exists() {
			continue
		}
		if err := c.detachLease(before); err != nil {
			return n, err
		}
		if err := c.versions.Put(versionKey(k, c.revision), encode(kv.Entry{})); err != nil {
			return n, err
		}
		c.keys = append(c.keys, k)
		n++
	}
	return n, nil
}

// detachLease removes an entry from its lease.
func (c *change) detachLease(e kv.Entry) error {
	if e.Lease == 0 {
		return nil
	}
	return c.leased.Delete(leasedKey(e.Lease, e.Key))
}

// record adds the change to the history as a revision, if it changed anything.
func (c *change) record() error {
	if len(c.keys) == 0 {
		return nil
	}
	c.write.revision, c.dirty = c.revision, true
	return c.history.Put(number(uint64(c.revision)), encodeKeys(c.keys))
}
