package otlp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"edgespan/pubsub/backoff"
	"edgespan/pubsub/trace"
)

// Bounds of an exporter: at most queueLimit+batchLimit spans of some 2 KiB wait.
const (
	queueLimit  = 2048
	batchLimit  = 256
	batchEvery  = 2 * time.Second  // the longest that a span waits for others
	sendTimeout = 10 * time.Second // of one request
	maxTries    = 4                // of one batch
	answerLimit = 64 << 10         // bytes that are read of an answer, so that its connection can be used again
)

// retry is the pause after a request that failed, during which spans wait in the queue.
var retry = backoff.Backoff{First: time.Second, Max: 30 * time.Second}

// Resource names the program that sends the spans.
type Resource struct{ Service, Version, Instance string }

// Exporter is the trace.Sink of one program. Close ends it.
type Exporter struct {
	url      string
	headers  http.Header
	client   *http.Client
	resource []trace.Attr
	version  string
	log      *zap.Logger

	queue         chan *trace.Record
	ctx           context.Context //nolint:containedctx // ends requests when Close has waited long enough
	abort         context.CancelFunc
	closing       sync.Once
	closed        chan struct{} // Close was called
	ended         chan struct{}
	sent, dropped atomic.Uint64
	failing       bool // the last batch could not be sent
}

// lastSpans is how long the end of a program waits for a collector that takes the last spans.
const lastSpans = 2 * time.Second

// Start starts an exporter. It connects when there is something to send.
func Start(c Config, r Resource, log *zap.Logger) (*Exporter, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	e := &Exporter{
		url: c.Endpoint, headers: c.Headers, client: client, version: r.Version, log: log,
		resource: []trace.Attr{
			{Key: "service.name", Value: r.Service}, {Key: "service.version", Value: r.Version},
			{Key: "service.instance.id", Value: r.Instance},
		},
		queue: make(chan *trace.Record, queueLimit), closed: make(chan struct{}), ended: make(chan struct{}),
	}
	e.ctx, e.abort = context.WithCancel(context.Background())
	go e.run()
	return e, nil
}

// Export queues a span, or drops it if the queue is full.
func (e *Exporter) Export(r *trace.Record) {
	select {
	case e.queue <- r:
	default:
		e.dropped.Add(1)
	}
}

// Counts returns how many spans were sent and dropped.
func (e *Exporter) Counts() (sent, dropped uint64) { return e.sent.Load(), e.dropped.Load() }

// Close sends what waits, until ctx ends.
func (e *Exporter) Close(ctx context.Context) {
	e.closing.Do(func() { close(e.closed) })
	defer e.abort()
	select {
	case <-e.ended:
	case <-ctx.Done():
		e.abort()
		<-e.ended
	}
}

// Stop is Close with the time that the end of a program may take. A nil Exporter has nothing to send.
func (e *Exporter) Stop() {
	if e == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	e.Close(ctx)
}

// Outcomes counts spans by what became of them: sent, dropped, or truncated, which t left out. It is nil of a nil
// Exporter.
func (e *Exporter) Outcomes(t *trace.Tracer) map[string]uint64 {
	if e == nil {
		return nil
	}
	sent, dropped := e.Counts()
	return map[string]uint64{"sent": sent, "dropped": dropped, "truncated": t.Truncated()}
}

func (e *Exporter) run() {
	defer close(e.ended)
	defer e.client.CloseIdleConnections()
	for {
		batch, last := e.collect()
		if len(batch) > 0 {
			e.send(batch)
		}
		if last && len(e.queue) == 0 || e.ctx.Err() != nil {
			return
		}
	}
}

// collect waits for a batch: full, or as old as batchEvery. last reports that Close was called.
func (e *Exporter) collect() (batch []*trace.Record, last bool) {
	select {
	case r := <-e.queue:
		batch = append(batch, r)
	case <-e.closed:
		last = true
	}
	due := time.NewTimer(batchEvery)
	defer due.Stop()
	for len(batch) < batchLimit {
		if last || e.isClosed() {
			select {
			case r := <-e.queue:
				batch = append(batch, r)
				continue
			default:
				return batch, true
			}
		}
		select {
		case r := <-e.queue:
			batch = append(batch, r)
		case <-e.closed:
		case <-due.C:
			return batch, false
		}
	}
	return batch, last
}

func (e *Exporter) isClosed() bool {
	select {
	case <-e.closed:
		return true
	default:
		return false
	}
}

// errRefused is an answer after which the same batch is not sent again.
var errRefused = errors.New("refused")

// send sends one batch, several times if that may help. It logs the first batch of a series that is lost.
func (e *Exporter) send(batch []*trace.Record) {
	body := encode(e.resource, e.version, batch)
	var err error
	for try := 1; ; try++ {
		if err = e.post(body); err == nil {
			e.sent.Add(uint64(len(batch)))
			if e.failing {
				e.failing = false
				e.log.Info("traces are sent again")
			}
			return
		}
		if errors.Is(err, errRefused) || try == maxTries || !e.pause(retry.After(try)) {
			break
		}
	}
	e.dropped.Add(uint64(len(batch)))
	if !e.failing && e.ctx.Err() == nil {
		e.failing = true
		e.log.Warn("traces are dropped", zap.Error(err), zap.Int("spans", len(batch)))
	}
}

// pause waits, and reports false if the exporter ends.
func (e *Exporter) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-e.closed:
		return false
	}
}

// post sends one request. The body of an answer is for people; it may repeat what was sent, and is not logged.
func (e *Exporter) post(body []byte) error {
	ctx, cancel := context.WithTimeout(e.ctx, sendTimeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	for name, values := range e.headers {
		q.Header[name] = values
	}
	q.Header.Set("Content-Type", "application/x-protobuf")
	a, err := e.client.Do(q)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // without the URL, which may hold a token
		}
		return fmt.Errorf("%s: %w", q.URL.Host, err)
	}
	defer func() { _ = a.Body.Close() }() // it was only read
	_, _ = io.Copy(io.Discard, io.LimitReader(a.Body, answerLimit))
	switch a.StatusCode {
	case http.StatusOK, http.StatusAccepted:
		return nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fmt.Errorf("%s answers %s", q.URL.Host, a.Status)
	}
	return fmt.Errorf("%w: %s answers %s", errRefused, q.URL.Host, a.Status)
}
