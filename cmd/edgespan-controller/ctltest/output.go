package ctltest

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// Timeout bounds every wait of a test; nothing takes that long but on a machine that is busy.
const Timeout = 60 * time.Second

// Output is output that a test waits for.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed with each write
}

// NewOutput is one that nothing was written to.
func NewOutput() *Output { return &Output{more: make(chan struct{})} }

// Write adds to it.
func (w *Output) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.more)
	w.more = make(chan struct{})
	return w.text.Write(p)
}

// String is all of it.
func (w *Output) String() string {
	text, _ := w.now()
	return text
}

func (w *Output) now() (string, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String(), w.more
}

// Line waits for a line that has a text, and returns it; "" if ended is closed before.
func (w *Output) Line(t testing.TB, part string, ended <-chan struct{}) string {
	t.Helper()
	late := time.After(Timeout)
	for {
		text, more := w.now()
		for l := range strings.SplitSeq(text, "\n") {
			if strings.Contains(l, part) {
				return l
			}
		}
		select {
		case <-more:
		case <-ended:
			if text, _ := w.now(); strings.Contains(text, part) {
				continue
			}
			return ""
		case <-late:
			t.Fatalf("no %q in\n%s", part, text)
		}
	}
}
