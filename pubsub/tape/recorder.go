package tape

import (
	"encoding/json"
	"sync"
	"time"
)

// What a recorder keeps in memory, and how often it writes.
const (
	maxWaiting = 8 << 20 // octets that wait for the sink, beyond which steps are lost
	writeFrom  = 256 << 10
	writeEvery = 500 * time.Millisecond
	retryAfter = 10 * time.Second // after a sink that failed
	// stateEvery is after how many steps of one core its state is written again, so that a replay compares it.
	stateEvery = 500
)

// Sink takes the text of segments. Its calls come from one goroutine, and may block.
type Sink interface {
	// Append appends whole lines to the segment, and reports whether the next ones are to begin another.
	Append(lines []byte) (full bool, err error)
	// Next begins another segment.
	Next() error
}

// Head is what the first line of each segment says.
type Head struct {
	Version string    // of the program
	Machine string    // of the boot of the machine
	Start   uint64    // of the process
	At      time.Time // of the segment
	Format  int       // of the lines; 0 is 1
}

// Recorder records the steps of cores. It is for any number of goroutines. The nil Recorder records nothing.
type Recorder struct {
	codec *Codec
	masks *masks
	head  Head

	mu      sync.Mutex
	waiting []byte // lines that the sink has not got
	steps   int    // in them
	segment uint64
	seen    map[string]bool // shared values that are in the segment
	n       uint64
	lost    int  // steps that were not written, and no line says so
	told    int  // those of which a line that waits says so
	off     bool // the sink fails or hangs
	ended   bool // the line that says why nothing more comes waits or is written
	due     chan struct{}
	closed  bool
}

// NewRecorder returns a recorder whose texts Run gives to a sink.
func NewRecorder(c *Codec, h Head) *Recorder {
	r := &Recorder{codec: c, masks: newMasks(), head: h, due: make(chan struct{}, 1)}
	r.begin()
	return r
}

// begin begins a segment. The lines that wait are of the former one.
func (r *Recorder) begin() {
	r.segment++
	r.seen = map[string]bool{}
	r.head.At, r.head.Format = time.Now().Round(0), format
	h := r.head
	r.put(line{Head: &h})
	if r.lost > 0 {
		r.put(line{Lost: r.lost, At: r.head.At})
		r.told, r.lost = r.lost, 0
	}
}

// put appends a line.
func (r *Recorder) put(l line) {
	r.waiting = append(l.append(r.waiting), '\n')
}

// Run gives the lines to the sink until done is closed, and then what is left. Failed is called when the sink begins to
// fail, with nil when it works again, and once with ErrSecrets if the recording ends before that.
func (r *Recorder) Run(done <-chan struct{}, sink Sink, failed func(error)) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for ended, full := false, false; !ended; {
		select {
		case <-done:
			ended = true
		case <-tick.C:
		case <-r.due:
		}
		if !full && r.masks.isFull() {
			full = true
			failed(ErrSecrets)
		}
		if err := r.flush(sink, ended); err != nil {
			failed(err)
			if !r.rest(done, sink) {
				return
			}
			failed(nil)
		}
	}
}

// flush gives what waits to the sink, and begins another segment if that one is full.
func (r *Recorder) flush(sink Sink, last bool) error {
	hung := r.isOff()
	full, err := r.give(sink, last, false)
	if err != nil || !full && !hung || last {
		return err
	}
	if _, err = r.give(sink, false, true); err != nil { // the end of the segment
		return err
	}
	return sink.Next()
}

// give gives what waits to the sink. With next, what comes then is of another segment.
func (r *Recorder) give(sink Sink, last, next bool) (full bool, err error) {
	r.mu.Lock()
	if !r.ended && !r.off && !r.closed && r.masks.isFull() {
		r.ended = true
		r.put(line{At: time.Now().Round(0), End: ErrSecrets.Error()})
	}
	text, steps, told := r.waiting, r.steps, r.told
	r.waiting, r.steps, r.told = nil, 0, 0
	r.closed = r.closed || last
	if next {
		r.off = false
		r.begin()
	}
	r.mu.Unlock()
	if len(text) == 0 {
		return false, nil
	}
	if full, err = sink.Append(text); err != nil {
		r.mu.Lock()
		r.lost += steps + told
		r.ended = false
		r.mu.Unlock()
	}
	return full, err
}

func (r *Recorder) isOff() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.off
}

// rest loses steps until the sink takes another segment. It reports false if done was closed before.
func (r *Recorder) rest(done <-chan struct{}, sink Sink) bool {
	r.mu.Lock()
	r.off = true
	r.lost += r.steps + r.told
	r.waiting, r.steps, r.told, r.ended = nil, 0, 0, false
	r.mu.Unlock()
	for {
		select {
		case <-done:
			return false
		case <-time.After(retryAfter):
		}
		if sink.Next() == nil {
			r.mu.Lock()
			r.off = false
			r.begin()
			r.mu.Unlock()
			return true
		}
	}
}

