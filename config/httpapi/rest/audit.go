package rest

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"edgespan/config"
	"edgespan/pubsub/ratelimit"
)

// Bounds of what a line of the audit log repeats of a request, in bytes.
const (
	longestPath   = 256
	longestMethod = 32
)

// NewEntry is the line of a request. A path may have as many bytes as a header: what is beyond
// its bound is cut off, and the line says so by an ellipsis.
func NewEntry(r *http.Request, now time.Time) Entry {
	return Entry{Time: now.UTC(), Remote: r.RemoteAddr, Method: config.Cut(r.Method, longestMethod),
		Path: config.Cut(r.URL.Path, longestPath)}
}

// Refusals bounds the audit lines of refused requests, which anybody who reaches the port can
// cause, and a caller without end by what is wrong in itself: some at once and then few, of one caller
// or address and of all together. What was left out is counted in the next line.
type Refusals struct {
	one, all *ratelimit.Buckets

	mu  sync.Mutex
	out int
}

// A refused caller has so many lines a second, and so many at once; all have together.
const (
	refusedRate, refusedBurst       = 0.2, 20
	allRefusedRate, allRefusedBurst = 5.0, 200
)

// NewRefusals has left out nothing.
func NewRefusals() *Refusals {
	return &Refusals{one: ratelimit.NewBuckets(refusedRate, refusedBurst),
		all: ratelimit.NewBuckets(allRefusedRate, allRefusedBurst)}
}

// Pass says whether an entry is to be written, and notes in it what was left out before. A caller
// that is beyond its rate (429) has no line at all.
func (r *Refusals) Pass(e *Entry) bool {
	if e.Status < http.StatusBadRequest || e.Status >= http.StatusInternalServerError {
		return true
	}
	who := "name " + e.Via.Of(e.Caller)
	if e.Caller == "" {
		who = config.Source(e.Remote)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Status == http.StatusTooManyRequests || r.one.Take(who, e.Time) > 0 || r.all.Take("", e.Time) > 0 {
		r.out++
		return false
	}
	e.LeftOut, r.out = r.out, 0
	return true
}

// Lines bounds lines of a log that anybody can cause, as those of failed handshakes. It is a
// Writer for a log.Logger, which writes a line at a time.
type Lines struct {
	To func(line string, leftOut int)

	mu   sync.Mutex
	rate *ratelimit.Buckets
	out  int
}

// NewLines writes 50 lines at once, and then one a second.
func NewLines(to func(line string, leftOut int)) *Lines {
	return &Lines{To: to, rate: ratelimit.NewBuckets(1, 50)}
}

// Write takes a line, or counts it.
func (l *Lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rate.Take("", time.Now()) > 0 {
		l.out++
		return len(line), nil
	}
	l.To(strings.TrimSpace(string(line)), l.out)
	l.out = 0
	return len(line), nil
}
