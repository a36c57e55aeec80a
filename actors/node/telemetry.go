package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"edgespan/actors/node/flows"
	"edgespan/appnet"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/netinst"
	"edgespan/netinst/flowlog"
	"edgespan/netinst/hits"
	"edgespan/netinst/netstate"
	"edgespan/pubsub"
)

const (
	// hitsEvery is the period in which the counters of all access rules are read; they are also read for a request and
	// before their chains are written. A reading takes at most one part in hitsRest of the time.
	hitsEvery = 10 * time.Minute
	hitsRest  = 2000
	// scrapedEvery and scrapedRest are the same while metrics are scraped.
	scrapedEvery = 15 * time.Second
	scrapedRest  = 50
	// Limits of reading the counters of an app, and of those of chains that are about to be written, which waits for it.
	hitsTimeout  = 5 * time.Second
	writeTimeout = 200 * time.Millisecond
)

// counting says which chains count for the adapters of a network, as in manager.Apply.
type counting struct {
	counted  func(netinst.AdapterKey) []netinst.CountedChain
	adapters map[netinst.AdapterKey][]netstate.ID
}

// ruleHits has the hits of the access rules of all networks, by their owners' names.
type ruleHits struct {
	mu       sync.Mutex
	networks map[string]*networkHits
}

type networkHits struct {
	owner   netstate.Owner
	reading chan struct{} // has room for the one reading that may be under way

	mu sync.Mutex
	hits.Network
}

func newRuleHits() *ruleHits { return &ruleHits{networks: map[string]*networkHits{}} }

func (h *ruleHits) get(name string) *networkHits {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.networks[name]
}

func (h *ruleHits) of(o netstate.Owner) *networkHits {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.networks[o.Name] == nil {
		h.networks[o.Name] = &networkHits{owner: o, reading: make(chan struct{}, 1)}
	}
	return h.networks[o.Name]
}

func (h *ruleHits) forget(o netstate.Owner) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.networks, o.Name)
}

// chainsOf returns the chains of ops; with changed, those of them that replace others.
func chainsOf(ops []netstate.Op, changed bool) map[netstate.ID]bool {
	out := map[netstate.ID]bool{}
	for _, op := range ops {
		for _, it := range op.Items {
			if op.Kind == netstate.KindChain && (!changed || it.Have != nil && it.Want != nil) {
				out[it.ID()] = true
			}
		}
	}
	return out
}

