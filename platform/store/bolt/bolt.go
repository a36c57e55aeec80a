package bolt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"edgespan/config"
	"edgespan/config/kv"
	"edgespan/platform/store/backend"
)

// ErrLocked reports that another process has the file open.
var ErrLocked = config.Conflict.NewError("in use by another controller: stop it first")

// mapped is the initial size of the memory map. A file that outgrows it is mapped again, which waits for readers.
const mapped = 256 << 20

// Options are the options of Open. The zero value is for production.
type Options struct {
	Clock backend.Clock // for leases; nil: the machine's
	// UnsafeNoSync acknowledges without a sync, for tests that write a lot and don't test power failures.
	UnsafeNoSync bool
	// Told is called with the reason when the store begins to refuse writes, and with nil when it accepts them again. It
	// must not call the store, and may be nil.
	Told func(err error)
}

// Store is one open file.
type Store struct {
	db       *bbolt.DB
	id       string
	clock    backend.Clock
	reported func(error)

	jobs    chan *job
	closing chan struct{}
	ended   sync.WaitGroup
	close   sync.Once
	closed  error

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced after each commit
	broken   error         // a commit whose outcome is unknown: no more writes
	breaking chan struct{} // closed when broken is set
	full     error         // why the last commit wrote nothing
	rest     time.Time     // no commit is tried before this time
	leases   map[kv.LeaseID]*lease
	relisten chan struct{} // the next end of a lease may be earlier now
}

var _ backend.Store = (*Store)(nil)

// Open opens the store in a file, and creates the file if it is missing; the folder must exist. The time of existing
// leases starts again.
func Open(path string, o Options) (*Store, error) {
	if o.Clock == nil {
		o.Clock = backend.Wall{}
	}
	if o.Told == nil {
		o.Told = func(error) {}
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, fmt.Errorf("create store %s: %w", path, err)
		}
	}
	s := &Store{
		clock: o.Clock, reported: o.Told, breaking: make(chan struct{}), jobs: make(chan *job), closing: make(chan struct{}),
		changed: make(chan struct{}),
		leases:  map[kv.LeaseID]*lease{}, relisten: make(chan struct{}, 1),
	}
	var err error
	if s.db, err = openFile(path, o.UnsafeNoSync); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, errors.Join(err, s.db.Close()))
	}
	s.ended.Add(2)
	go s.write()
	go s.expire()
	// On a full disk the store still opens for reading; the next compaction sweeps.
	if err := s.sweep(context.Background()); err != nil && !errors.Is(err, kv.ErrUnwritten) {
		return nil, fmt.Errorf("open store %s: %w", path, errors.Join(err, s.Close()))
	}
	return s, nil
}

func openFile(path string, noSync bool) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: 200 * time.Millisecond, InitialMmapSize: mapped, NoSync: noSync,
		// The list of free pages is rebuilt at the start instead of being synced with each commit, as in etcd.
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, ErrLocked
	}
	return db, err
}

// create writes the file under another name and links it to its own when it is complete, so that a power failure
// leaves a complete store or none. Unlike a rename, a link does not replace the file of a concurrent controller.
func create(path string) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".tmp-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(temp.Name())) }()
	if err := temp.Close(); err != nil {
		return err
	}
	db, err := openFile(temp.Name(), false)
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(initialise), db.Sync(), db.Close()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func initialise(tx *bbolt.Tx) error {
	id, err := uuid.NewRandom()
	if err != nil {
		return err
	}
	for _, name := range [][]byte{bucketMeta, bucketVersions, bucketHistory, bucketLeases, bucketLeased} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	meta := tx.Bucket(bucketMeta)
	return errors.Join(meta.Put(metaFormat, number(format)), meta.Put(metaID, []byte(id.String())))
}

// load reads what is kept in memory.
func (s *Store) load() error {
	return s.db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if meta == nil {
			return errors.New("a bbolt file, but not the store of a controller")
		}
		if got := numberAt(meta, metaFormat); got != format {
			return fmt.Errorf("unknown format %d: must be %d", got, format)
		}
		s.id = string(meta.Get(metaID))
		return s.loadLeases(tx.Bucket(bucketLeases))
	})
}

func (s *Store) ID() string { return s.id }

// Close waits for the commit in progress and refuses the ones after it.
func (s *Store) Close() error {
	s.close.Do(func() {
		close(s.closing)
		s.ended.Wait()
		s.closed = s.db.Close()
	})
	return s.closed
}

// readFile reads the file. read must copy what it keeps.
func (s *Store) readFile(ctx context.Context, read func(view) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.db.View(func(tx *bbolt.Tx) error { return read(viewOf(tx)) })
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return kv.ErrClosed
	}
	return err
}
