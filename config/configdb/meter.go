package configdb

import (
	"cmp"
	"errors"
)

// What one computation may cost, whatever it is asked for. A document within its own bounds is read, masked and merged
// with another far below them.
const (
	MaxMade   = 48 << 20  // bytes that it makes, all together
	MaxLooked = 256 << 20 // bytes that it looks at, each as often as it does
	MaxAnswer = 8 << 20   // bytes of what comes of it
	MaxValues = 100_000   // members and elements of one document, at any depth
	// MaxBodyValues are those of what comes in, with what stands around a document.
	MaxBodyValues = MaxValues + 100
)

// stopEach is after how many bytes looked at a Meter asks whether it is to stop: some milliseconds.
const stopEach = 2 << 20

// Meter bounds what a computation costs before the cost has come up: what would take more than is left ends
// with an *Error of kind TooLarge, and what nobody waits for any more with the reason. Nobody uses one twice at a time.
// nil bounds nothing.
type Meter struct {
	stop   func() error
	made   int
	looked int
	asked  int // of looked, when stop was asked last
}

// NewMeter is a meter of which nothing is used. stop says why a computation is to end; nil: nothing does.
func NewMeter(stop func() error) *Meter { return &Meter{stop: stop} }

// Fresh is a meter of which nothing is used, with the same end, and with that of stop where it is not nil.
func (m *Meter) Fresh(stop func() error) *Meter {
	if m == nil {
		return nil
	}
	switch {
	case stop == nil:
		stop = m.stop
	case m.stop != nil:
		own := stop
		stop = func() error { return cmp.Or(own(), m.stop()) }
	}
	return NewMeter(stop)
}

// Used are the bytes that were made and looked at.
func (m *Meter) Used() (made, looked int) {
	if m == nil {
		return 0, 0
	}
	return m.made, m.looked
}

// Spend takes bytes that are made and looked at beside the computations of this package.
func (m *Meter) Spend(made, looked int) (err error) {
	defer m.catch(&err)
	m.make(made)
	m.count(looked)
	return nil
}

// ended is why a computation ends, on its way through it.
type ended struct{ err error }

// catch makes an error of the end of a computation. It is deferred by all that begin one.
func (m *Meter) catch(err *error) {
	if m == nil {
		return
	}
	switch r := recover().(type) {
	case nil:
	case ended:
		*err = r.err
	default:
		panic(r)
	}
}

func (m *Meter) make(n int) {
	if m == nil {
		return
	}
	if m.made += n; m.made > MaxMade {
		panic(ended{tooLarge("the answer: takes more than %d MiB to be made: ask for less at once", MaxMade>>20)})
	}
}

func (m *Meter) count(n int) {
	if m == nil {
		return
	}
	if m.looked += n; m.looked > MaxLooked {
		panic(ended{tooLarge("the answer: takes too long to be made: ask for less at once")})
	}
	if m.looked-m.asked < stopEach || m.stop == nil {
		return
	}
	m.asked = m.looked
	if err := m.stop(); err != nil {
		panic(ended{err})
	}
}

// answer takes the bytes of a part of an answer that is about to be made.
func (m *Meter) answer(size int) {
	if m != nil && size > MaxAnswer {
		panic(ended{tooLarge("the answer: has more than %d MiB: ask for less at once", MaxAnswer>>20)})
	}
	m.make(size)
	m.count(size)
}

// IsTooLarge says whether an error is that a computation would cost too much.
func IsTooLarge(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == TooLarge
}
