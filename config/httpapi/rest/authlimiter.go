package rest

import (
	"context"
	"sync"
	"time"

	"edgespan/config"
	"edgespan/pubsub/ratelimit"
)

// Failed logins allowed from one address. Beyond that, its attempts queue: a valid login waits behind the invalid ones
// from the same address, and is not refused because of them.
const (
	authRate  = 1.0 / 3
	AuthBurst = 20
	authDebt  = 1200 // failed attempts remembered beyond the burst: one hour's
	// authTimeout is longer than a full queue takes if each attempt has a wrong password.
	authTimeout = 20 * time.Second
	maxLanes    = 4096 // queues that are remembered
)

// Try is a kind of login attempt.
type Try struct {
	name     string
	parallel int           // attempts of one address processed at a time
	waiting  int           // attempts of one address that may wait, including these
	pace     time.Duration // between a failed attempt and the next
}

// A token can't be guessed; people choose passwords. Which queued attempt is valid is known only after it is computed,
// and the answer must not reveal whether a user exists: someone who fills the queue of an address with guesses
// therefore locks out the users there whose password was never valid before.
var (
	TryToken    = Try{"token", 4, 64, 0}
	TryPassword = Try{"password", 1, 16, time.Second}
)

// AuthLimiter bounds failed logins by address.
type AuthLimiter struct {
	buckets *ratelimit.Buckets
	mu      sync.Mutex
	lanes   map[string]*lane
}

// lane is the queue of one kind of attempts from one address.
type lane struct {
	turns   chan struct{}
	waiting int // attempts in progress or waiting; protected by AuthLimiter.mu, like next
	next    time.Time
}

// NewAuthLimiter returns an AuthLimiter without any recorded failures.
func NewAuthLimiter() *AuthLimiter {
	return &AuthLimiter{buckets: ratelimit.NewBuckets(authRate, AuthBurst), lanes: map[string]*lane{}}
}

// Check waits until an attempt from an address (http.Request.RemoteAddr) may be processed, and processes it by calling
// look. It returns a wait, without calling look, if too many attempts are queued: retry after it.
func (al *AuthLimiter) Check(ctx context.Context, address string, kind Try,
	look func() (wrong bool)) (wait time.Duration) {
	leave, wait := al.enter(ctx, address, kind)
	if leave == nil {
		return wait
	}
	wrong := true // if look panics
	defer func() { leave(wrong) }()
	wrong = look()
	return 0
}

// enter waits for its turn; the caller calls leave after the attempt.
func (al *AuthLimiter) enter(ctx context.Context, address string, kind Try) (leave func(wrong bool),
	wait time.Duration) {
	who := config.Source(address)
	wrongly := func() { al.buckets.AllowDebt(who, time.Now(), authDebt) }
	if al.buckets.WaitTime(who, time.Now()) == 0 {
		return func(wrong bool) {
			if wrong {
				wrongly()
			}
		}, 0
	}
	key := kind.name + " " + who
	l := al.join(key, kind)
	if l == nil {
		return nil, time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, authTimeout)
	defer cancel()
	select {
	case l.turns <- struct{}{}:
	case <-ctx.Done():
		al.quit(key, l)
		return nil, time.Second
	}
	if !al.pause(ctx, l) {
		<-l.turns
		al.quit(key, l)
		return nil, time.Second
	}
	return func(wrong bool) {
		if wrong {
			wrongly()
			al.mu.Lock()
			l.next = time.Now().Add(kind.pace)
			al.mu.Unlock()
		}
		<-l.turns
		al.quit(key, l)
	}, 0
}

// pause waits for the lane's pace, and returns false if ctx ends before.
func (al *AuthLimiter) pause(ctx context.Context, l *lane) bool {
	al.mu.Lock()
	pause := time.NewTimer(time.Until(l.next))
	al.mu.Unlock()
	defer pause.Stop()
	select {
	case <-pause.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// join returns the lane of a kind and an address, nil if it is full.
func (al *AuthLimiter) join(key string, kind Try) *lane {
	al.mu.Lock()
	defer al.mu.Unlock()
	l := al.lanes[key]
	if l == nil {
		if len(al.lanes) >= maxLanes {
			al.forget()
		}
		l = &lane{turns: make(chan struct{}, kind.parallel)}
		al.lanes[key] = l
	}
	if l.waiting >= kind.waiting {
		return nil
	}
	l.waiting++
	return l
}

// forget drops idle lanes; if that is not enough, those within their pause too.
func (al *AuthLimiter) forget() {
	for _, paused := range []bool{false, true} {
		for key, l := range al.lanes {
			if l.waiting == 0 && (paused || !time.Now().Before(l.next)) {
				delete(al.lanes, key)
			}
		}
		if len(al.lanes) < maxLanes {
			return
		}
	}
}

// quit leaves a lane, and drops it if it is idle.
func (al *AuthLimiter) quit(key string, l *lane) {
	al.mu.Lock()
	defer al.mu.Unlock()
	if l.waiting--; l.waiting == 0 && !time.Now().Before(l.next) && al.lanes[key] == l {
		delete(al.lanes, key)
	}
}
