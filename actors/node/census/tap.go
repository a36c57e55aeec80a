package census

import (
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"edgespan/config/layers/redact/plain"
	"edgespan/pubsub/shellproto"
)

// Bounds on what following messages may cost the actors: items of all taps together in a second, and at once, and the
// size of what describes one. More are counted only.
const (
	tapRate  = 200
	tapBurst = 200
	maxText  = 400
	textSize = 100 // values of one message that are looked at
	// tookFrom is how long a message takes at least that is shown again at its end.
	tookFrom = time.Millisecond
)

// Tap shows the messages and effects of one actor as they pass.
type Tap struct {
	actor string
	emit  func(shellproto.TailItem) // never blocks
	mask  func(string) string

	dropped atomic.Uint64
	rate    *rate
}

// Follow shows the messages and effects of an actor to emit, which is called by several goroutines and must not block,
// until stop is called. A sample of them is shown if they are many; dropped returns how many were not since the last
// call.
func (s *Census) Follow(id string, emit func(shellproto.TailItem)) (dropped func() uint64, stop func()) {
	t := &Tap{actor: id, emit: emit, mask: s.Masked, rate: newRate(tapRate, tapBurst)}
	s.changeTaps(func(all []*Tap) []*Tap { return append(all, t) })
	return func() uint64 { return t.dropped.Swap(0) }, func() {
		s.changeTaps(func(all []*Tap) []*Tap {
			return slices.DeleteFunc(all, func(o *Tap) bool { return o == t })
		})
	}
}

func (s *Census) changeTaps(change func([]*Tap) []*Tap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*Tap
	if now := s.taps.Load(); now != nil {
		all = slices.Clone(*now)
	}
	if all = change(all); len(all) == 0 {
		s.taps.Store(nil)
		return
	}
	for _, t := range all { // an equal share for each
		t.rate.set(tapRate/float64(len(all)), max(1, tapBurst/float64(len(all))))
	}
	s.taps.Store(&all)
}

// Masked returns a text without secrets.
func (s *Census) Masked(text string) string {
	if s.Mask == nil {
		return text
	}
	return s.Mask(text)
}

// Effect shows an effect of an actor's core to taps.
func (s *Census) Effect(id string, effect any) {
	if taps := s.taps.Load(); taps != nil {
		show(*taps, id, shellproto.Out, effect)
	}
}

func show(taps []*Tap, id, way string, what any) {
	for _, t := range taps {
		if t.actor == id && t.admit() {
			t.emit(shellproto.TailItem{At: time.Now(), Actor: id, Way: way, Type: typeOf(what), Text: t.text(what)})
		}
	}
}

func took(taps []*Tap, id string, what any, d time.Duration) {
	for _, t := range taps {
		if t.actor == id && d >= tookFrom && t.admit() {
			t.emit(shellproto.TailItem{At: time.Now(), Actor: id, Way: shellproto.Handled, Type: typeOf(what), Took: d})
		}
	}
}

// admit reports whether one more item may be shown now, and counts it if not.
func (t *Tap) admit() bool {
	if t.rate.admit() {
		return true
	}
	t.dropped.Add(1)
	return false
}

func typeOf(what any) string { return fmt.Sprint(reflect.TypeOf(what)) }

// text describes a message in one line.
func (t *Tap) text(what any) string { return plain.Line(plain.Shared(what, textSize, t.mask), maxText) }
