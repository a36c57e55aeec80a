package httpapi

import (
	"math"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"edgespan/config"
)

// maxBuckets bounds what is remembered of callers; the tokens are as many as an admin makes,
// addresses are not.
const maxBuckets = 4096

// Buckets are one token bucket for each name: burst tokens at first, rate more a second.
type Buckets struct {
	rate  float64
	burst float64

	mu   sync.Mutex
	have map[string]bucket
}

// bucket is how much was there at a time.
type bucket struct {
	tokens float64
	at     time.Time
}

// NewBuckets are full ones.
func NewBuckets(rate float64, burst int) *Buckets {
	return &Buckets{rate: rate, burst: float64(burst), have: map[string]bucket{}}
}

// Take takes one token, or says how long to wait for one.
func (b *Buckets) Take(name string, now time.Time) (wait time.Duration) { return b.ask(name, now, 1) }

// Left takes none.
func (b *Buckets) Left(name string, now time.Time) (wait time.Duration) { return b.ask(name, now, 0) }

func (b *Buckets) ask(name string, now time.Time, cost float64) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	is, known := b.have[name]
	if !known {
		if len(b.have) >= maxBuckets {
			b.forget(now)
		}
		is = bucket{b.burst, now}
	}
	tokens := b.filled(is, now)
	if tokens < 1 {
		return max(time.Duration((1-tokens)/b.rate*float64(time.Second)), 1) // never 0, which would be a token that was not taken
	}
	if cost > 0 {
		b.have[name] = bucket{tokens - cost, now}
	}
	return 0
}

func (b *Buckets) filled(is bucket, now time.Time) float64 {
	return math.Min(b.burst, is.tokens+b.rate*math.Max(0, now.Sub(is.at).Seconds()))
}

// forget drops the full ones, which say nothing, and all of them where none is full: that
// forgives somebody, and costs no memory.
func (b *Buckets) forget(now time.Time) {
	for name, is := range b.have {
		if b.filled(is, now) >= b.burst {
			delete(b.have, name)
		}
	}
	if len(b.have) >= maxBuckets {
		clear(b.have)
	}
}

// Somebody who tries tokens or passwords may do so this often from one address.
const (
	guessRate  = 1.0 / 3
	GuessBurst = 20
)

// Guesses are how often callers failed to say who they are, by their address.
type Guesses struct{ buckets *Buckets }

// NewGuesses remembers nobody.
func NewGuesses() *Guesses { return &Guesses{NewBuckets(guessRate, GuessBurst)} }

// Wait is how long nobody at an address (http.Request.RemoteAddr) is listened to; 0: ask now.
func (g *Guesses) Wait(address string, now time.Time) time.Duration {
	return g.buckets.Left(caller(address), now)
}

// OfUser, behind an address, tells the guesses of one user's password from all others there.
func OfUser(name string) string { return "\x00" + config.Cut(name, longestMethod) }

// Failed counts one guess.
func (g *Guesses) Failed(address string, now time.Time) { g.buckets.Take(caller(address), now) }

// caller is who is behind an address: in IPv6 one machine has all of a /64.
func caller(address string) string {
	if address, user, of := strings.Cut(address, "\x00"); of {
		return caller(address) + "\x00" + user
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap(); ip.Is4() {
		return ip.String()
	}
	net64, _ := ip.WithZone("").Prefix(64) // 64 fits an address of IPv6
	return net64.String()
}
