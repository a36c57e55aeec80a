package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"edgespan/config/fleet/history"
	"edgespan/config/kv"
	"edgespan/platform/store/backend"
)

// The format of what controllers keep in their fleet's store, whichever store it is. A version that changes the
// meaning of a key increments storeFormat, and sets leastFormat to it if older controllers would misread the key.
const (
	storeFormat = 1 // the format that this version writes
	leastFormat = 1 // the format that a controller must support to read it
)

// storeForm is the value of the format key.
type storeForm struct {
	Format int    `json:"format"`
	Least  int    `json:"least"`
	By     string `json:"by"` // the version that wrote it
}

// newerStoreError reports a store that this version would misread.
type newerStoreError struct {
	form    storeForm
	version string // this version
}

func (e *newerStoreError) Error() string {
	return fmt.Sprintf("open store: store format %d, written by version %s: needs a controller that supports format %d, "+
		"and this one, version %s, supports format %d: upgrade it",
		e.form.Format, e.form.By, e.form.Least, e.version, storeFormat)
}

// parseStoreForm parses the value of the format key and checks that this version supports it. A store without the key
// has format 1.
func parseStoreForm(value []byte, version string) (storeForm, error) {
	f := storeForm{Format: 1, Least: 1}
	if len(value) == 0 {
		return f, nil
	}
	if err := json.Unmarshal(value, &f); err != nil {
		return f, fmt.Errorf("open store: read the key %s: %w", history.FormatKey(), err)
	}
	return f, f.fits(version)
}

func (f storeForm) fits(version string) error {
	if f.Least > storeFormat {
		return &newerStoreError{f, version}
	}
	return nil
}

// readForm reads the format of a store, and fails if this version would misread it.
func readForm(ctx context.Context, s backend.Store, version string) (storeForm, kv.Entry, kv.Revision, error) {
	e, at, err := s.Get(ctx, history.FormatKey())
	if err != nil {
		return storeForm{}, e, at, fmt.Errorf("open store: %w", err)
	}
	f, err := parseStoreForm(e.Value, version)
	return f, e, at, err
}

// keepForm writes this version's format to the store. It does not replace a newer one.
func keepForm(ctx context.Context, s backend.Store, version string) error {
	for {
		f, e, _, err := readForm(ctx, s, version)
		if err != nil || e.Exists() && f.Format >= storeFormat {
			return err
		}
		text, err := json.Marshal(storeForm{storeFormat, max(leastFormat, f.Least), version})
		if err != nil {
			return err
		}
		o, err := s.Commit(ctx, kv.Txn{
			Compares: []kv.Compare{kv.AtRevision(e.Key, e.ModRevision), kv.Absent(history.RestoringKey())},
			Then:     []kv.Op{kv.Put(history.FormatKey(), text)},
		})
		switch {
		case errors.Is(err, kv.ErrUnwritten), errors.Is(err, kv.ErrFull):
			return nil // a full disk; the next start tries again
		case err != nil:
			return fmt.Errorf("open store: %w", err)
		case o.Succeeded:
			return nil
		}
		if err := checkRestored(ctx, s); err != nil {
			return err
		}
	}
}

// formAgain is the pause after a failed read of the format.
const formAgain = 10 * time.Second

// watchForm waits until a newer version writes a format that this one can't read, and returns that error. It returns
// nil when ctx ends.
func watchForm(ctx context.Context, s backend.Store, version string, log *zap.Logger) error {
	for {
		_, _, at, err := readForm(ctx, s, version)
		if err == nil {
			err = s.Watch(ctx, history.InFormats, at, func(b kv.Batch) error {
				for _, e := range b.Events {
					if e.Kind == kv.EventPut && e.Entry.Key == history.FormatKey() {
						if _, err := parseStoreForm(e.Entry.Value, version); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, kv.ErrClosed):
			return nil
		case errors.As(err, new(*newerStoreError)):
			return err
		}
		log.Debug("watch the form of the store", zap.Error(err))
		select {
		case <-time.After(formAgain):
		case <-ctx.Done():
			return nil
		}
	}
}
