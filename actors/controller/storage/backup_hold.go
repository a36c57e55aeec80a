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
	BackupHold  = time.Hour
	backupWord  = "backup " // followed by an id
	holdsBeyond = 8         // times Retention.Bytes: above that the leader compacts in spite of a backup
)

// BackUp streams the current content of the store, and keeps its revision from being compacted until the stream is
// complete.
func (d *Access) BackUp(ctx context.Context, version string) (func(context.Context, io.Writer) error, error) {
	release := d.hold(ctx)
	s, err := backup.Open(d.Reader(ctx), backup.Header{Version: version, Store: d.store.ID(), Time: d.Now()})
	if err != nil {
		release()
		return nil, err
	}
	return func(ctx context.Context, w io.Writer) error {
		defer release()
		return s.Write(d.Reader(ctx), w)
	}, nil
}

// hold marks the current revision. If that fails, the backup runs anyway, and may end early.
func (d *Access) hold(ctx context.Context) (release func()) {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	_, now, err := d.store.Get(ctx, history.HeadKey())
	var lease kv.LeaseID
	if err == nil {
		lease, err = d.Grant(ctx, BackupHold)
	}
	if err == nil {
		key := history.ElectionKey(backupWord + uuid.NewString())
		_, err = d.Commit(ctx, kv.Txn{Then: []kv.Op{kv.PutLeased(key, Encode(now), lease)}})
	}
	if err != nil {
		d.Log.Warn("hold the revision of a backup", zap.Error(err))
	}
	return func() {
		if lease != 0 {
			d.drop(lease)
		}
	}
}

// held returns the oldest revision that a backup reads; some is false without a backup.
func (d *Access) held(ctx context.Context) (oldest kv.Revision, some bool, err error) {
	entries, err := d.Reader(ctx).All(history.InElections, 0)
	for _, e := range entries {
		names := history.Names(e.Key)
		var at kv.Revision
		if len(names) != 1 || !strings.HasPrefix(names[0], backupWord) || json.Unmarshal(e.Value, &at) != nil {
			continue
		}
		if !some || at < oldest {
			oldest, some = at, true
		}
	}
	return oldest, some, err
}

// compactTo compacts the store, up to the oldest revision that a backup reads.
func (d *Access) compactTo(ctx context.Context, to kv.Revision, grown int64) error {
	ctx, cancel := context.WithTimeout(ctx, 2*StoreTimeout)
	defer cancel()
	if grown < holdsBeyond*Retention.Bytes {
		oldest, some, err := d.held(ctx)
		if err != nil {
			return err
		}
		if some && oldest < to {
			to = oldest
		}
	}
	return d.store.Compact(ctx, to)
}
