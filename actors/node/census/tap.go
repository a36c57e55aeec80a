package census

import (
	"fmt"
	"reflect"
	"time"

	"edgespan/config/layers/redact/plain"
	"edgespan/pubsub/shellproto"
)

const (
	maxText  = 400 // characters of what describes one message
	textSize = 100 // values of it that are looked at
	// tookFrom is how long a message takes at least that is shown again at its end.
	tookFrom = time.Millisecond
)

// Follow shows the messages and effects of an actor to emit, which is called by several goroutines and must not block,
// until stop is called. A sample of them is shown if they are many; dropped returns how many were not since the last
// call.
func (s *Census) Follow(id string, emit func(shellproto.TailItem)) (dropped func() uint64, stop func()) {
	return s.taps.add(id, emit)
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
		s.show(*taps, id, shellproto.Out, effect)
	}
}

// show shows a message or an effect to the taps of its actor.
func (s *Census) show(taps []*reader[shellproto.TailItem], id, way string, what any) {
	for _, t := range taps {
		if t.of == id && t.admit() {
			text := plain.Line(plain.Shared(what, textSize, s.Masked), maxText)
			t.emit(shellproto.TailItem{At: time.Now(), Actor: id, Way: way, Type: typeOf(what), Text: text})
		}
	}
}

// took shows the end of a message that took long.
func took(taps []*reader[shellproto.TailItem], id string, what any, d time.Duration) {
	if d < tookFrom {
		return
	}
	for _, t := range taps {
		if t.of == id && t.admit() {
			t.emit(shellproto.TailItem{At: time.Now(), Actor: id, Way: shellproto.Handled, Type: typeOf(what), Took: d})
		}
	}
}

func typeOf(what any) string { return fmt.Sprint(reflect.TypeOf(what)) }
