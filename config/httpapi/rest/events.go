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
	Heartbeat   = 15 * time.Second // interval of the comments that keep an idle stream alive

	writeTimeout = 10 * time.Second // a reader that reads nothing for this long is disconnected
)

// FlushingWriter flushes each write, with a deadline for the reader.
type FlushingWriter struct {
	http.ResponseWriter
}

// End extends the write deadline so that the server can write the end of the answer: after the deadline of the last
// Write, the reader would see a broken stream.
func (f FlushingWriter) End() {
	// An error means that the connection has no deadlines, so none can be over.
	_ = http.NewResponseController(f.ResponseWriter).SetWriteDeadline(time.Now().Add(writeTimeout))
}

func (f FlushingWriter) Write(p []byte) (int, error) {
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

// KnownCallerWriter is a stream of events for a caller who may be revoked meanwhile: it writes as long as Known returns
// true. Known is called before each event and each heartbeat.
type KnownCallerWriter struct {
	io.Writer
	Known func() bool
}

// errRevoked ends the stream of a caller who was revoked or is known under another name now.
var errRevoked = errors.New("the caller is not known any more")

func (w KnownCallerWriter) Write(p []byte) (int, error) {
	if !w.Known() {
		return 0, errRevoked
	}
	return w.Writer.Write(p)
}

// StreamEvents lets run write events to one reader, and adds heartbeats. When the reader goes, the context of run
// ends; that is no error.
func StreamEvents(ctx context.Context, w io.Writer,
	run func(ctx context.Context, tell func(text []byte) error) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var one sync.Mutex // protects w
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
	<-ended // it still writes to w
	if gone != nil {
		return nil
	}
	return err
}
