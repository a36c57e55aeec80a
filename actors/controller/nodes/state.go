package nodes

import (
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"edgespan/config/fleet"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
	"edgespan/config/stateloop"
)

// declarations caches what configs declare. Nodes with the same config share one list, which is read-only.
type declarations struct {
	mu   sync.Mutex
	last [maxDocuments]declaration
	next int
}

type declaration struct {
	md5        string
	parameters []stateloop.DesiredParameter
	err        error // why nothing could be read
}

// get returns what layers declare, by the MD5 of their config.
func (d *declarations) get(md5 string, set layers.Set) declaration {
	d.mu.Lock()
	for _, one := range d.last {
		if one.md5 == md5 && md5 != "" {
			d.mu.Unlock()
			return one
		}
	}
	d.mu.Unlock()
	out := declaration{md5: md5}
	if effective, clashes := set.Effective(); clashes != nil {
		out.err = clashes
	} else {
		out.parameters, out.err = stateloop.DeclaredParameters(effective)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last[d.next] = out
	d.next = (d.next + 1) % maxDocuments
	return out
}

// summary is the node's state report: the state of each parameter that is desired or must be removed, derived from what
// the node reported.
type summary struct {
	of       fleet.Desired
	has      listKey
	online   bool
	answers  fleet.Generation
	reported []nodeproto.ParameterReport
	health   []nodeproto.HealthReport
	report   stateloop.PeerStatusReport
	more     map[string]partView // by id
	number   uint64              // counts derivations
}

// views is what is shown of the node.
type views struct {
	declared declaration // of its desired config
	summary  summary
	viewOf   viewKey // what the view was derived from
}

// summarize derives the report if its input has changed.
func (n *node) summarize() stateloop.PeerStatusReport {
	s := &n.summary
	r := n.report
	if r == nil {
		r = &nodeproto.Report{}
	}
	has := keyOfList(n.machine.PossibleLeftovers())
	if s.number > 0 && s.of == n.desired.Desired && s.has == has && s.online == (n.stream != nil) &&
		s.answers == r.Generation &&
		slices.Equal(s.reported, r.Parameters) && slices.Equal(s.health, r.Health) {
		s.report.LastReport = n.lastReport()
		return s.report
	}
	reports := make([]stateloop.Reported, 0, len(r.Parameters))
	more := map[string]partView{}
	for _, p := range r.Parameters {
		reports = append(reports, stateloop.Reported{ID: p.ID,
			Kind: p.Kind, State: stateloop.State(p.State), Message: p.Detail, Generation: p.Generation, Since: p.Since})
		more[p.ID] = partView{Reported: p.State, Attempts: p.Attempts, NextTry: p.NextTry}
	}
	want := stateloop.Config{Generation: n.desired.Generation, Parameters: n.desiredParameters(more, reports)}
	was := s.report.PeerConfigurationState
	said := stateloop.EdgePeerConfigurationState{Generation: r.Generation, Parameters: reports}
	about := stateloop.Peer{Name: n.name, Online: n.stream != nil, LastReport: n.lastReport()}
	for _, h := range r.Health {
		about.Health = append(about.Health, stateloop.HealthItem{Name: h.Name, Good: h.Good, Detail: h.Detail})
	}
	*s = summary{n.desired.Desired, has, n.stream != nil, r.Generation, r.Parameters, r.Health,
		stateloop.Summarize(about, want, said), more, s.number + 1}
	// The node keeps reporting what it has removed until it gets another config: what is undesired and absent is as it
	// should be.
	s.report.Ignored = slices.DeleteFunc(s.report.Ignored, func(i stateloop.IgnoredParameter) bool {
		return i.Reported == stateloop.Absent && i.Review == stateloop.ReviewNo
	})
	for _, i := range stateloop.NewlyIgnored(was, s.report.PeerConfigurationState) {
		n.log("a node reports parameters that none of its configs declares", zap.String("parameter", i.ID),
			zap.String("state", string(i.Reported)),
			zap.String("review", string(i.Review)), zap.String("reason", i.Reason))
	}
	return s.report
}

// lastReport returns when the node reported last, zero for never.
func (n *node) lastReport() time.Time {
	if at := n.handle.heard.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return time.Time{}
}

// desiredParameters returns all parameters of the node, including those that must be absent: of its PeerConfiguration,
// or without one of its config. Reported networks and adapters that neither has must be absent too: they are from
// before the controller pushed to it. It adds what is shown of them to more.
func (n *node) desiredParameters(more map[string]partView, reports []stateloop.Reported) []stateloop.DesiredParameter {
	var out []stateloop.DesiredParameter
	if c := n.configuration(); c != nil {
		out = c.Desired()
		for _, p := range c.Parameters {
			m := more[p.ID]
			m.Dependencies, m.Describes = p.Dependencies, p.Describe()
			more[p.ID] = m
		}
		return append(out, stateloop.RemovedParameters(out, reports)...)
	}
	if n.declared.md5 != n.desired.Config || n.declared.md5 == "" {
		n.declared = n.d.declarations.get(n.desired.Config, n.desired.Set)
		if n.declared.err != nil {
			n.d.Log.Debug("parameters of a node", zap.String("node", n.id), zap.Error(n.declared.err))
		}
	}
	if n.declared.err != nil {
		return nil
	}
	return append(slices.Clip(n.declared.parameters), stateloop.RemovedParameters(n.declared.parameters, reports)...)
}

// parameters returns the parameters of the state report in their form of the API.
func (n *node) parameters() []fleetapi.Parameter { return parametersOf(n.summarize()) }

func parametersOf(r stateloop.PeerStatusReport) []fleetapi.Parameter {
	out := []fleetapi.Parameter{}
	for _, p := range r.Parameters {
		out = append(out, fleetapi.Parameter{
			ID: p.ID, Kind: p.Kind, Target: string(p.Target), State: string(p.State), Review: string(p.Review), Reason: p.Reason,
		})
	}
	return out
}

// isInSync reports whether the node was in sync in its last published row.
func (n *node) isInSync() bool {
	r := n.handle.row.Load()
	return r != nil && r.Key.State == fleet.InSync
}

// show publishes changes of the node for lists of nodes.
func (n *node) show(now time.Time) {
	n.publishProgress(now)
	defer n.view()
	if n.machine.Adopted() {
		n.storeRunning(nil) // no longer needed: the node is adopted
	}
	k := rowKey{
		State: n.machine.State(now), managed: n.desired.Managed, versions: n.desired.For, desired: n.desired.Digest,
		Wants: n.desired.Generation,
	}
	why := n.status
	if n.report != nil {
		k.running, k.Runs = digestOf(n.report.MD5, n.report.Peer), n.report.Generation
		if k.State == fleet.InSync && n.stream != nil {
			report := n.summarize()
			if k.ready = report.Ready; !k.ready {
				why += ", not ready: " + report.Why
			}
		}
	}
	if t := n.theirs; t != nil && k.State == fleet.OtherReplica {
		k, why = rowKey{fleet.ReadState(t.State), t.Managed, t.Ready, k.versions, t.Desired, t.Running, t.Wants, t.Runs},
			t.Why
	}
	old := n.handle.row.Load()
	if old != nil && old.Key == k && old.Why == why {
		return
	}
	n.handle.row.Store(&Row{Key: k, Why: why})
	n.notifyReplicas()
	if k.State == fleet.InSync && (old == nil || old.Key.State != k.State || old.Key.desired != k.desired) {
		n.d.Notify(Reached{n.name, k.desired})
	}
}
