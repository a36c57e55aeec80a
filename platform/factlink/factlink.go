// Package factlink keeps this node's facts in ConfigDB up to date: it uploads them, as values of the node in one
// revision, when the node starts, when its config changes and once per period.
//
// It never interprets the facts and never delays a caller: only its own goroutine waits for the network, with a time
// limit. It retries a failed upload with a back-off, and always sends the newest facts.
package factlink

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"edgespan/config/configdb/model"
	"edgespan/config/httpapi/configdbapi"
	"edgespan/pubsub/backoff"
)

// Fixed times.
const (
	timeout = 30 * time.Second // of one upload
	spread  = 30 * time.Second // nodes that get a config at once spread their uploads over this time
)

// failedWaits bound the waits after failures.
var failedWaits = backoff.Backoff{First: 5 * time.Second, Max: 10 * time.Minute}

// Settings select where and how often to upload.
type Settings struct {
	Environment int64         // 0: no uploads
	URLs        []string      // of one ConfigDB; a failed upload tries the next one
	Every       time.Duration // period of uploads
	Config      string        // identifies the facts: a new value causes an upload
}

func (s Settings) equal(o Settings) bool {
	return s.Environment == o.Environment && slices.Equal(s.URLs, o.URLs) && s.Every == o.Every && s.Config == o.Config
}

// Door is a client of ConfigDB, such as *configdbapi.Client.
type Door interface {
	Bulk(context.Context, configdbapi.Place, configdbapi.BulkBody, configdbapi.WriteOptions) (configdbapi.Stored, error)
	Close()
}

// Options configure a Sender.
type Options struct {
	Node    string // the value of the level nodes
	Collect func(context.Context) (configdbapi.BulkBody, error)
	Open    func(url string) (Door, error)
	Log     *zap.Logger
}

// Sender uploads facts.
type Sender struct {
	o       Options
	pending chan struct{}

	mu       sync.Mutex
	reported Settings
}

// New returns a Sender without settings, which uploads nothing yet.
func New(o Options) *Sender { return &Sender{o: o, pending: make(chan struct{}, 1)} }

// Set replaces the settings. It never blocks.
func (s *Sender) Set(to Settings) {
	s.mu.Lock()
	same := s.reported.equal(to)
	s.reported = to
	s.mu.Unlock()
	if same {
		return
	}
	select {
	case s.pending <- struct{}{}:
	default: // already signaled
	}
}

// Run uploads until ctx ends.
func (s *Sender) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	timer.Stop() // no upload before Set
	defer timer.Stop()
	var now Settings
	var t try
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.pending:
			s.mu.Lock()
			now = s.reported
			s.mu.Unlock()
			t = try{url: t.url}
			timer.Stop()
			if now.Environment != 0 && len(now.URLs) > 0 {
				timer.Reset(part(min(spread, now.Every)))
			}
		case <-timer.C:
			timer.Reset(s.once(ctx, now, &t))
		}
	}
}

// try is the result of the latest uploads.
type try struct {
	url    int // index of the next one
	failed int // consecutive failures
	why    string
}

// once uploads once and returns the wait before the next upload.
func (s *Sender) once(ctx context.Context, to Settings, t *try) time.Duration {
	url := to.URLs[t.url%len(to.URLs)]
	stored, err := s.upload(ctx, to, url)
	log := s.o.Log.With(zap.String("configdb", url), zap.Int64("environment", to.Environment))
	if err == nil {
		if t.failed > 0 || stored.Changed {
			log.Info("facts uploaded", zap.Uint64("revision", stored.Revision),
				zap.Int("changes", len(stored.Changes)))
		}
		*t = try{url: t.url}
		return to.Every - to.Every/10 + part(to.Every/5)
	}
	t.url++
	t.failed++
	if why := err.Error(); why != t.why && ctx.Err() == nil {
		t.why = why
		log.Error("cannot upload facts: retrying", zap.Error(err))
	}
	return backoff.Jitter(failedWaits.After(t.failed), 0.5, 1, rand.Float64())
}

func (s *Sender) upload(ctx context.Context, to Settings, url string) (configdbapi.Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := s.o.Collect(ctx)
	if err != nil {
		return configdbapi.Stored{}, err
	}
	door, err := s.o.Open(url)
	if err != nil {
		return configdbapi.Stored{}, err
	}
	defer door.Close()
	p := configdbapi.Place{Environment: to.Environment, Levels: []model.LevelValue{{Level: "nodes", Value: s.o.Node}}}
	return door.Bulk(ctx, p, body, configdbapi.WriteOptions{})
}

// part returns a random part of a duration.
func part(d time.Duration) time.Duration { return rand.N(d + 1) }
