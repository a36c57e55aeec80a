package controller

import (
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"edgespan/config/fleet"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/layers"
	"edgespan/config/link"
	"edgespan/config/state"
)

// declarations are what configs declare. Nodes that want the same config share one list, which
// nobody changes.
type declarations struct {
	mu   sync.Mutex
	last [mostDocuments]declaration
	next int
}

type declaration struct {
	md5        string
	parameters []state.Wanted
	err        error // it declares nothing that could be read
}

// of is what the layers declare, by the MD5 of their config.
func (d *declarations) of(md5 string, set layers.Set) declaration {
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
		out.parameters, out.err = state.Declared(effective)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last[d.next] = out
	d.next = (d.next + 1) % mostDocuments
	return out
}

// summary is the state report of the node: what follows for each parameter that its wanted
// config declares, or that is to go, from what the node reported.
type summary struct {
	of       fleet.Wanted
	answers  fleet.Generation
	reported []link.Parameter
	health   []link.Health
	report   state.PeerStatusReport
}

// summarize derives the report anew where something of it is another than before.
func (n *node) summarize() state.PeerStatusReport {
	s := &n.summary
	if s.of != n.want.Wanted || n.declared.md5 != n.want.Config {
		n.declared = n.d.declarations.of(n.want.Config, n.want.set)
		if n.declared.err != nil {
			n.d.Log.Debug("parameters of a node", zap.String("node", n.seat.id), zap.Error(n.declared.err))
		}
	} else if s.answers == n.report.Generation && slices.Equal(s.reported, n.report.Parameters) && slices.Equal(s.health, n.report.Health) {
		s.report.LastReport = time.Unix(0, n.seat.heard.Load())
		return s.report
	}
	reports := make([]state.Reported, 0, len(n.report.Parameters))
	for _, p := range n.report.Parameters {
		reports = append(reports, state.Reported{ID: p.ID, Kind: p.Kind, State: state.State(p.State), Message: p.Detail, Generation: p.Generation})
	}
	want := state.Config{Generation: n.want.Generation, Parameters: n.declared.parameters}
	if n.declared.err == nil {
		want.Parameters = append(slices.Clip(want.Parameters), state.Removed(want.Parameters, reports)...)
	}
	was := s.report.PeerConfigurationState
	said := state.EdgePeerConfigurationState{Generation: n.report.Generation, Parameters: reports}
	peer := state.Peer{Name: n.seat.name, Online: true, LastReport: time.Unix(0, n.seat.heard.Load())}
	for _, h := range n.report.Health {
		peer.Health = append(peer.Health, state.HealthItem{Name: h.Name, Good: h.Good, Detail: h.Detail})
	}
	*s = summary{n.want.Wanted, n.report.Generation, n.report.Parameters, n.report.Health, state.Summarize(peer, want, said)}
	for _, i := range state.NewlyIgnored(was, s.report.PeerConfigurationState) {
		n.d.Log.Info("a node reports what no config of it declares", zap.String("node", n.seat.id), zap.String("parameter", i.ID),
			zap.String("state", string(i.Reported)), zap.String("review", string(i.Review)), zap.String("reason", i.Reason))
	}
	return s.report
}

// parameters are those of the state report, for people.
func (n *node) parameters() []fleetapi.Parameter {
	out := []fleetapi.Parameter{}
	for _, p := range n.summarize().Parameters {
		out = append(out, fleetapi.Parameter{
			ID: p.ID, Kind: p.Kind, Target: string(p.Target), State: string(p.State), Review: string(p.Review), Reason: p.Reason,
		})
	}
	return out
}
