package configdb

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"edgespan/actors/supervise"
	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/config/kv"
)

// Store is the part of the controller's store that the facts use; platform/store/backend documents the contract of the
// methods.
type Store interface {
	Get(ctx context.Context, key kv.Key) (kv.Entry, kv.Revision, error)
	List(ctx context.Context, prefix kv.Prefix, o kv.ListOptions) (kv.Page, error)
	Commit(ctx context.Context, txn kv.Txn) (kv.TxnResult, error)
	Watch(ctx context.Context, prefix kv.Prefix, after kv.Revision, deliver func(kv.Batch) error) error
}

// Options configure a Keeper.
type Options struct {
	Store Store
	Log   *zap.Logger // nil: silent
	// Now is the wall clock, for timestamps in the history. nil: time.Now.
	Now func() time.Time
	// Memory bounds the caches of answers and documents together, in bytes. The facts themselves (docs/configdb.md) need
	// additional memory. 0: DefaultMemory.
	Memory int
	// Key is the key of shown digests, the same at all replicas. nil: digests of the plain contents.
	Key model.Key
	// Keep is how many versions each half of a record keeps, and KeepOwn how many of those that a node uploaded about
	// itself. 0: all.
	Keep, KeepOwn uint64
	// Quota is how many bytes the nodes of one environment may upload about themselves, counting newest versions only. 0:
	// unlimited.
	Quota int64
	Load  *supervise.Load // counts the actors' messages and crashes; may be nil

	sweepAfter int64 // overrides sweepAfter in tests
}

// DefaultMemory is the default of Options.Memory: the answers of some hundred nodes.
const DefaultMemory = 64 << 20

// Timeouts of the facts.
const (
	storeTimeout = 10 * time.Second // of one call of the store
	headTimeout  = 5 * time.Second  // of the query for the head
	readTimeout  = 10 * time.Second // of one read, including waits for the store and the state
	writeTimeout = 30 * time.Second // of one write, including its wait in the queue
	storeBackoff = time.Second      // pause of the follower after an error of the store
)

// Keeper keeps the facts of one replica.
type Keeper struct {
	d      *deps
	top    *actor.PID
	cancel context.CancelFunc
	stop   sync.Once
}

var _ configdbapi.Backend = (*Keeper)(nil)

// deps is what the actors share.
type deps struct {
	Options
	ctx      context.Context
	system   *actor.ActorSystem
	strategy *supervise.Backoff
	leaves   sync.WaitGroup
	fresh    *freshness
	shown    shown
	recent   recent
	answers  *lru[cached]
	blobs    *lru[[]byte]
	writer   atomic.Pointer[actor.PID]
}

// registryBuckets is the number of buckets of the registry of the few actors.
const registryBuckets = 2

