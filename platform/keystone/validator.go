package keystone

import (
	"context"
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"edgespan/pubsub/backoff"
)

// DefaultWindow is the default of Options.Window.
const DefaultWindow = 60 * time.Second

const (
	flightTimeout = 10 * time.Second // for one token, including the controller's own login
	maxFlights    = 256              // concurrent requests for tokens
	maxKnown      = 16384            // remembered tokens, some 1 KB each
	longestToken  = 8192             // bytes; Fernet tokens have some 200
)

// pauses bound the waits while Keystone is unreachable.
var pauses = backoff.Backoff{First: 500 * time.Millisecond, Max: 30 * time.Second}

// Options are the settings of a validator.
type Options struct {
	URL    string
	Own    Credentials            // a user who may validate tokens; its Password is not used
	Secret func() (string, error) // returns the password, at each login
	// Window is how long an answer of Keystone counts: a revoked token is accepted for at most that long. 0:
	// DefaultWindow.
	Window    time.Duration
	Transport http.RoundTripper
	// Changed is called with an error when Keystone becomes unreachable, and with nil when it answers again.
	Changed func(error)
}

// Validator validates tokens. It is safe for concurrent use.
type Validator struct {
	opts Options
	c    client
	own  owner

	mu      sync.Mutex
	known   map[digest]answer
	flights map[digest]*flight
	pause   time.Duration // the last one; 0: Keystone answers
	open    time.Time     // end of the pause
	away    error
	ownID   Identity
}

type digest [sha256.Size]byte

// answer is Keystone's answer and the end of its validity.
type answer struct {
	id    Identity
	until time.Time
}

// flight is one request in progress.
type flight struct {
	done chan struct{}
	id   Identity
	err  error
}

// New returns a validator. It sends no request.
func New(opts Options) (*Validator, error) {
	c, err := newClient(opts.URL, opts.Transport)
	if err != nil {
		return nil, err
	}
	if opts.Window <= 0 {
		opts.Window = DefaultWindow
	}
	if opts.Changed == nil {
		opts.Changed = func(error) {}
	}
	return &Validator{
		opts: opts, c: c, own: owner{turn: make(chan struct{}, 1)},
		known: map[digest]answer{}, flights: map[digest]*flight{},
	}, nil
}

// Validate returns the identity of a token. It returns ErrToken for an invalid token, and *Away if Keystone can't
// answer now.
func (v *Validator) Validate(ctx context.Context, token string) (Identity, error) {
	if !plausible(token) {
		return Identity{}, ErrToken
	}
	key := digest(sha256.Sum256([]byte(token)))
	v.mu.Lock()
	if a, ok := v.known[key]; ok && time.Now().Before(a.until) {
		v.mu.Unlock()
		return a.id, nil
	}
	f := v.flights[key]
	if f == nil {
		if err := v.refusal(); err != nil {
			v.mu.Unlock()
			return Identity{}, err
		}
		f = &flight{done: make(chan struct{})}
		v.flights[key] = f
		go v.requestToken(context.WithoutCancel(ctx), key, token, f)
	}
	v.mu.Unlock()
	select {
	case <-f.done:
		return f.id, f.err
	case <-ctx.Done():
		return Identity{}, &Away{Why: "no answer yet", err: ctx.Err()}
	}
}

// Known returns the identity of a recently validated token. It sends no request.
func (v *Validator) Known(token string) (Identity, bool) {
	if !plausible(token) {
		return Identity{}, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	a, ok := v.known[sha256.Sum256([]byte(token))]
	return a.id, ok && time.Now().Before(a.until)
}

// refusal returns the reason why no request is sent now; v.mu is held.
func (v *Validator) refusal() error {
	if wait := time.Until(v.open); wait > 0 {
		return &Away{Why: v.away.Error(), Wait: wait, err: v.away}
	}
	if len(v.flights) >= maxFlights {
		return &Away{Why: "too many tokens are being validated", Wait: time.Second}
	}
	return nil
}

// requestToken requests one token for all waiting callers. A caller that gives up does not cancel it.
func (v *Validator) requestToken(ctx context.Context, key digest, token string, f *flight) {
	ctx, cancel := context.WithTimeout(ctx, flightTimeout)
	defer cancel()
	began := time.Now()
	f.id, f.err = v.find(ctx, token)
	if f.err == nil && !began.Before(f.id.Expires) {
		f.id, f.err = Identity{}, ErrToken
	}
	v.mu.Lock()
	delete(v.flights, key)
	delete(v.known, key)
	if f.err == nil {
		until := began.Add(v.opts.Window)
		if f.id.Expires.Before(until) {
			until = f.id.Expires
		}
		v.forget(began)
		v.known[key] = answer{f.id, until}
	}
	changed, err := v.applyAnswer(f)
	v.mu.Unlock()
	if changed {
		v.opts.Changed(err)
	}
	close(f.done)
}

// applyAnswer starts or ends the pause after an answer; v.mu is held.
func (v *Validator) applyAnswer(f *flight) (changed bool, err error) {
	if f.err == nil || errors.Is(f.err, ErrToken) {
		changed = v.pause > 0
		v.pause, v.open, v.away = 0, time.Time{}, nil
		return changed, nil
	}
	a := new(Away)
	if !errors.As(f.err, &a) {
		a = &Away{Why: f.err.Error(), err: f.err}
		f.err = a
	}
	if time.Now().Before(v.open) {
		return false, nil // another request has failed for the same reason
	}
	changed = v.pause == 0
	v.pause = pauses.Next(v.pause)
	wait := backoff.Jitter(v.pause, 0.5, 1, rand.Float64())
	v.open, v.away = time.Now().Add(wait), errors.New(a.Why)
	a.Wait = wait
	return changed, a
}

// forget makes room for one more answer; v.mu is held.
func (v *Validator) forget(now time.Time) {
	if len(v.known) < maxKnown {
		return
	}
	for key, a := range v.known {
		if !now.Before(a.until) {
			delete(v.known, key)
		}
	}
	for key := range v.known {
		if len(v.known) < maxKnown*3/4 {
			return
		}
		delete(v.known, key) // any one: it costs one request
	}
}

// find asks Keystone, and again with a new own token if Keystone refuses the old one.
func (v *Validator) find(ctx context.Context, token string) (Identity, error) {
	own, err := v.ownToken(ctx, "")
	if err != nil {
		return Identity{}, err
	}
	id, err := v.c.validate(ctx, own, token)
	if !errors.Is(err, errOwn) {
		return id, err
	}
	if own, err = v.ownToken(ctx, own); err != nil {
		return Identity{}, err
	}
	return v.c.validate(ctx, own, token)
}

// plausible reports whether a text could be a token and fits into a header.
func plausible(token string) bool {
	return token != "" && len(token) <= longestToken &&
		!strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}
