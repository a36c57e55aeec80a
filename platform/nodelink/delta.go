package nodelink

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

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

// The node reports its state every reportInterval. In a large fleet, it repeats an unchanged one only once per
// reconnect spread, which grows with the fleet: what idle nodes cost a controller then has a bound. Keepalive pings
// show that a node is alive, not reports.
const reportInterval = 5 * time.Second

// reportSender is the node's side.
type reportSender struct {
	on bool // the controller supports it

	mu         sync.Mutex
	parameters map[string]nodeproto.ParameterReport // of the base; nil for none
	health     map[string]nodeproto.HealthReport

	repeat time.Duration     // an unchanged report is repeated after that
	last   [sha256.Size]byte // digest of the last report; zero: none
	at     time.Time         // when it was sent
}

// repeatAfter sets when an unchanged report is repeated.
func (t *reportSender) repeatAfter(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.repeat = d
}

// forgetAfter makes the next report be sent, changed or not: the controller may wait for it after a message, except one
// of a relay.
func (t *reportSender) forgetAfter(m nodeproto.FromController) {
	if _, relayed := m.(nodeproto.Relay); relayed {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = [sha256.Size]byte{}
}

// put queues a report, unless it repeats the last one too soon.
func (t *reportSender) put(now time.Time, r nodeproto.Report, put func(*pb.Up, class) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var digest [sha256.Size]byte
	if t.repeat > reportInterval {
		text, err := proto.MarshalOptions{Deterministic: true}.Marshal(toWireReport(r))
		if err != nil {
			return err
		}
		if digest = sha256.Sum256(text); digest == t.last && now.Sub(t.at) < t.repeat {
			return nil
		}
	}
	err := t.putChanges(r, put)
	if t.last, t.at = digest, now; err != nil {
		t.last = [sha256.Size]byte{}
	}
	return err
}

// putChanges queues a report, or its differences from the base.
func (t *reportSender) putChanges(r nodeproto.Report, put func(*pb.Up, class) error) error {
	if part := t.part(r); part != nil {
		return put(&pb.Up{Kind: &pb.Up_Report{Report: part}}, delta)
	}
	whole := toWireReport(r)
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
func (t *reportSender) part(r nodeproto.Report) *pb.Report {
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
	part := toWireReport(r)
	part.Part, part.GoneParameters, part.GoneHealth = true, validTexts(goneParameters), validTexts(goneHealth)
	return part
}

// differ returns the entries that are new or changed against the base, and the keys that were removed.
func differ[T comparable](base map[string]T, now []T, key func(T) string) (changed []T, gone []string) {
	seen := make(map[string]bool, len(now))
	for _, v := range now {
		k := key(v)
		seen[k] = true
		if was, ok := base[k]; !ok || was != v {
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

// reportReceiver is the controller's side.
type reportReceiver struct{ base *pb.Report }

var errNoBase = errors.New("partial report without a complete one before it")

// completeReport returns the complete report.
func (l *reportReceiver) completeReport(r *pb.Report) (*pb.Report, error) {
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