// Start creates and starts the tree. It serves once it has read the store (Ready).
func Start(o Options) (*Keeper, error) {
	if o.Store == nil {
		return nil, errors.New("start the facts: store: required")
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.sweepAfter == 0 {
		o.sweepAfter = sweepAfter
	}
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &deps{
		Options: o, ctx: ctx, system: supervise.System(o.Log, registryBuckets), strategy: o.newStrategy(),
		answers: newLRU[cached](o.Memory / 4 * 3), blobs: newLRU[[]byte](o.Memory / 4),
	}
	d.fresh = newFreshness(ctx.Done(), d.readHead)
	d.shown.init()
	d.recent.init()
	k := &Keeper{d: d, cancel: cancel}
	started := make(chan error, 1)
	var err error
	k.top, err = d.system.Root.SpawnNamed(d.props("configdb", func() actor.Actor { return &top{d, started} }), "facts")
	if err == nil {
		err = <-started
	}
	if err != nil {
		cancel()
		d.system.Shutdown()
		return nil, fmt.Errorf("start the facts: %w", err)
	}
	return k, nil
}

// Stop stops the tree and waits for it until ctx ends; a second call does nothing.
func (k *Keeper) Stop(ctx context.Context) error {
	var err error
	k.stop.Do(func() {
		k.cancel() // ends blocking calls
		err = supervise.Stop(ctx, k.d.system, k.top, &k.d.leaves, "facts")
	})
	return err
}

// Caches returns how often the cache of answers and that of documents were used.
func (k *Keeper) Caches() (answers, documents CacheUse) {
	return k.d.answers.use.load(), k.d.blobs.use.load()
}

// Ready reports why no request can be served.
func (k *Keeper) Ready(ctx context.Context) error {
	_, err := k.d.currentState(ctx)
	return err
}

// childKind begins the kinds of actors below the top one; their names follow.
const childKind = "configdb_"

// newStrategy returns the supervision of the actors below the top one, of which there is one of each kind.
func (o Options) newStrategy() *supervise.Backoff {
	return &supervise.Backoff{Log: o.Log, Crashed: func(id string, _ int, _ string, _ time.Duration) {
		o.Load.Crashed(childKind + path.Base(id))
	}}
}

// props returns new Props for an actor that restarts after a crash. Use them for one spawn.
func (d *deps) props(kind string, make func() actor.Actor) *actor.Props {
	return actor.PropsFromProducer(make, actor.WithSupervisor(d.strategy), d.Load.Mailbox(kind),
		actor.WithReceiverMiddleware(supervise.Lifecycle(d.Log)))
}

// leafCrashed tells an actor that its leaf panicked: the actor then panics too, and restarts.
type leafCrashed struct{ reason any }

// runLeaf runs code that blocks on behalf of an actor.
func (d *deps) runLeaf(of *actor.PID, f func()) {
	supervise.Leaf(d.Log, &d.leaves, of.Id, f, func(reason any) { d.system.Root.Send(of, leafCrashed{reason}) })
}

// top is /facts.
type top struct {
	d       *deps
	started chan error
}

func (t *top) Receive(c actor.Context) {
	if _, ok := c.Message().(*actor.Started); !ok {
		return
	}
	writer, err := c.SpawnNamed(t.d.props(childKind+"writer", func() actor.Actor { return &writerActor{d: t.d} }),
		"writer")
	if err == nil {
		t.d.writer.Store(writer)
		t.d.runLeaf(writer, func() { t.d.scheduleSweeps(writer) })
		t.d.runLeaf(writer, t.d.fresh.run)
		_, err = c.SpawnNamed(t.d.props(childKind+"follower", func() actor.Actor { return &followerActor{t.d} }),
			"follower")
	}
	t.started <- err
}

// busyError is the error for a caller that should retry later.
func busyError(format string, args ...any) error {
	return &model.RequestError{Kind: model.Busy, Text: fmt.Sprintf(format, args...)}
}

// outcomeUnknownError is the error for a write whose outcome is unknown.
func outcomeUnknownError(format string, args ...any) error {
	return &model.RequestError{Kind: model.Busy, Text: "write outcome unknown: " + fmt.Sprintf(format, args...),
		Unsure: true}
}

// readHead returns the revision of the store that wrote facts/head last.
func (d *deps) readHead() (kv.Revision, error) {
	ctx, cancel := context.WithTimeout(d.ctx, headTimeout)
	defer cancel()
	e, _, err := d.Store.Get(ctx, model.HeadKey())
	if err != nil {
		return 0, busyError("facts: the store does not answer: %v", err)
	}
	return e.ModRevision, nil
}

// currentState returns the state after every acknowledged write.
func (d *deps) currentState(ctx context.Context) (*model.State, error) {
	head, err := d.fresh.newest(ctx)
	if err != nil {
		return nil, timeoutError(err)
	}
	if v := d.shown.now.Load(); v.has(head) {
		return v.State, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	state, err := d.shown.wait(ctx, head)
	return state, timeoutError(err)
}

// timeoutError replaces a timeout by the error for the caller.
func timeoutError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return busyError("facts: timed out reading the newest ones")
	}
	return err
}
