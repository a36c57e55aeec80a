package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// Server-sent events (WHATWG HTML §9.2).
const (
	EventStream = "text/event-stream"
	Heartbeat   = 15 * time.Second // a comment, where nothing else is told

	writeTimeout = 10 * time.Second // a reader that takes nothing for so long is sent away
)

// Flushing sends each write at once, to a reader that takes it.
type Flushing struct {
	http.ResponseWriter
}

// End leaves time for what ends an answer, which the server writes: the deadline of the last Write
// may be over, and its reader would take the stream for one that broke.
func (f Flushing) End() {
	// What can't be set is set by none: then there is no deadline that could be over.
	_ = http.NewResponseController(f.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
}

func (f Flushing) Write(p []byte) (int, error) {
	c := http.NewResponseController(f.ResponseWriter)
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	n, err := f.ResponseWriter.Write(p)
	if err == nil {
		err = c.Flush()
	}
	return n, err
}

// WhileKnown is a stream of events for a caller who may be revoked meanwhile: it is written to as long as
// they are known. It is asked before each event, and so at each sign of life, too.
type WhileKnown struct {
	io.Writer
	Known func() bool
}

// errRevoked ends the stream of a caller who is not known any more, or as somebody else.
var errRevoked = errors.New("the caller is not known any more")

func (w WhileKnown) Write(p []byte) (int, error) {
	if !w.Known() {
		return 0, errRevoked
	}
	return w.Writer.Write(p)
}

// Beating has run tell one reader of events, with a sign of life now and then. The context of run ends with the
// reader: that nobody reads is no error.
func Beating(ctx context.Context, w io.Writer,
	run func(ctx context.Context, tell func(text []byte) error) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var one sync.Mutex // of w
	var gone error
	tell := func(text []byte) error {
		one.Lock()
		defer one.Unlock()
		if _, err := w.Write(text); err != nil {
			gone = err
			cancel()
		}
		return gone
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		beat := time.NewTicker(Heartbeat)
		defer beat.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-beat.C:
				if tell([]byte(": nothing new\n\n")) != nil {
					return
				}
			}
		}
	}()
	err := run(ctx, tell)
	cancel()
	<-ended // it writes to who is about to go
	if gone != nil {
		return nil
	}
	return err
}
