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

// MaxFleet is the maximum length of a fleet's name in bytes: the limits of a transaction leave that much room in each
// key.
const MaxFleet = 100

// Options select a cluster and a fleet in it.
type Options struct {
	Endpoints []string // such as https://10.0.0.1:2379
	Fleet     string   // prefix of this fleet's keys; one segment
	TLS       *tls.Config
	Username  string
	Password  string
	Log       *zap.Logger // nil: no log
}

// Store is a fleet's part of a cluster.
type Store struct {
	client *clientv3.Client
	guard  *guard
	root   string // prefix of all keys
	id     string

	mu      sync.Mutex
	closed  bool
	full    error     // why there is no room; nil: there is room
	refused time.Time // the last time that full was set
	sizes   map[string]size
}

var _ backend.Store = (*Store)(nil)

// Open connects to a cluster and creates the fleet's ID if it has none. It waits for a cluster that does not answer
// until ctx ends.
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
	g.alarmed, g.weighed = s.alarmed, s.noteSize
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

// keys returns the prefix of the store's keys. The ID is not below it.
func (s *Store) keys() string { return s.root + "k/" }

func (s *Store) makeID(ctx context.Context) (string, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", err
	}
	at := s.root + "id"
	txn := clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(at), "=", 0)},
		[]clientv3.Op{clientv3.OpPut(at, id.String())}, []clientv3.Op{clientv3.OpGet(at)})
	out, err := s.commit(ctx, txn, true) // idempotent: the fleet gets one ID, however often this is repeated
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

// Renew gives the fleet another ID before a restore: the counters of a store with the old ID must not repeat values.
// No other process may have the store open.
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

// ready returns an error if no call may begin; the call has then done nothing.
func (s *Store) ready(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return kv.ErrClosed
	}
	return ctx.Err()
}

// noSpace records that the cluster has no room: it refuses writes until it is compacted, defragmented, and its alarm
// is disarmed.
func (s *Store) noSpace(err error) error {
	full := fmt.Errorf("%w: %w", kv.ErrFull, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full, s.refused = full, time.Now()
	return full
}

// noteSpace records that the cluster has room.
func (s *Store) noteSpace() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = nil
}

// alarmed processes a member's answer about alarms. An answer to a query from before the last refused write is
// outdated.
func (s *Store) alarmed(asked time.Time, noSpace bool) {
	switch {
	case noSpace:
		_ = s.noSpace(rpctypes.ErrNoSpace) // noSpace records the error
	default:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.refused.Before(asked) {
			s.full = nil
		}
	}
}

// CheckWritable returns the reason why the cluster refuses writes: it refused the last write for lack of room, or a
// member reported the alarm (alarmEvery).
func (s *Store) CheckWritable() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full
}

// size is the size of a member's database.
type size struct {
	used, file int64
	limit      int64 // file size at which the member raises the alarm; 0: unknown (before etcd 3.6)
	at         time.Time
}

// sizeCounts is how long a member's reported size is valid: the member may have left the cluster.
const sizeCounts = time.Minute

// noteSize records a member's size.
func (s *Store) noteSize(member string, asked time.Time, of size) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sizes == nil {
		s.sizes = map[string]size{}
	}
	of.at = asked
	s.sizes[member] = of
}

// CheckSpace returns an error if a member uses three quarters of its limit, or if its file, which grows faster
// because of fragmentation, has reached 15/16 of it.
func (s *Store) CheckSpace() error {
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

// pause waits before a call is repeated.
func pause(ctx context.Context) {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
	}
}

// isTransientError reports whether an error of the cluster or the connection may be temporary.
func isTransientError(err error) bool {
	var reported rpctypes.EtcdError
	if errors.As(err, &reported) {
		return reported.Code() == codes.Unavailable
	}
	return errors.Is(err, errLeader) || status.Code(err) == codes.Unavailable
}

// classifyError returns errLeader if the guard ended the call, and err otherwise.
func (s *Store) classifyError(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errLeader) {
		return errLeader
	}
	return err
}

// meaning converts an error of etcd to one of the contract.
func (s *Store) meaning(ctx context.Context, err error) error {
	var word error
	switch {
	case err == nil:
		return nil
	case errors.Is(s.ready(ctx), kv.ErrClosed):
		return kv.ErrClosed
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.Is(err, rpctypes.ErrTimeout):
		// A member also applies the deadline of the call, and may report it first.
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
