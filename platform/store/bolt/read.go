package bolt

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"edgespan/config/kv"
)

func (s *Store) Get(ctx context.Context, key kv.Key) (e kv.Entry, at kv.Revision, err error) {
	if err := key.Check(); err != nil {
		return kv.Entry{}, 0, err
	}
	err = s.readFile(ctx, func(v view) (err error) {
		at = v.last()
		e, err = v.at(key, at)
		return err
	})
	if err != nil {
		return kv.Entry{}, 0, fmt.Errorf("get %q: %w", key, err)
	}
	return e, at, nil
}

func (s *Store) List(ctx context.Context, p kv.Prefix, o kv.ListOptions) (page kv.Page, err error) {
	if err := o.Check(p); err != nil {
		return kv.Page{}, err
	}
	err = s.readFile(ctx, func(v view) error {
		page.Revision = o.At
		if o.At == 0 {
			page.Revision = v.last()
		}
		if err := v.reads(page.Revision); err != nil {
			return err
		}
		return v.below(p, o.After, page.Revision, func(e kv.Entry) bool {
			if o.Limit > 0 && len(page.Entries) == o.Limit {
				page.More = true
				return false
			}
			if o.Keys {
				e.Value = nil
			}
			page.Entries = append(page.Entries, e)
			return true
		})
	})
	if err != nil {
		return kv.Page{}, fmt.Errorf("list below %q: %w", p, err)
	}
	return page, nil
}

// reads returns an error if the state at a revision can't be read.
func (v view) reads(r kv.Revision) error {
	if last := v.last(); r > last {
		return fmt.Errorf("%w: %d, the store is at %d", kv.ErrFuture, r, last)
	}
	if oldest := v.compacted(); r < oldest {
		return fmt.Errorf("%w: %d, the oldest is %d", kv.ErrCompacted, r, oldest)
	}
	return nil
}

// Size returns the size of the pages in use. bbolt updates the number of free pages after each write.
func (s *Store) Size(ctx context.Context) (size int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	err = s.db.View(func(tx *bbolt.Tx) error {
		free := s.db.Stats()
		size = tx.Size() - int64(free.FreePageN+free.PendingPageN)*int64(s.db.Info().PageSize)
		return nil
	})
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return 0, kv.ErrClosed
	}
	return max(size, 0), err
}
