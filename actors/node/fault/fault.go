package fault

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"edgespan/actors/node"
	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
	"edgespan/pubsub"
)

// The kinds of fault.
const (
	Hang       = "hang"        // every operation on the host for a network waits for its deadline
	Fail       = "fail"        // every change of the host for a network fails
	DropProbes = "drop-probes" // nothing answers the node's probes
	SlowDisk   = "slow-disk"   // every write of the state folder takes a second longer
)

var kinds = map[string]bool{Hang: true, Fail: true, DropProbes: false, SlowDisk: false}

// Bounds of faults.
const (
	MinLasts  = time.Second
	MaxLasts  = 10 * time.Minute
	maxFaults = 16
	slowness  = time.Second
)

// Faults are the faults of one node. The zero value has none.
type Faults struct {
	// Ended is called with the description of a fault that has ended; nil: not called.
	Ended func(what string)

	mu    sync.Mutex
	lasts map[key]*fault
}

type key struct{ kind, network string }

func (k key) String() string {
	if k.network == "" {
		return k.kind
	}
	return k.kind + " ni/" + k.network
}

type fault struct {
	until time.Time
	over  chan struct{} // closed at its end
	timer *time.Timer
}

// Kinds returns the kinds, and whether each is of one network.
func (f *Faults) Kinds() map[string]bool { return maps.Clone(kinds) }

// Inject begins a fault that ends by itself. One that lasts already lasts as long as it is asked for now.
func (f *Faults) Inject(kind, network string, lasts time.Duration) error {
	if lasts < MinLasts || lasts > MaxLasts {
		return fmt.Errorf("duration %v: out of range: must be from %v to %v", lasts, MinLasts, MaxLasts)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	k := key{kind, network}
	if f.lasts[k] == nil && len(f.lasts) >= maxFaults {
		return fmt.Errorf("%d faults last: too many: must be at most %d", len(f.lasts), maxFaults)
	}
	f.end(k)
	if f.lasts == nil {
		f.lasts = map[key]*fault{}
	}
	x := &fault{until: time.Now().Add(lasts), over: make(chan struct{})}
	x.timer = time.AfterFunc(lasts, func() { f.expire(k, x) })
	f.lasts[k] = x
	return nil
}

// expire ends a fault unless another one has taken its place.
func (f *Faults) expire(k key, x *fault) {
	f.mu.Lock()
	same := f.lasts[k] == x
	if same {
		f.end(k)
	}
	f.mu.Unlock()
	if same && f.Ended != nil {
		f.Ended(k.String())
	}
}

// end ends a fault, with the lock held.
func (f *Faults) end(k key) {
	if x := f.lasts[k]; x != nil {
		x.timer.Stop()
		close(x.over)
		delete(f.lasts, k)
	}
}

// List describes the faults that last, in order.
func (f *Faults) List() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for k, x := range f.lasts {
		out = append(out, fmt.Sprintf("%v for another %v", k, time.Until(x.until).Round(time.Second)))
	}
	slices.Sort(out)
	return out
}

// Clear ends all faults, and returns how many they were.
func (f *Faults) Clear() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.lasts)
	for k := range f.lasts {
		f.end(k)
	}
	return n
}

// active returns a channel that is closed when a fault ends, nil if there is none of this kind.
func (f *Faults) active(kind, network string) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x := f.lasts[key{kind, network}]; x != nil {
		return x.over
	}
	return nil
}

// wait waits while a fault lasts, at most until ctx ends.
func (f *Faults) wait(ctx context.Context, kind, network string) error {
	over := f.active(kind, network)
	if over == nil {
		return nil
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("fault %s: %w", kind, ctx.Err())
	}
}

// Host returns a host on which faults happen.
func (f *Faults) Host(h node.Host) node.Host { return &host{h, f} }

type host struct {
	node.Host
	f *Faults
}

func (h *host) Observe(ctx context.Context, o netstate.Owner, full bool) (netstate.State, error) {
	if err := h.f.wait(ctx, Hang, o.Name); err != nil {
		return nil, err
	}
	return h.Host.Observe(ctx, o, full)
}

func (h *host) ObserveProcesses(ctx context.Context, o netstate.Owner) (netstate.State, error) {
	if err := h.f.wait(ctx, Hang, o.Name); err != nil {
		return nil, err
	}
	return h.Host.ObserveProcesses(ctx, o)
}

func (h *host) Do(ctx context.Context, o netstate.Owner, op netstate.Op) error {
	if err := h.f.wait(ctx, Hang, o.Name); err != nil {
		return err
	}
	if h.f.active(Fail, o.Name) != nil {
		return fmt.Errorf("%v: fault fail: injected by an operator", op)
	}
	return h.Host.Do(ctx, o, op)
}

func (h *host) Probe(ctx context.Context, id probe.ID) (took time.Duration, bytes int, err error) {
	if h.f.active(DropProbes, "") != nil {
		<-ctx.Done() // as from a target that does not answer
		return 0, 0, fmt.Errorf("fault %s: %w", DropProbes, ctx.Err())
	}
	return h.Host.Probe(ctx, id)
}

// Journal returns a journal whose writes may be slow.
func (f *Faults) Journal(j pubsub.Journal) pubsub.Journal { return &journal{j, f} }

type journal struct {
	pubsub.Journal
	f *Faults
}

func (j *journal) Put(topic, key string, value []byte) error {
	j.f.pause()
	return j.Journal.Put(topic, key, value)
}

func (j *journal) Delete(topic, key string) error {
	j.f.pause()
	return j.Journal.Delete(topic, key)
}

// pause lasts as much longer as a write does.
func (f *Faults) pause() {
	ctx, cancel := context.WithTimeout(context.Background(), slowness)
	defer cancel()
	_ = f.wait(ctx, SlowDisk, "") // its end, or the end of the pause
}
