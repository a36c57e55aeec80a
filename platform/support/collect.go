package support

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
)

// collected is what a part wrote in time.
type collected struct {
	text  []byte // whole lines, if it was cut
	cut   bool
	fault string
}

// collect runs a part in a goroutine, which is abandoned at its deadline: a read of a file can hang for ever.
func collect(ctx context.Context, p Part, limit int) collected {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(p.Timeout, PartTimeout))
	defer cancel()
	b := &bounded{limit: limit, tail: p.Tail}
	ended := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				ended <- fmt.Errorf("panic: %v", r)
			}
		}()
		ended <- p.Collect(ctx, b)
	}()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = ctx.Err()
	}
	out := collected{}
	out.text, out.cut = b.take()
	switch {
	case err == nil || out.cut && errors.Is(err, errFull):
	case ctx.Err() != nil:
		out.fault = "its time was over"
		if !p.JSON { // a line that is cut could contain the beginning of a secret
			out.text = wholeLines(out.text, false)
		}
	default:
		out.fault = err.Error()
	}
	return out
}

// errFull ends a part that has reached its limit.
var errFull = errors.New("larger than its limit")

// errOver ends a part that was abandoned.
var errOver = errors.New("abandoned")

// bounded keeps the first or the last bytes that are written to it.
type bounded struct {
	limit int
	tail  bool

	mu   sync.Mutex
	buf  []byte
	cut  bool
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return 0, errOver
	case b.tail:
		b.buf = append(b.buf, p[max(0, len(p)-b.limit):]...)
		b.cut = b.cut || len(p) > b.limit
		if len(b.buf) > 2*b.limit {
			b.buf, b.cut = append(b.buf[:0], b.buf[len(b.buf)-b.limit:]...), true
		}
		return len(p), nil
	}
	room := max(0, b.limit-len(b.buf))
	b.buf = append(b.buf, p[:min(room, len(p))]...)
	if len(p) > room {
		b.cut = true
		return room, errFull
	}
	return len(p), nil
}

// take returns what was written, in whole lines if it was cut, and refuses more.
func (b *bounded) take() (text []byte, cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	if len(b.buf) > b.limit {
		b.buf, b.cut = b.buf[len(b.buf)-b.limit:], true
	}
	if b.cut {
		b.buf = wholeLines(b.buf, b.tail)
	}
	return b.buf, b.cut
}

// wholeLines drops the last line, or of the end of a text the first one, which is not whole.
func wholeLines(text []byte, tail bool) []byte {
	if tail {
		_, text, _ = bytes.Cut(text, []byte("\n"))
		return text
	}
	return text[:bytes.LastIndexByte(text, '\n')+1]
}