// readBefore reads the counters that a plan is about to reset. If that takes too long, they are lost.
func (a *applier) readBefore(with counting, plan netstate.Plan) {
	changed := chainsOf(plan, true)
	if with.counted == nil || len(changed) == 0 {
		return
	}
	n := a.d.hits.of(a.owner)
	n.mu.Lock()
	n.Writing()
	var readings []hits.Reading
	var ids []netstate.ID
	for k, own := range with.adapters {
		if slices.ContainsFunc(own, func(id netstate.ID) bool { return changed[id] }) {
			r := n.Begin(k, true)
			readings, ids = append(readings, r), append(ids, r.IDs()...)
		}
	}
	n.mu.Unlock()
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(a.d.ctx, writeTimeout)
	defer cancel()
	counts, err := a.d.host.Counters(ctx, a.owner, ids)
	if err != nil {
		a.d.of(logTelemetry).Warn("read the counters of access rules before they are written", zap.String("ni", a.owner.Name),
			zap.Error(err))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range readings {
		n.Record(r, counts, time.Now())
	}
}

// countFrom records which chains a plan has written: they count from 0.
func (a *applier) countFrom(with counting, done []netstate.Op, failures []netstate.OpFailure) {
	if with.counted == nil {
		a.d.hits.forget(a.owner)
		return
	}
	n := a.d.hits.of(a.owner)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(done)+len(failures) > 0 {
		n.Written(chainsOf(done, false))
	}
	if !slices.ContainsFunc(failures, func(f netstate.OpFailure) bool { return f.ID.Kind == netstate.KindChain }) {
		n.Applied(with.counted, with.adapters) // otherwise some chains may have their former rules
	}
}

// read reads the counters of an adapter; callers take turns.
func (n *networkHits) read(ctx context.Context, host Host, k netinst.AdapterKey) error {
	select {
	case n.reading <- struct{}{}:
		defer func() { <-n.reading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	n.mu.Lock()
	r := n.Begin(k, false)
	n.mu.Unlock()
	if len(r.Chains) == 0 {
		return nil
	}
	counts, err := host.Counters(ctx, n.owner, r.IDs())
	if err != nil {
		return fmt.Errorf("read the counters of access rules: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Record(r, counts, time.Now())
	return nil
}

// hitsOf returns the totals of an adapter as last read.
func (d *deps) hitsOf(k netinst.AdapterKey, ni uuid.UUID) (map[hits.Key]hits.Total, time.Time) {
	n := d.hits.get(ni.String())
	if n == nil {
		return nil, time.Time{}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.Totals(k)
}

// readHits reads the counters of an app's access rules now; index is that of one adapter, or "".
func (d *deps) readHits(ctx context.Context, app appnet.AppNetworkConfig, index string) error {
	ctx, cancel := context.WithTimeout(ctx, hitsTimeout)
	defer cancel()
	var errs []error
	for i, u := range app.Adapters {
		n := d.hits.get(u.NetworkInstance.String())
		if n != nil && (index == "" || index == strconv.Itoa(i)) {
			errs = append(errs, n.read(ctx, d.host, netinst.AdapterKey{AppUUID: app.UUID, Index: i}))
		}
	}
	return errors.Join(errs...)
}

// Rules reads the counters of an app's access rules now, and returns the rules with their hits.
func (n *Node) Rules(ctx context.Context, app, index string) (nodeapi.AppRules, error) {
	c, known := n.d.topics.AppConfig.Get("", app)
	i, err := strconv.Atoi(index)
	if _, has := c.Adapters[i]; !known || index != "" && (err != nil || !has) {
		return nodeapi.AppRules{}, fmt.Errorf("acl of app/%s: %w: not in the config",
			strings.TrimSuffix(app+"/"+index, "/"), rest.ErrNotFound)
	}
	err = n.d.readHits(ctx, c, index)
	out := n.AppRules(c, index)
	if err != nil {
		out.Error = err.Error()
	}
	return out, nil
}

type (
	// readHitsDue tells telemetry to read all counters.
	readHitsDue struct{}
	// scraped tells telemetry that somebody looks at the counters.
	scraped struct{}
)

// telemetry is the leaf that reads the counters of access rules between requests for them, so that the times of their
// last hits are known with the precision of its period.
type telemetry struct {
	d      *deps
	timers timers
	began  time.Time // of the last reading
	took   time.Duration
}

func (t *telemetry) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		t.timers.after(c, hitsEvery, func() any { return readHitsDue{} })
	case *actor.Stopping, *actor.Restarting:
		t.timers.stop()
	case scraped:
		if time.Since(t.began) >= max(scrapedEvery, scrapedRest*t.took) {
			t.read()
		}
	case readHitsDue:
		t.read()
		t.timers.after(c, max(hitsEvery, hitsRest*t.took), func() any { return readHitsDue{} })
	}
}

func (t *telemetry) read() {
	t.began = time.Now()
	for _, app := range t.d.topics.AppConfig.List("") {
		if err := t.d.readHits(t.d.ctx, app, ""); err != nil {
			t.d.of(logTelemetry).Warn("read counters", zap.String("app", app.UUID.String()), zap.Error(err))
		}
	}
	t.took = time.Since(t.began)
}

// bookEvery is the shortest time between two changes of the book: apps on a switch may show new addresses all the time.
const bookEvery = 500 * time.Millisecond

type bookDue struct{}

// flowLog is the leaf that keeps the flow log: it says whose flows are recorded (the book), and listens to the kernel
// while there are such networks. Package flows reads and writes in goroutines of its own, so that the actor never
// blocks.
type flowLog struct {
	d       *deps
	subs    subscriptions
	timers  timers
	inputs  []interface{ Dirty() bool }
	pending bool               // bookDue is under way
	cancel  context.CancelFunc // of the recording; nil while there is none
}

// dirty is a subscription of which only the fact counts that something has changed.
type dirty[V any] struct{ *pubsub.Subscription[V] }

func (s dirty[V]) Dirty() bool { return len(s.Drain()) > 0 }

func listenTo[V any](l *flowLog, t *pubsub.Topic[V]) {
	l.inputs = append(l.inputs, dirty[V]{subscribe(&l.subs, t, pubsub.Selector{AllScopes: true})})
}

func (l *flowLog) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		l.subs = subscriptions{wake: waker(c)}
		t := l.d.topics
		listenTo(l, t.NetworkConfig)
		listenTo(l, t.AppConfig)
		listenTo(l, t.AdapterStatus)
		listenTo(l, t.PortStatus)
		listenTo(l, t.Uplinks)
		listenTo(l, t.SysParams)
	case *actor.Stopping, *actor.Restarting:
		l.subs.close()
		l.timers.stop()
		l.stop()
	case wake:
		changed := false
		for _, s := range l.inputs {
			changed = s.Dirty() || changed
		}
		if changed && !l.pending {
			l.pending = true
			l.timers.after(c, bookEvery, func() any { return bookDue{} })
		}
	case bookDue:
		l.pending = false
		l.write()
	}
}

// write makes a new book, and begins or ends the listening.
func (l *flowLog) write() {
	logged := false
	for _, n := range l.d.topics.NetworkConfig.List("") {
		logged = logged || n.FlowLog
	}
	if !logged {
		l.stop()
		l.d.flows.Use(nil)
		l.d.flows.Export(l.d.ctx, flows.Export{})
		return
	}
	l.d.flows.Use(flowlog.NewBook(l.d.worldAndInputs(l.d.currentConfig())))
	p, _ := l.d.topics.SysParams.Get("", "node")
	l.d.flows.Export(l.d.ctx, flows.Export{Collector: p.FlowExport.Collector, Domain: p.FlowExport.Domain,
		Templates: time.Duration(p.FlowExport.TemplateSeconds) * time.Second, Socket: p.FlowExport.Socket})
	if l.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(l.d.ctx)
	l.cancel = cancel
	go l.d.flows.Run(ctx)
}

func (l *flowLog) stop() {
	if l.cancel != nil {
		l.cancel()
		l.cancel = nil
	}
}

// newFlows returns what records flows in a store, and exports them.
func (d *deps) newFlows(s flows.Store, dial flows.Dial) *flows.Recorder {
	failed := func(what string, err error) {
		d.of(logFlows).Warn("flow log", zap.Error(err))
		e := event(nodeapi.EventFailed, "host", "", what)
		e.Error = err.Error()
		d.recordEvent(e)
	}
	stored := func(err error) {
		if err != nil {
			failed("the flow log is not written", err)
			return
		}
		d.recordEvent(event(nodeapi.EventRecovered, "host", "", "the flow log is written again"))
	}
	denied := func(ctx context.Context, emit func(netstate.FlowEvents)) error {
		return d.host.DeniedPackets(ctx, netinst.FlowLogGroup, emit)
	}
	name := func(app uuid.UUID) string {
		c, _ := d.topics.AppConfig.Get("", app.String())
		return c.DisplayName
	}
	exported := func(to, address string, err error) {
		if err != nil {
			failed("the flow log is not sent to the "+to+" "+address, err)
			return
		}
		d.recordEvent(event(nodeapi.EventRecovered, "host", "", "the flow log is sent to the "+to+" "+address+" again"))
	}
	return flows.New(flows.Options{Store: s, Ended: d.host.EndedFlows, Denied: denied, List: d.host.TrackedFlows,
		Name: name, Stored: stored, Dial: dial, Exported: exported, RemoteName: d.watched.nameOf,
		Deaf: func(err error) { failed("the flow log misses some flows", err) }})
}

// FlowLog emits lines of the flow log.
func (n *Node) FlowLog(ctx context.Context, q nodeapi.FlowLogQuery, emit func(nodeapi.FlowRecord) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.d.ctx, cancel)()
	return n.d.flows.Emit(ctx, q, emit)
}
