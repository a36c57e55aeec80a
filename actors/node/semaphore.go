package node

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Classes of ops, by what they need of the machine, and how many of each run at once. A hundred networks that start
// together would otherwise run hundreds of commands on a small box, each slow enough to miss its own deadline.
const (
	// chainOps write to the packet filter together: as many as one restore handles easily.
	chainOps = iota
	// buildOps write links, addresses, routes, rules and files: the kernel does one at a time.
	buildOps
	// helperOps start processes, and run last: each new address wakes every running dnsmasq, so that a thousand of each
	// together would cost a million wake-ups.
	helperOps
	opClasses
)

var semaphoreSlots = [opClasses]int{chainOps: 128, buildOps: 32, helperOps: 4}

// semaphoreTimeout is how long an op keeps its slot: an op that hangs must not delay other networks
// (docs/architecture.md, law 7). Chains wait for one another inside a slot, so they get many slots.
var semaphoreTimeout = [opClasses]time.Duration{chainOps: 5 * time.Second, buildOps: 5 * time.Second,
	helperOps: time.Second}

const (
	// helperTimeout is how long a helper op yields to waiting ops of the other classes and to networks under construction.
	helperTimeout = 30 * time.Second
	// maxBuilding is the number of networks under construction up to which helpers start: that few wake few processes, and
	// one that hangs delays no other.
	maxBuilding = 8
)

// semaphore admits a limited number of ops at once. Waiting for a slot does not count against an op's deadline.
type semaphore struct {
	mu       sync.Mutex
	running  [opClasses]int
	waiting  [opClasses][]*waiter
	building map[int]*time.Timer // by number: networks under construction, and the timer that ends that state
}

type waiter struct {
	since time.Time
	in    chan struct{} // closed when admitted
}

func newSemaphore() *semaphore { return &semaphore{building: map[int]*time.Timer{}} }

// markBuilding records that a network will have an address that it does not have yet.
func (g *semaphore) markBuilding(number int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.building[number] == nil {
		g.building[number] = time.AfterFunc(helperTimeout, func() { g.markBuilt(number) })
	}
}

// markBuilt records that the network has its address, or will not get it soon.
func (g *semaphore) markBuilt(number int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.building[number]; t != nil {
		t.Stop()
		delete(g.building, number)
		g.admit()
	}
}

// enter waits for a slot. The slot becomes free when leave is called, or after its semaphoreTimeout.
func (g *semaphore) enter(ctx context.Context, class int) (leave func()) {
	w := &waiter{time.Now(), make(chan struct{})}
	g.mu.Lock()
	g.waiting[class] = append(g.waiting[class], w)
	g.admit()
	g.mu.Unlock()
	aged := (<-chan time.Time)(nil)
	if class == helperOps {
		t := time.NewTimer(helperTimeout)
		defer t.Stop()
		aged = t.C
	}
	for {
		select {
		case <-w.in:
			t := time.AfterFunc(semaphoreTimeout[class], func() { g.left(class) })
			return func() {
				if t.Stop() {
					g.left(class)
				}
			}
		case <-aged:
			g.mu.Lock()
			g.admit()
			g.mu.Unlock()
		case <-ctx.Done():
			return g.giveUp(class, w)
		}
	}
}

// giveUp removes a waiter, which may have been admitted meanwhile.
func (g *semaphore) giveUp(class int, w *waiter) (leave func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.waiting[class], w); i >= 0 {
		g.waiting[class] = slices.Delete(g.waiting[class], i, i+1)
		g.admit()
		return func() {}
	}
	return func() { g.left(class) }
}

func (g *semaphore) left(class int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running[class]--
	g.admit()
}

// admit admits waiters in their order of arrival.
func (g *semaphore) admit() {
	for class := range opClasses {
		for len(g.waiting[class]) > 0 && g.running[class] < semaphoreSlots[class] && g.mayEnter(class) {
			close(g.waiting[class][0].in)
			g.waiting[class] = g.waiting[class][1:]
			g.running[class]++
		}
	}
}

// mayEnter reports whether the first waiter of a class may run without waiting for other classes.
func (g *semaphore) mayEnter(class int) bool {
	return class != helperOps ||
		len(g.building) <= maxBuilding && len(g.waiting[chainOps])+len(g.waiting[buildOps]) == 0 ||
		time.Since(g.waiting[class][0].since) >= helperTimeout
}
