package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"edgespan/config/kv"
	"edgespan/platform/store/backend"
)

// MaxFleet is the most bytes that the name of a fleet may have: the limits of a
// transaction leave that much room in each key.
const MaxFleet = 100

// Options say which cluster, and which fleet in it.
type Options struct {
	Endpoints []string // such as https://10.0.0.1:2379
	Fleet     string   // names the keys of this fleet; one segment
	TLS       *tls.Config
	Username  string
	Password  string
	Log       *zap.Logger // nil: silent
}

// Store is a fleet's part of a cluster.
type Store struct {
	client *clientv3.Client
	guard  *guard
	root   string // of all keys
	id     string

	mu      sync.Mutex
	closed  bool
	full    error     // why there is no room; nil: there is
	refused time.Time // when that was noted last
	sizes   map[string]size
}

var _ backend.Store = (*Store)(nil)

// Open connects to a cluster and gives the fleet its id, if it has none. Until the
// context ends it waits for a cluster that does not answer.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := kv.Key(o.Fleet).Check(); err != nil || len(o.Fleet) > MaxFleet {
		return nil, fmt.Errorf("open store: fleet %.120q: %w: must be a key of at most %d bytes", o.Fleet, kv.ErrInvalid,
			MaxFleet)
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	s := &Store{root: "edgespan/" + o.Fleet + "/"}
	g := newGuard(o)
	g.alarmed, g.weighed = s.alarmed, s.weighed
	c := config(o)
	c.DialOptions = append(c.DialOptions, grpc.WithContextDialer(g.dial))
	client, err := clientv3.New(c)
	if err != nil {
		return nil, fmt.Errorf("open store at %q: %w", o.Endpoints, err)
	}
	s.client, s.guard = client, g
	g.run(o, s.root+"id", client)
	if s.id, err = s.makeID(ctx); err != nil {
		return nil, fmt.Errorf("open store at %q: %w", o.Endpoints, errors.Join(err, s.Close()))
	}
	return s, nil
}

// keys is below what the keys of the store lie; its id lies beside them.
func (s *Store) keys() string { return s.root + "k/" }

func (s *Store) makeID(ctx context.Context) (string, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", err
	}
	at := s.root + "id"
	txn := clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(at), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(at, id.String())}, []clientv3.Op{clientv3.OpGet(at)})
	out, err := s.commit(ctx, txn, true) // as if: it makes one id, however often it is done
	if err != nil {
		return "", s.meaning(ctx, err)
	}
	if out.Succeeded {
		return id.String(), nil
	}
	text := string(out.Responses[0].GetResponseRange().Kvs[0].Value)
	if known, err := uuid.Parse(text); err != nil || known.String() != text {
		return "", fmt.Errorf("%s: invalid value %.60q: must be one UUID in lower case", at, text)
	}
	return text, nil
}

func (s *Store) ID() string { return s.id }

// Renew gives the fleet another id, as a backup is about to come back into it: what a store
// of this id counted before must not be counted again. Nobody else may have it open.
func (s *Store) Renew(ctx context.Context) error {
	id, err := uuid.NewRandom()
	if err != nil {
		return fmt.Errorf("renew the store's id: %w", err)
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	if _, err := s.client.Put(ctx, s.root+"id", id.String()); err != nil {
		return fmt.Errorf("renew the store's id: %w", s.meaning(ctx, err))
	}
	s.id = id.String()
	return nil
}

func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	if !first {
		return nil
	}
	s.guard.stop()
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// ready says whether a call may begin: an error means that nothing took place.
func (s *Store) ready(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return kv.ErrClosed
	}
	return ctx.Err()
}

// noSpace notes that the cluster has no room: it takes no write until it is compacted,
// defragmented, and its alarm is disarmed.
func (s *Store) noSpace(err error) error {
	full := fmt.Errorf("%w: %w", kv.ErrFull, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full, s.refused = full, time.Now()
	return full
}

// noteRoom notes that the cluster has room.
func (s *Store) noteRoom() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = nil
}

// alarmed takes what a member said when it was asked for the alarms of the cluster. An answer to a
// question of before the last refused write is old.
func (s *Store) alarmed(asked time.Time, noSpace bool) {
	switch {
	case noSpace:
		_ = s.noSpace(rpctypes.ErrNoSpace) // noted
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.refused.Before(asked) {
			s.full = nil
		}
	}
}

// Sound says why the cluster takes no writes: the last write was refused for want of room, or a
// member says so when it is asked (alarmEvery).
func (s *Store) Sound() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full
}

// size is that of a member's database.
type size struct {
	used, file int64
	limit      int64 // at which the member raises the alarm, by the size of the file; 0: it does not say (before etcd 3.6)
	at         time.Time
}

// sizeCounts is how long what a member said of its size counts: it may have left the cluster.
const sizeCounts = time.Minute

// weighed takes what a member said of its size.
func (s *Store) weighed(member string, asked time.Time, of size) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sizes == nil {
		s.sizes = map[string]size{}
	}
	of.at = asked
	s.sizes[member] = of
}

// Scarce says that a member has three quarters of its limit in use, or that its file, which grows beyond that as pages
// lie scattered, has reached 15/16 of it.
func (s *Store) Scarce() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for member, z := range s.sizes {
		if z.limit > 0 && time.Since(z.at) < sizeCounts && (z.used >= z.limit/4*3 || z.file >= z.limit/16*15) {
			return fmt.Errorf("the store is nearly full: %s has %d MiB in use and a file of %d MiB, of %d MiB: prune the "+
				"history, or raise the limit",
				member, z.used>>20, z.file>>20, z.limit>>20)
		}
	}
	return nil
}

// pause is that before a call is made once more.
func pause(ctx context.Context) {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
	}
}

// passes says whether an error is one of a cluster, or of the way to it, that may be well in a
// moment.
func passes(err error) bool {
	var reported rpctypes.EtcdError
	if errors.As(err, &reported) {
		return reported.Code() == codes.Unavailable
	}
	return errors.Is(err, errLeader) || status.Code(err) == codes.Unavailable
}

// fate tells an error that the guard made from those of the cluster.
func (s *Store) fate(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errLeader) {
		return errLeader
	}
	return err
}

// meaning puts an error of etcd's in the words of the contract.
func (s *Store) meaning(ctx context.Context, err error) error {
	var word error
	switch {
	case err == nil:
		return nil
	case errors.Is(s.ready(ctx), kv.ErrClosed):
		return kv.ErrClosed
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, rpctypes.ErrTimeout):
		// A member goes by the deadline of the call too, and may be the one that says so.
		return fmt.Errorf("the cluster timed out; a majority of its members may be down: %w",
			context.DeadlineExceeded)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, rpctypes.ErrCompacted):
		word = kv.ErrCompacted
	case errors.Is(err, rpctypes.ErrFutureRev):
		word = kv.ErrFuture
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		word = kv.ErrNoLease
	case errors.Is(err, rpctypes.ErrNoSpace):
		return s.noSpace(err)
	case errors.Is(err, rpctypes.ErrTooManyOps), errors.Is(err, rpctypes.ErrRequestTooLarge):
		word = kv.ErrTooLarge
	default:
		return err
	}
	return fmt.Errorf("%w: %w", word, err)
}
