package trace

import (
	"crypto/rand"
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Bounds on what a trace may cost.
const (
	MaxAttrs  = 16   // of one span
	MaxText   = 256  // bytes of an attribute or a name
	MaxSpans  = 2000 // of one trace in one process; a network with 300 adapters needs some 1,000
	maxTraces = 256  // whose spans are counted at once
)

// Kind is the kind of a span, with OTLP's numbers.
type Kind int

// The kinds that are used.
const (
	Internal Kind = 1
	Server   Kind = 2 // answers a request
	Producer Kind = 4 // sends a message
	Consumer Kind = 5 // handles one
)

// Attr is one attribute of a span.
type Attr struct{ Key, Value string }

// Record is a span that has ended.
type Record struct {
	Context
	Parent     [8]byte // zero for the first span of a trace
	Name       string
	Kind       Kind
	Start, End time.Time
	Attrs      []Attr
	Dropped    uint32 // attributes beyond MaxAttrs
	Failed     bool
	Error      string // of a failed one
}

// Sink receives the spans that have ended. It must not block; it counts what it drops.
type Sink interface{ Export(r *Record) }

// Tracer starts spans. A nil one is off.
type Tracer struct {
	sink      Sink
	threshold uint64 // a trace that starts here is sampled if its random ID is below
	truncated atomic.Uint64

	mu    sync.Mutex
	spans map[[16]byte]int // started so far, by trace
	order [maxTraces][16]byte
	at    int
}

// New returns a tracer that samples a share of the traces that start here, from 0 to 1. Traces that started elsewhere
// are sampled as their start decided.
func New(sink Sink, ratio float64) *Tracer {
	t := &Tracer{sink: sink, spans: map[[16]byte]int{}, threshold: math.MaxUint64}
	if ratio < 1 {
		t.threshold = uint64(max(0, ratio) * math.MaxUint64)
	}
	return t
}

// Truncated returns how many spans were left out beyond MaxSpans of a trace.
func (t *Tracer) Truncated() uint64 {
	if t == nil {
		return 0
	}
	return t.truncated.Load()
}

// Span is a span that has not ended. The zero value records nothing. One goroutine uses it at a time.
type Span struct {
	t   *Tracer
	r   *Record
	ctx Context
}

// Start starts a span below parent, or a new trace if that is zero.
func (t *Tracer) Start(parent Context, name string, kind Kind) Span {
	if t == nil {
		return Span{}
	}
	if parent.IsZero() {
		_, _ = rand.Read(parent.Trace[:]) // never fails
		_, _ = rand.Read(parent.Span[:])
		parent.Sampled = binary.BigEndian.Uint64(parent.Trace[8:]) <= t.threshold && t.threshold > 0
		return t.start(parent, [8]byte{}, name, kind)
	}
	from := parent.Span
	_, _ = rand.Read(parent.Span[:])
	return t.start(parent, from, name, kind)
}

// Below starts a span only if parent is of a sampled trace: for work that is not worth a trace of its own.
func (t *Tracer) Below(parent Context, name string, kind Kind) Span {
	if t == nil || !parent.Sampled {
		return Span{ctx: parent}
	}
	return t.Start(parent, name, kind)
}

func (t *Tracer) start(c Context, parent [8]byte, name string, kind Kind) Span {
	if !c.Sampled || !t.admit(c.Trace) {
		if parent != [8]byte{} { // spans below this one belong to the one above
			c.Span = parent
		}
		return Span{ctx: c}
	}
	return Span{t, &Record{Context: c, Parent: parent, Name: cut(name), Kind: kind, Start: time.Now()}, c}
}

// admit counts a span of a trace.
func (t *Tracer) admit(id [16]byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, known := t.spans[id]
	if !known {
		delete(t.spans, t.order[t.at])
		t.order[t.at] = id
		t.at = (t.at + 1) % maxTraces
	}
	if n >= MaxSpans {
		t.truncated.Add(1)
		return false
	}
	t.spans[id] = n + 1
	return true
}

// Context returns the context for what belongs below the span.
func (s Span) Context() Context { return s.ctx }

// On reports whether the span is recorded: what only describes it need not be computed otherwise.
func (s Span) On() bool { return s.r != nil }

// Set adds an attribute. Its value must be no secret; a long one is truncated.
func (s Span) Set(key, value string) {
	switch {
	case s.r == nil || value == "":
	case len(s.r.Attrs) >= MaxAttrs:
		s.r.Dropped++
	default:
		s.r.Attrs = append(s.r.Attrs, Attr{key, cut(value)})
	}
}

// Fail marks the span as failed.
func (s Span) Fail(why string) {
	if s.r != nil {
		s.r.Failed, s.r.Error = true, cut(why)
	}
}

// FailIf marks the span as failed if there is an error.
func (s Span) FailIf(err error) {
	if s.r != nil && err != nil {
		s.Fail(err.Error())
	}
}

// End ends the span and passes it on. Only the first call counts.
func (s *Span) End() {
	if s.r == nil {
		return
	}
	s.r.End = time.Now()
	s.t.sink.Export(s.r)
	s.r = nil
}

// cut truncates a text at a whole character, and replaces what is no UTF-8: OTLP's strings must be.
func cut(s string) string {
	if len(s) > MaxText {
		s = s[:MaxText]
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		if r, n := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && n == 1 {
			s = s[:len(s)-1]
		}
	}
	if utf8.ValidString(s) {
		return s
	}
	out := make([]rune, 0, len(s))
	for _, r := range s {
		out = append(out, r)
	}
	return string(out)
}
