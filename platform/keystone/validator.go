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

// DefaultWindow is how long an answer of Keystone counts where nobody says.
const DefaultWindow = 60 * time.Second

const (
	flightTimeout = 10 * time.Second // for what is known of one token, our own login included
	maxFlights    = 256              // tokens that are asked for at once
	maxKnown      = 16384            // tokens that are remembered, some 1 KB each
	longestToken  = 8192             // octets; Fernet's have some 200
)

// pauses bound the waits while it is away.
var pauses = backoff.Backoff{First: 500 * time.Millisecond, Max: 30 * time.Second}

// Options are the settings of a validator.
type Options struct {
	URL    string
	Own    Credentials            // of a user who may validate tokens; its Password is not read
	Secret func() (string, error) // its password, asked for at each login
	// Window is how long an answer of Keystone counts: a token that was revoked is taken for
	// so long at most. 0: DefaultWindow.
	Window    time.Duration
	Transport http.RoundTripper
	// Changed hears that Keystone can't be asked, and nil once it can again.
	Changed func(error)
}

// Validator finds out what tokens stand for. It may be used from several goroutines.
type Validator struct {
	opts Options
	c    client
	own  owner

	mu      sync.Mutex
	known   map[digest]answer
	flights map[digest]*flight
	pause   time.Duration // the last one; 0: Keystone answers
	open    time.Time     // when the pause ends
	away    error
	ownID   Identity
}

type digest [sha256.Size]byte

// answer is what Keystone said, until a time.
type answer struct {
	id    Identity
	until time.Time
}

// flight is one question that is under way.
type flight struct {
	done chan struct{}
	id   Identity
	err  error
}

// New makes a validator. It asks nothing yet.
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

// Validate finds what a token stands for. ErrToken says that it stands for nothing, *Away
// that it can't be known now.
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
		go v.fly(context.WithoutCancel(ctx), key, token, f)
	}
	v.mu.Unlock()
	select {
	case <-f.done:
		return f.id, f.err
	case <-ctx.Done():
		return Identity{}, &Away{Why: "no answer yet", err: ctx.Err()}
	}
}

// Known is what Validate has found out of a token a short while ago; it asks nobody.
func (v *Validator) Known(token string) (Identity, bool) {
	if !plausible(token) {
		return Identity{}, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	a, ok := v.known[sha256.Sum256([]byte(token))]
	return a.id, ok && time.Now().Before(a.until)
}

// refusal is why nothing is asked now; v.mu is held.
func (v *Validator) refusal() error {
	if wait := time.Until(v.open); wait > 0 {
		return &Away{Why: v.away.Error(), Wait: wait, err: v.away}
	}
	if len(v.flights) >= maxFlights {
		return &Away{Why: "too many tokens are being validated", Wait: time.Second}
	}
	return nil
}

// fly asks for one token, on behalf of all who wait for it: none of them ends it.
func (v *Validator) fly(ctx context.Context, key digest, token string, f *flight) {
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

// applyAnswer opens or ends the pause after an answer; v.mu is held.
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
		return false, nil // others have failed of the same cause
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
		delete(v.known, key) // any: it costs a question
	}
}

// find asks Keystone, and once more with a new token of our own if the old one is not taken.
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

// plausible says whether a text could be a token, so that it fits a header.
func plausible(token string) bool {
	return token != "" && len(token) <= longestToken &&
		!strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}
