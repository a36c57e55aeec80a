package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"edgespan/cmd/edgespan-controller/serve"
	"edgespan/cmd/term"
	"edgespan/config"
	"edgespan/config/fleet/backup"
	"edgespan/config/fleet/history"
	"edgespan/config/kv"
	"edgespan/platform/confdir"
	"edgespan/platform/datadir"
	"edgespan/platform/store/backend"
	"edgespan/platform/store/etcd"
)

// stepTimeout bounds one step of a restore.
const stepTimeout = time.Minute

// inUse returns the error for a store that is not free for a restore.
func inUse(why string) error {
	return term.WithClass(term.ExitConflict, errors.New("restore: "+why))
}

func newRestore(a *serve.App) *cobra.Command {
	o := serve.NewOptions()
	var newCA bool
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Restore a backup into an empty store",
		Long: `Restore a backup into an empty store: a data folder or an etcd, whichever the backup was taken from;
- reads stdin. The whole file is checked before anything is written. No controller may have run on
the store: start the first one after the restore. If a restore was interrupted, run it again; until
then no controller starts on the store.

Put the fleet's ca.pem into the data folder of each controller before it starts. If ca.pem is lost for
good, --new-ca lets the first start create another CA; then each node has to join again.

The restored store counts generations under an id of its own. Nodes that run the desired config get a
new number only, all others get their config. The backup does not contain what happened after it was
taken: check 'edgespan operators list' and 'edgespan nodes list' for tokens and nodes that were
revoked since.`,
		Example: `  edgespan-controller restore --data-dir /var/lib/edgespan-controller fleet.backup
  edgespan-controller restore --etcd http://10.0.0.1:2379 fleet.backup`,
		Args: term.ExactArgs(1, "one FILE, or -"),
	}
	o.BindStore(cmd)
	cmd.Flags().BoolVar(&newCA, "new-ca", false, "drop the fleet's CA because it is lost: all nodes have to join again")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.Resolve(cmd, a.Env); err != nil {
			return err
		}
		c, done, err := readBackup(a.In, args[0])
		if err != nil {
			return err
		}
		defer done()
		if newCA {
			c.Omit(history.FleetKey())
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), backupTimeout)
		defer cancel()
		return restore(ctx, a, o, c)
	}
	return cmd
}

// readBackup reads and checks a backup from a file or stdin. The copy reads the file again during the restore; call
// done afterwards.
func readBackup(stdin io.Reader, file string) (c *backup.Copy, done func(), err error) {
	var f *os.File
	if file == "-" {
		file = "stdin"
		if f, err = spoolToFile(stdin); err != nil {
			return nil, nil, fmt.Errorf("restore: %w", err)
		}
	} else if f, err = os.Open(file); err != nil {
		return nil, nil, term.WithClass(term.ExitNotFound, fmt.Errorf("restore: %w", err))
	}
	done = func() { _ = f.Close() } // only read
	c, err = backup.Read(f)
	var faults config.Faults
	switch {
	case errors.As(err, &faults):
		err = &confdir.Broken{File: file, Faults: faults}
	case err != nil:
		err = fmt.Errorf("%s: %w", file, err)
	default:
		return c, done, nil
	}
	done()
	return nil, nil, err
}

// spoolToFile copies a stream to an unnamed temporary file, since a backup is read twice.
func spoolToFile(in io.Reader) (*os.File, error) {
	f, err := os.CreateTemp("", "edgespan-restore-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := io.Copy(f, in); err != nil {
		return nil, errors.Join(fmt.Errorf("copy stdin to a file in TMPDIR: %w", err), f.Close())
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// restore restores a backup to the store that the flags name.
func restore(ctx context.Context, a *serve.App, o *serve.Options, c *backup.Copy) (err error) {
	dir, err := datadir.Open(string(o.DataDir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	note, err := o.FitsBackup(c, a.Version)
	if err != nil {
		return err
	}
	s, err := o.OpenStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := restoreInto(ctx, s, c, uuid.NewString(), time.Now()); err != nil {
		return err
	}
	a.Printf("restored %d keys as of %s, revision %d of the store %s, into the store %s", c.Header.Keys,
		c.Header.Time.Format(time.RFC3339), c.Header.Revision, c.Header.Store, s.ID())
	if note != "" {
		a.Printf("%s", note)
	}
	return nil
}

// bringing is a restore in progress.
type bringing struct {
	store backend.Store
	*backup.Restore
}

// restoreInto writes a backup to a store that is empty or contains an interrupted restore.
func restoreInto(ctx context.Context, s backend.Store, c *backup.Copy, id string, now time.Time) error {
	r, err := c.Restore(backup.Mark{ID: id, Time: now.UTC()})
	if err != nil {
		return err
	}
	b := bringing{s, r}
	have, _, err := s.Get(ctx, history.RestoringKey())
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := b.empty(ctx, have.Exists()); err != nil {
		return err
	}
	at, err := b.do(ctx, b.Begin(have))
	if err == nil && have.Exists() {
		at, err = b.clear(ctx, at)
	}
	if err != nil {
		return err
	}
	// Counters must not repeat values that a fleet of this ID had before. A new store file has a new ID anyway.
	if e, ok := s.(*etcd.Store); ok {
		if err := e.Renew(ctx); err != nil {
			return err
		}
	}
	b.SetTarget(s.ID())
	for {
		txn, more, err := b.Next(at)
		if err != nil {
			return fmt.Errorf("restore: with %d keys left: %w: run it again", b.Remaining(), err)
		}
		if !more {
			return nil
		}
		if at, err = b.do(ctx, txn); err != nil {
			return err
		}
	}
}

// empty refuses a store that contains anything else than an interrupted restore.
func (b bringing) empty(ctx context.Context, restoring bool) error {
	if restoring {
		return nil
	}
	p, err := b.store.List(ctx, "", kv.ListOptions{Limit: 1})
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if len(p.Entries) > 0 {
		return inUse(fmt.Sprintf("the store is not empty, it has the key %s: must be a store on which no controller has "+
			"run: give another --data-dir, or another --fleet of the etcd, or remove the old store first", p.Entries[0].Key))
	}
	return nil
}

// clear removes what an interrupted restore has written.
func (b bringing) clear(ctx context.Context, at kv.Revision) (kv.Revision, error) {
	for {
		p, err := b.store.List(ctx, "", kv.ListOptions{Limit: 100})
		if err != nil {
			return 0, fmt.Errorf("restore: %w", err)
		}
		txn, some := b.Clear(p.Entries)
		if !some {
			return at, nil
		}
		if at, err = b.do(ctx, txn); err != nil {
			return 0, err
		}
	}
}

// do commits one transaction.
func (b bringing) do(ctx context.Context, txn kv.Txn) (kv.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	o, err := b.store.Commit(ctx, txn)
	if err != nil {
		return 0, fmt.Errorf("restore: with %d keys left: %w: run it again", b.Remaining(), err)
	}
	if !o.Succeeded {
		return 0, inUse("another process writes into the store, another restore or a controller's first start: stop it and " +
			"run this again")
	}
	return o.Revision, nil
}
