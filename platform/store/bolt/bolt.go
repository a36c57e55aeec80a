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

// ErrLocked is a file that another process has open.
var ErrLocked = config.Conflict.NewError("in use by another controller: stop it first")

// mapped is the address space that the file begins with. A file that outgrows it
// is mapped anew, which waits for readers.
const mapped = 256 << 20

// Options are what a store is opened with. The zero value is for production.
type Options struct {
	Clock backend.Clock // of leases; nil: the machine's
	// UnsafeNoSync acknowledges without a sync: for tests that write a lot and do
	// not ask what a power cut leaves.
	UnsafeNoSync bool
	// Told hears why the store begins to take no writes, and nil when it takes them again;
	// nil: nobody. It must not call the store.
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
	broken   error         // a commit whose fate is unknown: nothing is written after it
	breaking chan struct{} // closed then
	full     error         // why the last commit left nothing on the disk
	rest     time.Time     // until then none is tried after it
	leases   map[kv.LeaseID]*lease
	relisten chan struct{} // the end of some lease came nearer
}

var _ backend.Store = (*Store)(nil)

// Open opens the store in a file, which it makes if it is missing. The folder is
// there. Leases that were granted begin their time anew.
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
	// On a full disk it is read all the same; the next compaction sweeps then.
	if err := s.sweep(context.Background()); err != nil && !errors.Is(err, kv.ErrUnwritten) {
		return nil, fmt.Errorf("open store %s: %w", path, errors.Join(err, s.Close()))
	}
	return s, nil
}

func openFile(path string, noSync bool) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: 200 * time.Millisecond, InitialMmapSize: mapped, NoSync: noSync,
		// The list of free pages is found again at the start and not synced with
		// each commit, as in etcd.
		NoFreelistSync: true, FreelistType: bbolt.FreelistMapType,
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, ErrLocked
	}
	return db, err
}

// create makes the file under another name and links it to its own once it is
// whole, so that a power cut leaves a store or none; a link does not replace the
// file of another controller that is as fast.
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

// Close waits for the commit in flight and refuses the ones behind it.
func (s *Store) Close() error {
	s.close.Do(func() {
		close(s.closing)
		s.ended.Wait()
		s.closed = s.db.Close()
	})
	return s.closed
}

// see reads the file. What read keeps must be a copy.
func (s *Store) see(ctx context.Context, read func(view) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := s.db.View(func(tx *bbolt.Tx) error { return read(viewOf(tx)) })
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return kv.ErrClosed
	}
	return err
}
