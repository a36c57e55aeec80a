package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/kv"
	"edgespan/config/layers/migrate"
	"edgespan/pubsub/backoff"
)

// Migration is the author of the revisions in which the leader migrates layers.
var Migration = fleetapi.Caller{Name: "migration", Role: fleetapi.Admin}

// When the leader checks whether to migrate layers: at once, but it waits up to versionsKnown until it knows which
// versions the nodes run; and again after an obstacle.
const (
	migrateCheckEvery = time.Second
	versionsKnown     = 30 * time.Second
	migrateRetry      = time.Minute
	migrateSlowRetry  = time.Hour
	maxListed         = 512 // bytes of a list of nodes, in the log
)

// migrationRecord is the value of the key that records how far layers were migrated.
type migrationRecord struct {
	Done     migrate.Done `json:"done"`
	Revision uint64       `json:"revision,omitempty"` // of the last migration; 0: nothing had to be migrated
	At       time.Time    `json:"at"`
	Replica  string       `json:"replica"`
}

// migrationNote is that key as a write has read it, and its new value.
type migrationNote struct {
	same kv.Compare
	put  *kv.Op // nil: unchanged
}

// bind stores the new value with a change, provided that the key has not changed.
func (n migrationNote) bind(c *history.Change) {
	if n.put != nil {
		c.Compares, c.Then = append(c.Compares, n.same), append(c.Then, *n.put)
	}
}

// readMigrations reads how far the layers were migrated.
func (wr *Writer) readMigrations(ctx context.Context) (r migrationRecord, e kv.Entry, err error) {
	entries, err := wr.Reader(ctx).Get(history.MigratedKey())
	if err != nil {
		return r, e, fmt.Errorf("read the migration state of the layers: %w", err)
	}
	if e = entries[0]; e.Exists() {
		if err := json.Unmarshal(e.Value, &r); err != nil {
			return r, e, fmt.Errorf("read the migration state of the layers: the key %s: %w", e.Key, err)
		}
	}
	return r, e, nil
}

// migrations sets world.Migrated for a write that depends on it.
func (wr *Writer) migrations(w WriteRequest, world *ops.Snapshot) (migrationNote, error) {
	_, all := w.Request.Write.(ops.Migrate)
	if _, ok := w.Request.Write.(ops.Import); !ok && !all {
		return migrationNote{}, nil
	}
	r, e, err := wr.readMigrations(w.ctx)
	if err != nil {
		return migrationNote{}, err
	}
	world.Migrated = r.Done
	note := migrationNote{same: kv.AtRevision(e.Key, e.ModRevision)}
	if all {
		now := migrationRecord{world.DueMigrations().After(r.Done), world.State.Number + 1, wr.Now().UTC(), wr.Replica}
		put := kv.Put(e.Key, Encode(now))
		note.put = &put
	}
	return note, nil
}

// note stores a migration that changed no layer.
func (wr *Writer) note(w WriteRequest, world *ops.Snapshot, n migrationNote) error {
	if n.put == nil {
		return nil
	}
	r := migrationRecord{Done: world.DueMigrations().After(world.Migrated), At: wr.Now().UTC(), Replica: wr.Replica}
	_, err := wr.Commit(w.ctx,
		kv.Txn{Compares: append([]kv.Compare{n.same}, w.fence...), Then: []kv.Op{kv.Put(n.same.Key, Encode(r))}})
	return err
}

var (
	// errBackupFirst is the result of a write that migrates layers before a backup was written.
	errBackupFirst = errors.New("waiting for a backup")
	errNoBackup    = errors.New("no migration without a backup")
)

