package bolt

import (
	"context"
	"encoding/binary"
	"fmt"

	"edgespan/config/kv"
)

// Bounds of one read of a watch, which keeps a read transaction open only for that time.
const (
	watchRevisions = 512
	watchBytes     = 4 << 20
)

// Watch reads the history from the file at the watcher's own pace. A commit only wakes it.
func (s *Store) Watch(ctx context.Context, p kv.Prefix, after kv.Revision, deliver func(kv.Batch) error) error {
	if err := p.Check(); err != nil {
		return err
	}
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		batches, upTo, err := s.since(ctx, p, after)
		if err != nil {
			return fmt.Errorf("watch below %q: %w", p, err)
		}
		for _, b := range batches {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := deliver(b); err != nil {
				return err
			}
		}
		if upTo > after {
			after = upTo
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-s.closing:
			return kv.ErrClosed
		}
	}
}

// since returns some of the changes after a revision, and the revision up to which they are complete.
func (s *Store) since(ctx context.Context, p kv.Prefix, after kv.Revision) (out []kv.Batch, upTo kv.Revision,
	err error) {
	upTo = after
	err = s.readFile(ctx, func(v view) error {
		if last := v.last(); after > last {
			return fmt.Errorf("%w: %d, the store is at %d", kv.ErrFuture, after, last)
		}
		if oldest := v.compacted(); after+1 < oldest {
			return fmt.Errorf("%w: %d, the oldest is %d", kv.ErrCompacted, after+1, oldest)
		}
		c := v.history.Cursor()
		bytes := 0
		k, data := c.Seek(number(uint64(after) + 1))
		for n := 0; k != nil && n < watchRevisions && bytes < watchBytes; n++ {
			upTo = kv.Revision(binary.BigEndian.Uint64(k))
			b, size, err := v.batch(p, upTo, data)
			if err != nil {
				return err
			}
			if len(b.Events) > 0 {
				out = append(out, b)
			}
			bytes += size
			k, data = c.Next()
		}
		return nil
	})
	return out, upTo, err
}

// batch returns the changes of one revision below a prefix, and their approximate size.
func (v view) batch(p kv.Prefix, r kv.Revision, record []byte) (kv.Batch, int, error) {
	keys, err := decodeKeys(record)
	if err != nil {
		return kv.Batch{}, 0, err
	}
	b, size := kv.Batch{Revision: r}, 0
	for _, k := range keys {
		if !p.Has(k) {
			continue
		}
		data := v.versions.Get(versionKey(k, r))
		ev := kv.Event{Kind: kv.EventDelete, Entry: kv.Entry{Key: k, ModRevision: r}}
		if !deleted(data) {
			e, err := decode(k, r, data)
			if err != nil {
				return kv.Batch{}, 0, err
			}
			ev = kv.Event{Kind: kv.EventPut, Entry: e}
		}
		size += len(k) + len(data)
		b.Events = append(b.Events, ev)
	}
	return b, size, nil
}
