package configdb

import (
	"cmp"
	"errors"
)

// Limits of one computation. Reading, masking and merging documents within their own limits costs far less.
const (
	MaxMade   = 48 << 20  // bytes allocated in total
	MaxLooked = 256 << 20 // bytes read, counted each time
	MaxAnswer = 8 << 20   // bytes of the result
	MaxValues = 100_000   // members and elements of one document, at any depth
	// MaxBodyValues is the limit of values for a request body: a document and its envelope.
	MaxBodyValues = MaxValues + 100
)

// stopEach is the number of bytes read between two calls of Meter.stop, which is some milliseconds of work.
const stopEach = 2 << 20

// Meter limits the cost of a computation before the cost arises. A computation that would exceed the limit ends with an
// *Error of kind TooLarge; one that stop ends, with the error of stop. A Meter is not safe for concurrent use. A nil
// Meter has no limit.
type Meter struct {
	stop   func() error
	made   int
	looked int
	asked  int // value of looked at the last call of stop
}

// NewMeter returns an unused meter. stop returns an error to end a computation; it may be nil.
func NewMeter(stop func() error) *Meter { return &Meter{stop: stop} }

// Fresh returns an unused meter with the same stop, and with the additional stop if it is not nil.
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

// Used returns the bytes allocated and read.
func (m *Meter) Used() (made, looked int) {
	if m == nil {
		return 0, 0
	}
	return m.made, m.looked
}

// Spend charges bytes that the caller itself allocates and reads.
func (m *Meter) Spend(made, looked int) (err error) {
	defer m.catch(&err)
	m.make(made)
	m.count(looked)
	return nil
}

// ended is the panic value that ends a computation.
type ended struct{ err error }

// catch converts the panic that ends a computation to an error. Every function that starts a computation defers it.
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

// answer charges a part of an answer before it is allocated.
func (m *Meter) answer(size int) {
	if m != nil && size > MaxAnswer {
		panic(ended{tooLarge("the answer: has more than %d MiB: ask for less at once", MaxAnswer>>20)})
	}
	m.make(size)
	m.count(size)
}

// IsTooLarge reports whether an error is of kind TooLarge.
func IsTooLarge(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == TooLarge
}