// Say records what the program tells people, between the steps.
func (r *Recorder) Say(v any) {
	if r == nil || r.masks.isFull() {
		return
	}
	e := encoder{c: r.codec, masks: r.masks}
	e.value(v)
	if e.taught { // it may be quoted before the field that names it
		e = encoder{c: r.codec, masks: r.masks}
		e.value(v)
	}
	if e.err != nil {
		return
	}
	r.write(line{At: time.Now().Round(0), Said: e.out}, e.blobs)
}

// Close ends a recorder that has no sink.
func (r *Recorder) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.waiting = true, nil
}

// Learn takes a value that is not recorded for one with secrets: they are replaced wherever they stand from now on.
func (r *Recorder) Learn(v any) {
	if r != nil {
		e := encoder{c: r.codec, masks: r.masks}
		e.value(v)
	}
}

// write writes a line after the values that it shares, and returns the segment in which it is, 0 if it is lost.
func (r *Recorder) write(l line, blobs []blob) (in uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.masks.isFull() { // a secret that was not learnt may be in it
		return 0
	}
	if !r.off && len(r.waiting) > maxWaiting {
		r.off = true // until the sink has taken what waits
	}
	if r.off {
		r.lost++
		return 0
	}
	for _, b := range blobs {
		if !r.seen[b.digest] {
			r.seen[b.digest] = true
			r.put(line{Digest: b.digest, Is: b.text})
		}
	}
	r.n++
	r.steps++
	l.N = r.n
	if r.put(l); len(r.waiting) >= writeFrom {
		select {
		case r.due <- struct{}{}:
		default:
		}
	}
	return r.segment
}

// next returns the segment that the line of a step will go to, 0 if the step is lost.
func (r *Recorder) next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.off || r.closed {
		r.lost++
		return 0
	}
	return r.segment
}

// Reel records one core, from when it was made. It is for the core's goroutine. The nil Reel records nothing.
type Reel struct {
	r        *Recorder
	kind, of string
	segment  uint64 // in which its state is
	steps    int    // since its state was written
	old      bool   // a step was written
}

// Reel returns what records a core that was just made: its kind, and of what it is the core.
func (r *Recorder) Reel(kind, of string) *Reel {
	if r == nil {
		return nil
	}
	return &Reel{r: r, kind: kind, of: of}
}

// Core is a pure state machine: events in, effects out.
type Core[E, F any] interface{ Step(event E) []F }

// Step steps a core and records it.
func Step[E, F any](l *Reel, core Core[E, F], event E) []F {
	if l == nil || l.r.masks.isFull() {
		return core.Step(event)
	}
	s := l.before(core, &event)
	if s == nil {
		return core.Step(event)
	}
	s.line.Why = panicked
	defer l.after(s) // the event of a core that panics is the one to look at
	effects := core.Step(event)
	s.line.Why = ""
	for i := range effects {
		s.effect(&effects[i])
	}
	return effects
}

// step is a step that is being written.
type step struct {
	e         encoder
	line      line
	unwritten string // why the state is not in the line, though it should be
}

// panicked is why a core can't be replayed after a step in which it has panicked.
const panicked = "the core has panicked"

// before writes the event, and the state of the core if the segment has it not; nil if nothing is recorded now. The
// order matters: an event says what is a secret in everything that follows.
func (l *Reel) before(core, event any) *step {
	segment := l.r.next()
	if segment == 0 {
		l.segment = 0
		return nil
	}
	s := &step{line: line{At: time.Now().Round(0), Core: l.kind, Of: l.of, New: !l.old}}
	withState := l.segment != segment || l.steps >= stateEvery
	for first := true; first || s.e.taught; first = false { // a secret may be quoted before the field that names it
		s.e, s.unwritten = encoder{c: l.r.codec, masks: l.r.masks}, ""
		s.e.value(event)
		if s.line.Event = s.cut(); withState {
			s.state(core)
		}
	}
	return s
}

// state writes the state of the core.
func (s *step) state(core any) {
	s.e.strict = true
	s.e.value(core)
	if s.line.State = s.cut(); s.e.err != nil {
		s.line.State, s.unwritten = nil, s.e.err.Error()
		s.e.err = nil
	}
	s.e.strict = false
}

// cut returns what was encoded since the last cut.
func (s *step) cut() json.RawMessage {
	out := s.e.out
	s.e.out = nil
	return out
}

// effect writes an effect, by its address.
func (s *step) effect(f any) {
	s.e.value(f)
	s.line.Effects = append(s.line.Effects, s.cut())
}

// after writes the step.
func (l *Reel) after(s *step) {
	if s.unwritten != "" {
		s.line.Why = s.unwritten
	}
	if s.e.err != nil { // a value that this release can't write: so the core goes on without a recording of it
		s.line = line{At: s.line.At, Core: l.kind, Of: l.of, New: s.line.New, Why: s.e.err.Error()}
		s.e.blobs = nil
	}
	in := l.r.write(s.line, s.e.blobs)
	switch {
	case in == 0 || s.line.Why != "":
		l.segment = 0 // the next step needs the state
	case s.line.State != nil:
		l.segment, l.steps, l.old = in, 0, true
	default: // in another segment than the state is
		if l.steps++; in != l.segment {
			l.segment = 0
		}
	}
}
