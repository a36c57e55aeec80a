package node

import (
	"context"
	"slices"
	"sync"
	"time"
)

// What an op asks of the machine, and how many of each run at once. A hundred networks that
// start together would otherwise run hundreds of commands on a small box, each slow enough to
// miss its own deadline.
const (
	// chainOps go to the packet filter together: as many as one restore takes easily.
	chainOps = iota
	// buildOps are links, addresses, routes, rules and files: the kernel does one at a time.
	buildOps
	// helperOps start processes, and come last: each address that comes wakes every dnsmasq
	// that runs, so that a thousand of each together would cost a million wakings.
	helperOps
	opClasses
)

var semaphoreSlots = [opClasses]int{chainOps: 64, buildOps: 32, helperOps: 3}

// semaphoreTimeout is how long an op keeps its slot: one that hangs must not hold up other
// networks (docs/architecture.md, law 7). Chains wait for one another in a slot, and of these there
// are many.
var semaphoreTimeout = [opClasses]time.Duration{chainOps: 5 * time.Second, buildOps: 5 * time.Second,
	helperOps: time.Second}

const (
	// helperTimeout is how long a helper gives way to what waits of the other classes, and to
	// networks that are being made.
	helperTimeout = 30 * time.Second
	// fewMade is how many networks may be in the making beside which helpers start: so few wake
	// no crowd, and one of them that hangs delays no other.
	fewMade = 8
)

// semaphore lets in so many at once. Waiting in front of it costs nobody's deadline.
type semaphore struct {
	mu      sync.Mutex
	running [opClasses]int
	waiting [opClasses][]*waiter
	made    map[int]*time.Timer // by number: networks that are being made, which ends with the timer
}

type waiter struct {
	since time.Time
	in    chan struct{} // closed once it has a slot
}

func newSemaphore() *semaphore { return &semaphore{made: map[int]*time.Timer{}} }

// making says that a network will have an address that it has not yet.
func (g *semaphore) making(number int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.made[number] == nil {
		g.made[number] = time.AfterFunc(helperTimeout, func() { g.isMade(number) })
	}
}

// isMade says that it has, or that it will not have it soon.
func (g *semaphore) isMade(number int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t := g.made[number]; t != nil {
		t.Stop()
		delete(g.made, number)
		g.admit()
	}
}

// enter waits for a slot. The slot is free again when leave is called, or after
// its gatePatience.
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

// giveUp takes a waiter out; it may have been let in meanwhile.
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

// admit lets in who may, first come, first served.
func (g *semaphore) admit() {
	for class := range opClasses {
		for len(g.waiting[class]) > 0 && g.running[class] < semaphoreSlots[class] && g.turn(class) {
			close(g.waiting[class][0].in)
			g.waiting[class] = g.waiting[class][1:]
			g.running[class]++
		}
	}
}

// turn says whether the first of a class need not wait for those of others.
func (g *semaphore) turn(class int) bool {
	return class != helperOps || len(g.made) <= fewMade && len(g.waiting[chainOps])+len(g.waiting[buildOps]) == 0 ||
		time.Since(g.waiting[class][0].since) >= helperTimeout
}
