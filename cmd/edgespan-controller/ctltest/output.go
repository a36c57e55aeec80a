package ctltest

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// Timeout bounds every wait of a test; only a busy machine takes that long.
const Timeout = 60 * time.Second

// Output is output that a test can wait for.
type Output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed by each write
}

// NewOutput returns an empty Output.
func NewOutput() *Output { return &Output{more: make(chan struct{})} }

func (w *Output) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.more)
	w.more = make(chan struct{})
	return w.text.Write(p)
}

func (w *Output) String() string {
	text, _ := w.now()
	return text
}

func (w *Output) now() (string, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String(), w.more
}

// Line waits for a line that contains part and returns it. It returns "" if ended is closed first.
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
