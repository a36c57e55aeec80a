package storage

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/config/fleet/backup"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
)

// A backup reads the store at one revision, for as long as its client takes. It marks that revision with a leased key,
// beyond which the leader does not compact while the store has room.
const (
	BackupHold    = time.Hour
	backupKeyName = "backup " // followed by an id
	maxHoldFactor = 8         // times Retention.Bytes: above that the leader compacts in spite of a backup
)

// BackUp streams the current content of the store, and keeps its revision from being compacted until the stream is
// complete.
func (a *Access) BackUp(ctx context.Context, version string) (func(context.Context, io.Writer) error, error) {
	release := a.hold(ctx)
	s, err := backup.Open(a.Reader(ctx), backup.Header{Version: version, Store: a.store.ID(), Time: a.Now()})
	if err != nil {
		release()
		return nil, err
	}
	return func(ctx context.Context, w io.Writer) error {
		defer release()
		return s.Write(a.Reader(ctx), w)
	}, nil
}

// hold marks the current revision. If that fails, the backup runs anyway, and may end early.
func (a *Access) hold(ctx context.Context) (release func()) {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	_, now, err := a.store.Get(ctx, history.HeadKey())
	var lease kv.LeaseID
	if err == nil {
		lease, err = a.Grant(ctx, BackupHold)
	}
	if err == nil {
		key := history.ElectionKey(backupKeyName + uuid.NewString())
		_, err = a.Commit(ctx, kv.Txn{Then: []kv.Op{kv.PutLeased(key, Encode(now), lease)}})
	}
	if err != nil {
		a.Log.Warn("hold the revision of a backup", zap.Error(err))
	}
	return func() {
		if lease != 0 {
			a.drop(lease)
		}
	}
}

// oldestHold returns the oldest revision that a backup reads; some is false without a backup.
func (a *Access) oldestHold(ctx context.Context) (oldest kv.Revision, some bool, err error) {
	entries, err := a.Reader(ctx).All(history.InElections, 0)
	for _, e := range entries {
		names := history.KeyTexts(e.Key)
		var at kv.Revision
		if len(names) != 1 || !strings.HasPrefix(names[0], backupKeyName) || json.Unmarshal(e.Value, &at) != nil {
			continue
		}
		if !some || at < oldest {
			oldest, some = at, true
		}
	}
	return oldest, some, err
}

// compactTo compacts the store, up to the oldest revision that a backup reads.
func (a *Access) compactTo(ctx context.Context, to kv.Revision, grown int64) error {
	ctx, cancel := context.WithTimeout(ctx, 2*StoreTimeout)
	defer cancel()
	if grown < maxHoldFactor*Retention.Bytes {
		oldest, some, err := a.oldestHold(ctx)
		if err != nil {
			return err
		}
		if some && oldest < to {
			to = oldest
		}
	}
	return a.store.Compact(ctx, to)
}
