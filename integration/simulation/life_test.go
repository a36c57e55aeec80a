package simulation

import (
	"context"
	"errors"
	"sync"
	"time"

	"edgespan/actors/node"
	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
	"edgespan/platform/fake"
)

// life is one process of the daemon: what it does reaches the host and the disk until it is killed. The library can't
// end actors at once, so those of a killed process go on for a while, and everything they do fails.
type life struct {
	*fake.Host
	journal *fake.Journal
	node    *node.Node
	crashes *crashes
	ctx     context.Context
	end     context.CancelFunc

	began time.Time
	mu    sync.Mutex
	ops   int // until it is killed by itself; 0 for never
	whole bool
	beat  time.Time
	late  time.Duration // the longest time between two notifications of the watchdog
}

var errKilled = errors.New("the process was killed")

func newLife(h *fake.Host, j *fake.Journal) *life {
	ctx, end := context.WithCancel(context.Background())
	return &life{Host: h, journal: j, crashes: new(crashes), ctx: ctx, end: end, began: time.Now(), beat: time.Now()}
}

func (l *life) dead() bool { return l.ctx.Err() != nil }

// while runs f with a context that ends with the process, too.
func while[T any](ctx context.Context, l *life, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	if l.dead() {
		var none T
		return none, errKilled
	}
	return f(ctx)
}

// dieAfter kills the process in its nth operation from now on: before or after that takes effect.
func (l *life) dieAfter(n int, whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ops, l.whole = n, whole
}

// dies counts an operation, and reports whether it is the last, and whether it takes effect.
func (l *life) dies() (last, whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ops == 0 {
		return false, true
	}
	l.ops--
	return l.ops == 0, l.whole
}

func (l *life) Do(ctx context.Context, o netstate.Owner, op netstate.Op) error {
	last, whole := l.dies()
	if last && !whole {
		l.end()
	}
	_, err := while(ctx, l, func(ctx context.Context) (struct{}, error) { return struct{}{}, l.Host.Do(ctx, o, op) })
	if last {
		l.end()
		return errKilled
	}
	return err
}

func (l *life) Observe(ctx context.Context, o netstate.Owner, full bool) (netstate.State, error) {
	return while(ctx, l, func(ctx context.Context) (netstate.State, error) { return l.Host.Observe(ctx, o, full) })
}

func (l *life) Probe(ctx context.Context, id probe.ID) (took time.Duration, bytes int, err error) {
	took, err = while(ctx, l, func(ctx context.Context) (took time.Duration, err error) {
		took, bytes, err = l.Host.Probe(ctx, id)
		return took, err
	})
	return took, bytes, err
}

func (l *life) TunnelStatus(ctx context.Context, o netstate.Owner) (netstate.TunnelStatus, error) {
	return while(ctx, l, func(ctx context.Context) (netstate.TunnelStatus, error) { return l.Host.TunnelStatus(ctx, o) })
}

func (l *life) ForgetFlows(ctx context.Context, match func(netstate.Flow) bool) func() (int, error) {
	if l.dead() {
		return func() (int, error) { return 0, errKilled }
	}
	return l.Host.ForgetFlows(ctx, match)
}

// notify is the watchdog's.
func (l *life) notify(text string) {
	if text != "WATCHDOG=1" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.late, l.beat = max(l.late, time.Since(l.beat)), time.Now()
}

// unfed returns the longest time without a notification of the watchdog.
func (l *life) unfed() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.late, time.Since(l.beat))
}

// lifeJournal and lifeFiles are the disk of a process. A write of a killed one has no effect.
type (
	lifeJournal struct{ *life }
	lifeFiles   struct {
		*fake.Files
		*life
	}
)

func (j lifeJournal) Load(topic string) (map[string][]byte, error) { return j.journal.Load(topic) }

func (j lifeJournal) Put(topic, key string, v []byte) error {
	if j.dead() {
		return nil
	}
	return j.journal.Put(topic, key, v)
}

func (j lifeJournal) Delete(topic, key string) error {
	if j.dead() {
		return nil
	}
	return j.journal.Delete(topic, key)
}

func (f lifeFiles) Write(name string, content []byte) error {
	if f.dead() {
		return errKilled
	}
	return f.Files.Write(name, content)
}

func (f lifeFiles) WriteSpare(name string, content []byte) error { return f.Write(name, content) }

func (f lifeFiles) Remove(name string) error {
	if f.dead() {
		return errKilled
	}
	return f.Files.Remove(name)
}

// lifeExecutors are the processes of peers, which outlive the daemon.
type lifeExecutors struct {
	*fake.Executors
	l *life
}

func (x lifeExecutors) Make(ctx context.Context, e netstate.Executor) error {
	_, err := while(ctx, x.l, func(ctx context.Context) (struct{}, error) { return struct{}{}, x.Executors.Make(ctx, e) })
	return err
}

func (x lifeExecutors) Remove(ctx context.Context, id string) error {
	_, err := while(ctx, x.l, func(ctx context.Context) (struct{}, error) { return struct{}{}, x.Executors.Remove(ctx, id) })
	return err
}
