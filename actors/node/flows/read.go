package flows

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
)

const (
	// followed is how many lines wait for one reader who follows the log, and readersAtOnce how many readers there are.
	followed      = 1024
	readersAtOnce = 16
)

// reader is one who reads the log. The Recorder's out guards missed.
type reader struct {
	lines  chan nodeapi.FlowRecord
	missed uint64
}

// pass passes lines without waiting.
func (r *reader) pass(list []nodeapi.FlowRecord) {
	for _, x := range list {
		select {
		case r.lines <- x:
		default:
			r.missed += max(x.Lost, 1)
		}
	}
}

// Emit emits the lines that a query selects, the oldest first. With Follow it continues until ctx ends or emit fails.
func (f *Recorder) Emit(ctx context.Context, q nodeapi.FlowLogQuery, emit func(nodeapi.FlowRecord) error) error {
	r := &reader{lines: make(chan nodeapi.FlowRecord, followed)}
	f.out.Lock()
	if len(f.readers) >= readersAtOnce {
		f.out.Unlock()
		return fmt.Errorf("read the flow log: %d readers read it already: %w", readersAtOnce, rest.ErrBusy)
	}
	stored, err := f.o.Store.Stored()
	if err == nil {
		f.readers[r] = struct{}{}
	}
	f.out.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		f.out.Lock()
		defer f.out.Unlock()
		delete(f.readers, r)
	}()
	if err := emitStored(ctx, q, stored, emit); err != nil || !q.Follow {
		return err
	}
	return f.follow(ctx, q, r, emit)
}

func (f *Recorder) follow(ctx context.Context, q nodeapi.FlowLogQuery, r *reader,
	emit func(nodeapi.FlowRecord) error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case x := <-r.lines:
			f.out.Lock()
			missed := r.missed
			r.missed = 0
			f.out.Unlock()
			if missed > 0 {
				if err := emit(nodeapi.FlowRecord{Time: time.Now(), Kind: nodeapi.FlowsLost, Lost: missed}); err != nil {
					return err
				}
			}
			if !q.Selects(x) {
				continue
			}
			if err := emit(x); err != nil {
				return err
			}
		}
	}
}

// emitStored emits the stored lines that a query selects.
func emitStored(ctx context.Context, q nodeapi.FlowLogQuery, stored func(context.Context, func([]byte) error) error,
	emit func(nodeapi.FlowRecord) error) error {
	var last []nodeapi.FlowRecord // a ring, if only so many are asked for
	n := 0
	err := stored(ctx, func(line []byte) error {
		var r nodeapi.FlowRecord
		switch {
		case json.Unmarshal(line, &r) != nil || !q.Selects(r): // of a newer release, or damaged
			return nil
		case q.Last == 0:
			return emit(r)
		case len(last) < q.Last:
			last = append(last, r)
		default:
			last[n%q.Last] = r
		}
		n++
		return nil
	})
	if err != nil {
		return err
	}
	for i := range last {
		if err := emit(last[(n+i)%len(last)]); err != nil {
			return err
		}
	}
	return nil
}
