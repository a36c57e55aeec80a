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

// A backup reads the store as of one revision for as long as its reader takes. Whoever makes one says so in a key
// that ends with it, or with its lease: the leader compacts up to there only, while the store has room.
const (
	BackupHold  = time.Hour
	backupWord  = "backup " // and an id
	holdsBeyond = 8         // times retention.Bytes: then the store's room counts for more than a backup
)

// BackUp streams all that the store has as of now. The revision of now is kept until that is written.
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

// hold keeps the revision of now. Without it a backup is made all the same, and may come to an early end.
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

// held is the oldest revision that a backup reads, none where there is none.
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

// compactTo compacts the store, short of what a backup reads.
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