// WriteBackedUp runs a write in the store actor. If the write migrates layers, it first writes a backup, outside of the
// store actor, so that other writes don't wait for it.
func (wr *Writer) WriteBackedUp(ctx context.Context, w WriteRequest) WriteResult {
	a := wr.writeQueued(ctx, w)
	if !errors.Is(a.Err, errBackupFirst) {
		return a
	}
	if wr.Backup == nil {
		return WriteResult{Err: fmt.Errorf("migrate layers: %w: this controller has no folder for backups", errNoBackup)}
	}
	file, err := wr.Backup(ctx)
	if err != nil {
		return WriteResult{Err: fmt.Errorf("migrate layers: %w: %w", errNoBackup, err)}
	}
	wr.Log.Info("backup before layers are migrated", zap.String("file", file))
	w.backedUp = true
	return wr.writeQueued(ctx, w)
}

func (wr *Writer) writeQueued(ctx context.Context, w WriteRequest) WriteResult {
	ctx, cancel := context.WithTimeout(ctx, WriteTimeout)
	defer cancel()
	return wr.Write(ctx, w)
}

// migrateDue is the leader's timer to check again whether to migrate layers.
type migrateDue struct {
	term  int
	after time.Duration // how long the timer waited
}

// migrate migrates the layers to the keys of this version, once.
func (a *leaderActor) migrate(waited time.Duration) {
	ctx, by, term, self := a.ctx, *a.leads, a.term, a.self
	patient := a.d.Now().Sub(a.began) < versionsKnown
	a.d.Leaf("migrate", func() {
		again := a.d.migrateAll(ctx, by, patient, waited)
		if again > 0 {
			a.d.After(again, func() { a.d.Send(self, migrateDue{term, again}) })
		}
	})
}

// migrateAll returns after which time to check again; 0: never, all is done.
func (wr *Writer) migrateAll(ctx context.Context, by kv.Leadership, patient bool,
	waited time.Duration) (again time.Duration) {
	r, _, err := wr.readMigrations(ctx)
	if err == nil && len(migrate.Due(r.Done, nil).Steps()) == 0 {
		return 0
	}
	if err == nil && (!wr.Ready() || patient && wr.unknownVersions()) {
		return migrateCheckEvery
	}
	var made WriteResult
	w := wr.SnapshotAt(history.State{})
	if w.Migrated = r.Done; err == nil && len(w.DueMigrations().Steps()) > 0 {
		if wr.Waits() {
			return migrateCheckEvery
		}
		request := fleetapi.WriteRequest{Caller: Migration, Write: ops.Migrate{}}
		made = wr.WriteBackedUp(ctx, WriteRequest{Request: request, fence: []kv.Compare{by.Fence()}})
		err = made.Err
	}
	if ctx.Err() != nil {
		return 0 // another replica leads
	}
	if err != nil {
		wr.Log.Error("layers have keys of an older version and are not migrated: they remain in use unchanged",
			zap.Error(err))
		return backoff.Backoff{First: migrateRetry, Max: migrateSlowRetry}.Next(waited)
	}
	if made.Record.Tree != "" {
		wr.Log.Info("layers migrated", zap.Uint64("revision", made.Record.Number),
			zap.String("moved", made.Outcome.MigratedText()))
	}
	return wr.logHeldMigrations(ctx, waited)
}

// logHeldMigrations logs once which migrations wait for nodes, and returns when to check again.
func (wr *Writer) logHeldMigrations(ctx context.Context, waited time.Duration) time.Duration {
	r, _, err := wr.readMigrations(ctx)
	if err != nil {
		return migrateRetry
	}
	w := wr.SnapshotAt(history.State{})
	w.Migrated = r.Done
	due := w.DueMigrations()
	switch {
	case len(due.Held) == 0 && len(due.Steps()) == 0:
		return 0
	case len(due.Held) > 0 && waited != migrateRetry:
		wr.Log.Warn("layers keep keys of an older version until these nodes are upgraded",
			zap.String("migration", due.Held[0].Version),
			zap.String("nodes", config.Truncate(strings.Join(w.HeldBy(due.Held[0]), ", "), maxListed)))
	}
	return migrateRetry
}

// unknownVersions reports whether a joined node has not yet reported its version.
func (wr *Writer) unknownVersions() bool {
	for _, n := range wr.SnapshotAt(history.State{}).Nodes {
		if n.ID != "" && n.Versions.Software == "" {
			return true
		}
	}
	return false
}
