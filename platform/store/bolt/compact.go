package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"edgespan/config/kv"
)

// sweepRevisions is how many revisions one transaction of a compaction deletes, so that other writes get their turn.
const sweepRevisions = 256

// Compact first publishes the oldest revision, so that no reader reads what it deletes, and then deletes in small
// steps. Open continues an interrupted compaction.
func (s *Store) Compact(ctx context.Context, at kv.Revision) error {
	err := s.submit(ctx, 0, func(w *write) error {
		if at > w.revision {
			return refusal{fmt.Errorf("%w: %d, the store is at %d", kv.ErrFuture, at, w.revision)}
		}
		if at <= w.compacted() {
			return nil
		}
		w.dirty = true
		return w.meta.Put(metaCompacted, number(uint64(at)))
	})
	if err == nil {
		err = s.sweep(ctx)
	}
	if err != nil {
		return fmt.Errorf("compact at %d: %w", at, err)
	}
	return nil
}

// sweep deletes the compacted revisions.
func (s *Store) sweep(ctx context.Context) error {
	for {
		done := false
		err := s.submit(ctx, 0, func(w *write) (err error) {
			done, err = w.sweep()
			return err
		})
		if done || err != nil {
			return err
		}
	}
}

// sweep deletes some of the revisions before the compacted one, and reports whether none is left.
func (w *write) sweep() (done bool, err error) {
	oldest := w.compacted()
	if kv.Revision(numberAt(w.meta, metaSwept)) >= oldest {
		return true, nil
	}
	w.dirty = true
	c := w.history.Cursor()
	var gone [][]byte
	for k, data := c.First(); k != nil && len(gone) < sweepRevisions; k, data = c.Next() {
		r := kv.Revision(binary.BigEndian.Uint64(k))
		if r > oldest {
			break
		}
		keys, err := decodeKeys(data)
		if err != nil {
			return false, err
		}
		for _, key := range keys {
			if err := w.purge(key, oldest); err != nil {
				return false, err
			}
		}
		if r == oldest {
			break
		}
		gone = append(gone, bytes.Clone(k))
	}
	for _, k := range gone {
		if err := w.history.Delete(k); err != nil {
			return false, err
		}
	}
	if len(gone) == sweepRevisions {
		return false, nil
	}
	return true, w.meta.Put(metaSwept, number(uint64(oldest)))
}

// purge deletes the versions of a key that no read from oldest on can see. It keeps a delete at exactly that revision:
// a watch from there needs it.
func (w *write) purge(key kv.Key, oldest kv.Revision) error {
	var gone [][]byte
	head := versionKey(key, 0)[:len(key)+1]
	var last []byte // the newest up to oldest
	var lastData []byte
	c := w.versions.Cursor()
	for k, data := c.Seek(head); k != nil && bytes.HasPrefix(k, head); k, data = c.Next() {
		if _, r := splitVersionKey(k); r > oldest {
			break
		}
		if last != nil {
			gone = append(gone, last)
		}
		last, lastData = bytes.Clone(k), data
	}
	if last != nil && deleted(lastData) {
		if _, r := splitVersionKey(last); r < oldest {
			gone = append(gone, last)
		}
	}
	for _, k := range gone {
		if err := w.versions.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
