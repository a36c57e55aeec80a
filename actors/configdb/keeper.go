package configdb

import (
	"context"
	"errors"
	"fmt"
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

// Store is what the facts use of the controller's store; platform/store/backend says what the
// methods hold to.
type Store interface {
	Get(ctx context.Context, key kv.Key) (kv.Entry, kv.Revision, error)
	List(ctx context.Context, prefix kv.Prefix, o kv.ListOptions) (kv.Page, error)
	Commit(ctx context.Context, txn kv.Txn) (kv.Outcome, error)
	Watch(ctx context.Context, prefix kv.Prefix, after kv.Revision, deliver func(kv.Batch) error) error
}

// Options is what the keeping of facts is made of.
type Options struct {
	Store Store
	Log   *zap.Logger // nil: silent
	// Now is the wall clock, of the times in the history. nil: the machine's.
	Now func() time.Time
	// Memory bounds what is kept of answers and of documents, together, in bytes. What the
	// facts themselves need (docs/configdb.md) comes on top. 0: DefaultMemory.
	Memory int
	// Key is of the digests that are shown, the same at all replicas. nil: digests are those of the contents.
	Key model.Key
	// Keep is how many versions each half of a record keeps, KeepOwn how many of those that a node uploaded of itself. 0:
	// all.
	Keep, KeepOwn uint64
	// Quota is the most bytes that the nodes of one environment may upload of themselves, their newest versions alone; 0:
	// no bound.
	Quota int64

	sweepAfter int64 // other than sweepAfter, of a test
}

// DefaultMemory is the bound of Options.Memory: the answers of some hundred nodes.
const DefaultMemory = 64 << 20

// What the facts hold to.
const (
	storeTimeout = 10 * time.Second // of one call of the store
	headTimeout  = 5 * time.Second  // of the question how new the facts are
	readTimeout  = 10 * time.Second // of one read, waiting for the store and the state among it
	writeTimeout = 30 * time.Second // of one write, waiting for others among it
	storeBackoff = time.Second      // of the follower, after a store that failed
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

// registryBuckets is how many buckets find the few actors.
const registryBuckets = 2

// Start makes the tree and starts it. It serves once it has read the store (Ready).
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
		Options: o, ctx: ctx, system: supervise.System(o.Log, registryBuckets), strategy: &supervise.Backoff{Log: o.Log},
		answers: newLRU[cached](o.Memory / 4 * 3), blobs: newLRU[[]byte](o.Memory / 4),
	}
	d.fresh = newFreshness(ctx.Done(), d.head)
	d.shown.init()
	d.recent.init()
	k := &Keeper{d: d, cancel: cancel}
	started := make(chan error, 1)
	var err error
	k.top, err = d.system.Root.SpawnNamed(d.props(func() actor.Actor { return &top{d, started} }), "facts")
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

// Stop ends the tree and waits for it until ctx ends; a second call does nothing.
func (k *Keeper) Stop(ctx context.Context) error {
	var err error
	k.stop.Do(func() {
		k.cancel() // what blocks ends now
		err = supervise.Stop(ctx, k.d.system, k.top, &k.d.leaves, "facts")
	})
	return err
}

// Ready says why no request can be served.
func (k *Keeper) Ready(ctx context.Context) error {
	_, err := k.d.now(ctx)
	return err
}

// props makes the Props of an actor that starts again after a crash: a fresh one for each
// spawn.
func (d *deps) props(make func() actor.Actor) *actor.Props {
	return actor.PropsFromProducer(make, actor.WithSupervisor(d.strategy),
		actor.WithReceiverMiddleware(supervise.Lifecycle(d.Log)))
}

// crashed tells an actor that its leaf panicked: the actor does so too, and starts again.
type crashed struct{ reason any }

// leaf runs what blocks beside an actor.
func (d *deps) leaf(of *actor.PID, f func()) {
	supervise.Leaf(d.Log, &d.leaves, of.Id, f, func(reason any) { d.system.Root.Send(of, crashed{reason}) })
}

// top is /facts.
type top struct {
	d       *deps
	started chan error
}

// Receive starts the tree.
func (t *top) Receive(c actor.Context) {
	if _, is := c.Message().(*actor.Started); !is {
		return
	}
	writer, err := c.SpawnNamed(t.d.props(func() actor.Actor { return &writerActor{d: t.d} }), "writer")
	if err == nil {
		t.d.writer.Store(writer)
		t.d.leaf(writer, func() { t.d.clock(writer) })
		t.d.leaf(writer, t.d.fresh.run)
		_, err = c.SpawnNamed(t.d.props(func() actor.Actor { return &followerActor{t.d} }), "follower")
	}
	t.started <- err
}

// busy is why a caller has to come again.
func busy(format string, args ...any) error {
	return &model.Fault{Kind: model.Busy, Text: fmt.Sprintf(format, args...)}
}

// maybeDone is busy of a write that may have taken place or not.
func maybeDone(format string, args ...any) error {
	return &model.Fault{Kind: model.Busy, Text: "write outcome unknown: " + fmt.Sprintf(format, args...),
		Unsure: true}
}

// head asks the store which of its revisions wrote facts/head last.
func (d *deps) head() (kv.Revision, error) {
	ctx, cancel := context.WithTimeout(d.ctx, headTimeout)
	defer cancel()
	e, _, err := d.Store.Get(ctx, model.HeadKey())
	if err != nil {
		return 0, busy("facts: the store does not answer: %v", err)
	}
	return e.ModRevision, nil
}

// now is the state as every acknowledged write left it.
func (d *deps) now(ctx context.Context) (*model.State, error) {
	head, err := d.fresh.newest(ctx)
	if err != nil {
		return nil, late(err)
	}
	if v := d.shown.now.Load(); v.has(head) {
		return v.State, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	state, err := d.shown.wait(ctx, head)
	return state, late(err)
}

// late is what a caller is told whose time is over.
func late(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return busy("facts: timed out reading the newest ones")
	}
	return err
}
