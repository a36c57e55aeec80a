package tape

import (
	"encoding/json"
	"strconv"
	"time"
)

// line is one line of a recording. Exactly one of Head, Digest, Core, Said, Lost and End says what it is.
type line struct {
	Head   *Head           `json:"head,omitempty"`
	Digest string          `json:"value,omitempty"` // of a shared value, which is Is
	Is     json.RawMessage `json:"is,omitempty"`

	N       uint64            `json:"n,omitempty"` // counts the lines of steps and of Said of one run
	At      time.Time         `json:"at,omitzero"`
	Core    string            `json:"core,omitempty"` // the kind of core, and of what it is
	Of      string            `json:"of,omitempty"`
	New     bool              `json:"new,omitempty"`   // the core is another one than before
	State   json.RawMessage   `json:"state,omitempty"` // before the event
	Event   json.RawMessage   `json:"event,omitempty"`
	Effects []json.RawMessage `json:"effects,omitempty"`
	Why     string            `json:"why,omitempty"` // why the core can't be replayed from here on

	Said json.RawMessage `json:"said,omitempty"` // what the program told people
	Lost int             `json:"lost,omitempty"` // steps before this line that are not in the recording
	End  string          `json:"end,omitempty"`  // why nothing more of this process is recorded
}

// append writes the line as its tags say, and its parts as they are: package json would read them all again.
func (l line) append(to []byte) []byte {
	w := lineWriter{out: append(to, '{'), first: len(to) + 1}
	if l.Head != nil {
		text, err := json.Marshal(l.Head)
		if err != nil {
			panic(err) // a head is texts and numbers
		}
		w.raw("head", text)
	}
	w.text("value", l.Digest)
	w.raw("is", l.Is)
	if l.N > 0 {
		w.raw("n", strconv.AppendUint(nil, l.N, 10))
	}
	if !l.At.IsZero() {
		w.text("at", l.At.Format(time.RFC3339Nano))
	}
	w.text("core", l.Core)
	w.text("of", l.Of)
	if l.New {
		w.raw("new", []byte("true"))
	}
	w.raw("state", l.State)
	w.raw("event", l.Event)
	for i, f := range l.Effects {
		if i == 0 {
			w.key("effects")
			w.out = append(w.out, '[')
		} else {
			w.out = append(w.out, ',')
		}
		w.out = append(w.out, f...)
		if i == len(l.Effects)-1 {
			w.out = append(w.out, ']')
		}
	}
	w.text("why", l.Why)
	w.raw("said", l.Said)
	if l.Lost > 0 {
		w.raw("lost", strconv.AppendInt(nil, int64(l.Lost), 10))
	}
	w.text("end", l.End)
	return append(w.out, '}')
}

// lineWriter writes an object of JSON. What is empty is left out.
type lineWriter struct {
	out   []byte
	first int // where the first key is
}

func (w *lineWriter) key(name string) {
	if len(w.out) > w.first {
		w.out = append(w.out, ',')
	}
	w.out = append(append(append(w.out, '"'), name...), '"', ':')
}

func (w *lineWriter) raw(name string, s []byte) {
	if len(s) > 0 {
		w.key(name)
		w.out = append(w.out, s...)
	}
}

func (w *lineWriter) text(name, s string) {
	if s != "" {
		w.key(name)
		e := encoder{out: w.out}
		e.quote(s)
		w.out = e.out
	}
}
