package metrics

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"edgespan/config/httpapi/rest"
)

const (
	// fresh is how long a scrape answers later requests: any number of scrapers costs as much as one.
	fresh = time.Second
	// maxAnswers bounds the answers under way: a slow reader holds up to a megabyte.
	maxAnswers = 8
	// waitTimeout bounds how long a request waits for a scrape under way.
	waitTimeout = 5 * time.Second
)

// Page answers scrapers. It holds no text while there is no scraper.
type Page struct {
	gather  func() ([]byte, error)
	turn    chan struct{} // held by the one that scrapes
	answers chan struct{}
	last    atomic.Pointer[answer]
}

type answer struct {
	text []byte
	at   time.Time
}

var contentType = string(expfmt.NewFormat(expfmt.TypeTextPlain))

// NewPage returns the page of a program: the metrics of table, and those of the Go runtime and the process.
func NewPage(table *Table, source Source) *Page {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return newPage(func() ([]byte, error) {
		s := newScrape(table)
		source(s)
		return withProcess(s.text(), r)
	})
}

func newPage(gather func() ([]byte, error)) *Page {
	return &Page{gather: gather, turn: make(chan struct{}, 1), answers: make(chan struct{}, maxAnswers)}
}

// withProcess appends the metrics of the Go runtime and of the process.
func withProcess(own []byte, r *prometheus.Registry) ([]byte, error) {
	families, err := r.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather metrics: %w", err)
	}
	text := bytes.NewBuffer(own)
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(text, f); err != nil {
			return nil, fmt.Errorf("write metric %s: %w", f.GetName(), err)
		}
	}
	return text.Bytes(), nil
}

// errCrowded means that too many scrapers wait.
var errCrowded = errors.New("too many scrapers at once: try again later")

// Text returns the metrics as of now, or of up to a second ago.
func (p *Page) Text(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return nil, errCrowded
	}
	if a := p.last.Load(); a != nil && time.Since(a.at) < fresh {
		return a.text, nil
	}
	text, err := p.gather()
	if err != nil {
		return nil, err
	}
	a := &answer{text, time.Now()}
	p.last.Store(a)
	time.AfterFunc(fresh, func() { p.last.CompareAndSwap(a, nil) })
	return text, nil
}

// ServeHTTP answers a scraper.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case p.answers <- struct{}{}:
		defer func() { <-p.answers }()
	default:
		refuse(w, errCrowded)
		return
	}
	text, err := p.Text(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(text) // an error means that the client has gone
}

func refuse(w http.ResponseWriter, err error) {
	p := rest.Refuse(rest.TypeBusy, "metrics: %s", err)
	text, _ := json.Marshal(p) // it has only texts and a number
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Retry-After", "5")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(text, '\n'))
}

// Serve answers GET /metrics on a listener until ctx ends, which is no error. The caller bounds the connections.
func (p *Page) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", p)
	srv := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve metrics on %s: %w", l.Addr(), err)
	}
	return nil
}
