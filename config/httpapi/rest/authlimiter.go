package rest

import (
	"context"
	"sync"
	"time"

	"edgespan/config"
	"edgespan/pubsub/ratelimit"
)

// Somebody at an address may be wrong so often about who it is. Beyond it the tries of the address
// take turns: who is right waits for a moment behind the wrong ones of others there, and is not
// refused for them.
const (
	authRate  = 1.0 / 3
	AuthBurst = 20
	authDebt  = 1200 // wrong tries that are remembered beyond it: an hour's
	// authTimeout is longer than all who may wait before one take, each with a wrong password.
	authTimeout = 20 * time.Second
	maxLanes    = 4096 // kinds of tries of addresses that are remembered
)

// Try is a kind of them.
type Try struct {
	name     string
	parallel int           // of one address that takes turns
	waiting  int           // and that may wait, with these
	pace     time.Duration // between a wrong one and the next
}

// Nobody finds a token by trying; passwords are made by people. Which of those that wait are right is not known
// before they are computed, and whether a user is there is not to be told: so whoever fills all places of an address
// with guesses keeps out those there whose password was never right before.
var (
	TryToken    = Try{"token", 4, 64, 0}
	TryPassword = Try{"password", 1, 16, time.Second}
)

// AuthLimiter bounds who fails to say who it is, by address.
type AuthLimiter struct {
	buckets *ratelimit.Buckets
	mu      sync.Mutex
	lanes   map[string]*lane
}

// lane is the turns that one kind of tries of one address takes.
type lane struct {
	turns   chan struct{}
	waiting int // who has one or waits; with mu of the Guesses, as what follows
	next    time.Time
}

// NewAuthLimiter remembers nobody.
func NewAuthLimiter() *AuthLimiter {
	return &AuthLimiter{buckets: ratelimit.NewBuckets(authRate, AuthBurst), lanes: map[string]*lane{}}
}

// Check waits until a try from an address (http.Request.RemoteAddr) may be looked at, and has it looked
// at. Where it answers with a wait too many are waiting already: come again after it.
func (g *AuthLimiter) Check(ctx context.Context, address string, kind Try,
	look func() (wrong bool)) (wait time.Duration) {
	leave, wait := g.enter(ctx, address, kind)
	if leave == nil {
		return wait
	}
	wrong := true // a look that panics
	defer func() { leave(wrong) }()
	wrong = look()
	return 0
}

// enter waits; leave is called after the look.
func (g *AuthLimiter) enter(ctx context.Context, address string, kind Try) (leave func(wrong bool),
	wait time.Duration) {
	who := config.Source(address)
	wrongly := func() { g.buckets.Owe(who, time.Now(), authDebt) }
	if g.buckets.Left(who, time.Now()) == 0 {
		return func(wrong bool) {
			if wrong {
				wrongly()
			}
		}, 0
	}
	key := kind.name + " " + who
	l := g.join(key, kind)
	if l == nil {
		return nil, time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, authTimeout)
	defer cancel()
	select {
	case l.turns <- struct{}{}:
	case <-ctx.Done():
		g.quit(key, l)
		return nil, time.Second
	}
	if !g.pause(ctx, l) {
		<-l.turns
		g.quit(key, l)
		return nil, time.Second
	}
	return func(wrong bool) {
		if wrong {
			wrongly()
			g.mu.Lock()
			l.next = time.Now().Add(kind.pace)
			g.mu.Unlock()
		}
		<-l.turns
		g.quit(key, l)
	}, 0
}

// pause waits until a lane goes on, unless ctx ends before.
func (g *AuthLimiter) pause(ctx context.Context, l *lane) bool {
	g.mu.Lock()
	pause := time.NewTimer(time.Until(l.next))
	g.mu.Unlock()
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// join is the lane of a kind and an address, nil if too many wait in it.
func (g *AuthLimiter) join(key string, kind Try) *lane {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lanes[key]
	if l == nil {
		if len(g.lanes) >= maxLanes {
			g.forget()
		}
		l = &lane{turns: make(chan struct{}, kind.parallel)}
		g.lanes[key] = l
	}
	if l.waiting >= kind.waiting {
		return nil
	}
	l.waiting++
	return l
}

// forget drops the lanes that nobody is in: those that still pause too where all do.
func (g *AuthLimiter) forget() {
	for _, paused := range []bool{false, true} {
		for key, l := range g.lanes {
			if l.waiting == 0 && (paused || !time.Now().Before(l.next)) {
				delete(g.lanes, key)
			}
		}
		if len(g.lanes) < maxLanes {
			return
		}
	}
}

// quit drops a lane that is over.
func (g *AuthLimiter) quit(key string, l *lane) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.waiting--; l.waiting == 0 && !time.Now().Before(l.next) && g.lanes[key] == l {
		delete(g.lanes, key)
	}
}
