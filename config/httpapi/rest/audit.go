package rest

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"edgespan/config"
	"edgespan/pubsub/ratelimit"
)

// How many bytes of a request an audit line repeats at most.
const (
	longestPath   = 256
	longestMethod = 32
)

// NewEntry returns the audit line of a request. A path can be as long as a header: it is truncated with an ellipsis.
func NewEntry(r *http.Request, now time.Time) Entry {
	return Entry{Time: now.UTC(), Remote: r.RemoteAddr, Method: config.Truncate(r.Method, longestMethod),
		Path: config.Truncate(r.URL.Path, longestPath)}
}

// Refusals bounds the audit lines of refused requests, which anyone who reaches the port can cause without limit. There
// is a rate for each caller or address, and one for all together. The next line contains the count of those left out.
type Refusals struct {
	one, all *ratelimit.Buckets

	mu  sync.Mutex
	out int
}

// Audit lines a second, and the burst, for each refused caller and for all together.
const (
	refusedRate, refusedBurst       = 0.2, 20
	allRefusedRate, allRefusedBurst = 5.0, 200
)

// NewRefusals returns Refusals with full bursts.
func NewRefusals() *Refusals {
	return &Refusals{one: ratelimit.NewBuckets(refusedRate, refusedBurst),
		all: ratelimit.NewBuckets(allRefusedRate, allRefusedBurst)}
}

// ShouldWrite reports whether an entry is to be written, and adds the count of those left out before it. A request
// beyond its caller's rate (429) never gets a line.
func (r *Refusals) ShouldWrite(e *Entry) bool {
	if e.Status < http.StatusBadRequest || e.Status >= http.StatusInternalServerError {
		return true
	}
	who := "name " + e.Via.Of(e.Caller)
	if e.Caller == "" {
		who = config.Source(e.Remote)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Status == http.StatusTooManyRequests || r.one.Allow(who, e.Time) > 0 || r.all.Allow("", e.Time) > 0 {
		r.out++
		return false
	}
	e.LeftOut, r.out = r.out, 0
	return true
}

// Lines bounds log lines that anyone can cause, such as those of failed handshakes. It is a Writer for a log.Logger,
// which writes one line at a time.
type Lines struct {
	To func(line string, leftOut int)

	mu   sync.Mutex
	rate *ratelimit.Buckets
	out  int
}

// NewLines allows a burst of 50 lines, then one a second.
func NewLines(to func(line string, leftOut int)) *Lines {
	return &Lines{To: to, rate: ratelimit.NewBuckets(1, 50)}
}

// Write passes a line on, or counts it.
func (l *Lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate.Allow("", time.Now()) > 0 {
		l.out++
		return len(line), nil
	}
	l.To(strings.TrimSpace(string(line)), l.out)
	l.out = 0
	return len(line), nil
}
