package nodeapi

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// fakeBackend answers as a test sets it up and records the requests.
type fakeBackend struct {
	looker
	how      ApplyOptions // of the last apply
	held     bool
	enforced Enforced
	until    time.Time // of a drain
	mu       sync.Mutex
	asked    []string
	docs     [][]byte
	warnings []string
	changes  []Change
	flows    FlowChanges
	items    map[string][]Resource
	ready    Readiness
	checks   []Check
	err      error
	block    bool // until ctx ends
}

func (f *fakeBackend) note(ctx context.Context, what string, doc []byte) error {
	f.mu.Lock()
	f.asked = append(f.asked, what)
	if doc != nil {
		f.docs = append(f.docs, doc)
	}
	f.mu.Unlock()
	if f.block {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.err
}

func (f *fakeBackend) Apply(ctx context.Context, doc []byte, how ApplyOptions) ([]string, error) {
	f.how = how
	if err := f.note(ctx, "apply", doc); err != nil {
		return nil, err
	}
	return f.warnings, nil
}

func (f *fakeBackend) Plan(ctx context.Context, doc []byte) ([]Change, error) {
	if err := f.note(ctx, "plan", doc); err != nil {
		return nil, err
	}
	return f.changes, nil
}

func (f *fakeBackend) PlanFlows(context.Context, []byte) (FlowChanges, error) { return f.flows, nil }

func (f *fakeBackend) Checks() []Check { return slices.Clone(f.checks) }

func (f *fakeBackend) List(ctx context.Context, kind string) ([]Resource, error) {
	return f.items[kind], f.note(ctx, "list "+kind, nil)
}

func (f *fakeBackend) Ready(ctx context.Context, kind, id string) (Readiness, error) {
	return f.ready, f.note(ctx, "ready "+kind+" "+id, nil)
}

func (f *fakeBackend) Confirm(ctx context.Context) error { return f.note(ctx, "confirm", nil) }

func (f *fakeBackend) Rollback(ctx context.Context) error { return f.note(ctx, "rollback", nil) }

func (f *fakeBackend) Enforce(ctx context.Context, app, index string, how EnforceOptions) (Enforced, error) {
	return f.enforced, f.note(ctx, fmt.Sprintf("enforce %s %q %+v", app, index, how), nil)
}

func (f *fakeBackend) Drain(ctx context.Context, label string, how DrainOptions) (time.Time, error) {
	return f.until, f.note(ctx, fmt.Sprintf("drain %s for %v by %s", label, how.For, how.By), nil)
}

func (f *fakeBackend) Undrain(ctx context.Context, label string) (bool, error) {
	return f.held, f.note(ctx, "undrain "+label, nil)
}

func (f *fakeBackend) Release(ctx context.Context) (bool, error) {
	return f.held, f.note(ctx, "release", nil)
}
