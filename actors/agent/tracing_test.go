package agent

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/pubsub/trace"
)

// sink keeps spans.
type sink struct {
	mu  sync.Mutex
	all []trace.Record
}

func (s *sink) Export(r *trace.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, *r)
}

// below returns the spans below a context: their names, and "!" for a failed one.
func (s *sink) below(c trace.Context) (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.all {
		if r.Trace == c.Trace && r.Parent == c.Span {
			name := r.Name
			if r.Failed {
				name += "!"
			}
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (s *sink) named(name string) (out trace.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.all {
		if r.Name == name {
			out = r // the last one
		}
	}
	return out
}

func parent(n byte) trace.Context {
	return trace.Context{Trace: [16]byte{n}, Span: [8]byte{n}, Sampled: true}
}

func onTraced(t *testing.T, f func(r *rig, s *sink)) {
	s := &sink{}
	onRig(t, func(r *rig) {
		r.stop()
		r.tracer = trace.New(s, 1)
		r.start()
		r.connect()
		f(r, s)
	})
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestAPushContinuesTheTraceOfItsController(t *testing.T) {
	onTraced(t, func(r *rig, s *sink) {
		r.trace = parent(1).String()
		r.push(`{"a":1}`)
		if r.host.traced.Trace != parent(1).Trace {
			t.Errorf("published in trace %v", r.host.traced)
		}
		r.settle(time.Second)
		same(t, "below the push", s.below(parent(1)), "node.apply")
		same(t, "below the apply", s.below(s.named("node.apply").Context), "node.confirm", "node.validate")

		r.trace = parent(2).String()
		r.push(`{"bad":1}`)
		r.settle(time.Second)
		same(t, "below a rejected push", s.below(parent(2)), "node.apply!")

		published := len(r.host.all)
		r.trace = parent(3).String()
		r.push(`{"a":1}`)
		r.settle(time.Second)
		if len(r.host.all) != published {
			t.Error("an equal config with another trace is published again")
		}
		same(t, "below an equal push", s.below(parent(3)), "node.apply")

		r.trace = strings.Repeat("x", 100)
		r.push(`{"a":2}`)
		r.settle(time.Second)
		if top := s.named("node.apply"); top.Parent != [8]byte{} {
			t.Errorf("an invalid traceparent is the parent %v", top.Parent)
		}
	})
}

func TestAnUndoBelongsToTheTraceOfItsPush(t *testing.T) {
	onTraced(t, func(r *rig, s *sink) {
		r.push(`{"a":1}`)
		r.settle(time.Second)
		r.trace = parent(1).String()
		r.ctl.set(func(c *controller) { c.deaf = true })
		r.push(`{"a":2}`)
		r.settle(commitconfirm.DefaultConfirm + time.Second)
		same(t, "below the apply", s.below(s.named("node.apply").Context), "node.confirm!", "node.undo", "node.validate")
		if r.host.traced.Span != s.named("node.undo").Span {
			t.Errorf("the undo is published in %v", r.host.traced)
		}
	})
}

// Below a push that its controller does not sample, nothing is recorded.
func TestAPushThatIsNotSampledHasNoSpan(t *testing.T) {
	onTraced(t, func(r *rig, s *sink) {
		c := parent(1)
		c.Sampled = false
		before := len(s.all)
		r.trace = c.String()
		r.push(`{"a":1}`)
		r.settle(time.Second)
		if len(s.all) != before {
			t.Errorf("spans: %+v", s.all[before:])
		}
	})
}
