package nodelink

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"edgespan/config/fleet/nodeproto"
	pb "edgespan/platform/nodelink/linkpb"
)

// A node reports its whole state every few seconds and on each change. With a thousand parameters that is heavy, and
// hardly any of them changes. So a large report is a base, and later ones contain the differences from it. Each
// contains all differences, so it may replace an older one in the queue; a queued base is kept. A stream begins with a
// whole report.

// leastBase is the number of entries from which a report is a base.
const leastBase = 64

// deltaHeader is sent by a server that supports partial reports.
const deltaHeader = "edgespan-link-delta"

// teller is the node's side.
type teller struct {
	on bool // the controller supports it

	mu         sync.Mutex
	parameters map[string]nodeproto.ParameterReport // of the base; nil for none
	health     map[string]nodeproto.HealthReport
}

// put queues a report.
func (t *teller) put(r nodeproto.Report, put func(*pb.Up, class) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if part := t.part(r); part != nil {
		return put(&pb.Up{Kind: &pb.Up_Report{Report: part}}, delta)
	}
	whole := report(r)
	whole.Base = t.on && len(r.Parameters)+len(r.Health) >= leastBase
	t.parameters, t.health = nil, nil
	if err := put(&pb.Up{Kind: &pb.Up_Report{Report: whole}}, state); err != nil || !whole.GetBase() {
		return err
	}
	t.parameters, t.health = map[string]nodeproto.ParameterReport{}, map[string]nodeproto.HealthReport{}
	for _, p := range r.Parameters {
		t.parameters[p.ID] = p
	}
	for _, h := range r.Health {
		t.health[h.Name] = h
	}
	return nil
}

// part returns the differences from the base, nil without a base or if a new base is cheaper.
func (t *teller) part(r nodeproto.Report) *pb.Report {
	if t.parameters == nil {
		return nil
	}
	all := len(r.Parameters) + len(r.Health)
	parameters, goneParameters := differ(t.parameters, r.Parameters,
		func(p nodeproto.ParameterReport) string { return p.ID })
	health, goneHealth := differ(t.health, r.Health, func(h nodeproto.HealthReport) string { return h.Name })
	if 2*(len(parameters)+len(goneParameters)+len(health)+len(goneHealth)) > all {
		return nil
	}
	r.Parameters, r.Health = parameters, health
	part := report(r)
	part.Part, part.GoneParameters, part.GoneHealth = true, texts(goneParameters), texts(goneHealth)
	return part
}

// differ returns the entries that are new or changed against the base, and the keys that were removed.
func differ[T comparable](base map[string]T, now []T, key func(T) string) (changed []T, gone []string) {
	seen := make(map[string]bool, len(now))
	for _, v := range now {
		k := key(v)
		seen[k] = true
		if was, is := base[k]; !is || was != v {
			changed = append(changed, v)
		}
	}
	for k := range base {
		if !seen[k] {
			gone = append(gone, k)
		}
	}
	slices.Sort(gone)
	return changed, gone
}

// listener is the controller's side.
type listener struct{ base *pb.Report }

var errNoBase = errors.New("partial report without a complete one before it")

// completeReport returns the complete report.
func (l *listener) completeReport(r *pb.Report) (*pb.Report, error) {
	if !r.GetPart() {
		l.base = nil
		if r.GetBase() {
			l.base = &pb.Report{Parameters: r.GetParameters(), Health: r.GetHealth()}
		}
		return r, nil
	}
	if l.base == nil {
		return nil, fmt.Errorf("read a report: %w", errNoBase)
	}
	r.Parameters = overlay(l.base.GetParameters(), r.GetParameters(), r.GetGoneParameters(), (*pb.Parameter).GetId)
	r.Health = overlay(l.base.GetHealth(), r.GetHealth(), r.GetGoneHealth(), (*pb.Health).GetName)
	return r, nil
}

// overlay applies the differences to a base, by key.
func overlay[T proto.Message](base, changed []T, gone []string, key func(T) string) []T {
	skip := make(map[string]bool, len(changed)+len(gone))
	for _, v := range changed {
		skip[key(v)] = true
	}
	for _, k := range gone {
		skip[k] = true
	}
	out := make([]T, 0, len(base)+len(changed))
	for _, v := range base {
		if !skip[key(v)] {
			out = append(out, v)
		}
	}
	out = append(out, changed...)
	slices.SortStableFunc(out, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return out
}
