package controller

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"

	"go.uber.org/zap"

	"edgespan/config/fleet"
	"edgespan/config/history"
	"edgespan/config/link"
	"edgespan/config/peer"
	"edgespan/config/revision"
	"edgespan/config/state"
)

// What is kept of one node's ports at most: it is a key that all replicas hold.
const (
	mostPorts     = 64
	mostAddresses = 8 // of one port
	longestLabel  = 64
)

// configuration is the PeerConfiguration of what the node wants, with all that is to be absent;
// nil where there is neither.
func (n *node) configuration() *peer.Configuration {
	left := n.machine.Memory().Left(n.want.With)
	switch {
	case n.want.With == nil && left == nil:
		return nil
	case n.want.With != nil && left == nil:
		return n.want.With
	case n.want.With != nil:
		all := n.want.With.With(left)
		return &all
	}
	declared := n.d.declarations.of(n.want.Config, n.want.set)
	all := peer.Derive(peer.Input{Name: n.name, Fleet: peer.NewFleet(nil, nil, nil), Declared: declared.parameters, Gone: left})
	return &all
}

// partsOf are the parameters that a report answers, where somebody asks.
func (n *node) partsOf(r *link.Report) map[string]bool {
	if !n.machine.Parting() {
		return nil
	}
	out := make(map[string]bool, len(r.Parameters))
	for _, p := range r.Parameters {
		out[p.ID] = state.State(p.State) == state.Absent && p.Generation == r.Generation
	}
	return out
}

// underlay writes where tunnels of others find the node, when that is news and the node is a
// peer. What a port had last stays until it has another address: a tunnel to one that is down
// is down, and one that is made anew for every cable that is pulled is no better.
func (n *node) underlay() {
	if n.stream == nil || n.report == nil || n.want.With == nil || len(n.report.Ports) == 0 {
		return
	}
	has := n.seat.underlay.Load()
	var before underlay
	if has != nil && *has != "" && json.Unmarshal([]byte(*has), &before) != nil {
		before = underlay{}
	}
	text := string(encode(underlayOf(n.report.Ports, before)))
	if has != nil && *has == text || n.placing == text {
		return
	}
	n.placing = text
	n.d.saver.add(entry{op: revision.Put(history.UnderlayKey(n.id), []byte(text)), to: n.self, what: savedUnderlay, of: &n.seat.spends})
}

// underlaySaved is the answer of the store: what was not stored is with the next report.
func (n *node) underlaySaved(m saved) {
	n.placing = ""
	if m.err != nil {
		n.d.Log.Warn("keep the ports of a node", zap.String("node", n.id), zap.Error(m.err))
	}
}

// underlayOf are ports as they are kept.
func underlayOf(ports []link.Port, before underlay) underlay {
	was := before.ports()
	out := underlay{Ports: []underlayPort{}}
	for _, p := range ports {
		if len(p.Label) > longestLabel || len(out.Ports) == mostPorts {
			continue
		}
		port := underlayPort{Label: p.Label, MTU: cmp.Or(p.MTU, was[p.Label].MTU)}
		for _, text := range p.Addresses {
			a, err := netip.ParseAddr(text)
			if err == nil && len(port.Addresses) < mostAddresses && reachable(text) != "" && !a.IsMulticast() {
				port.Addresses = append(port.Addresses, a.Unmap())
			}
		}
		if port.Addresses == nil {
			port.Addresses = was[p.Label].Addresses
		}
		out.Ports = append(out.Ports, port)
	}
	slices.SortStableFunc(out.Ports, func(a, b underlayPort) int { return cmp.Compare(a.Label, b.Label) })
	out.Ports = slices.CompactFunc(out.Ports, func(a, b underlayPort) bool { return a.Label == b.Label })
	return out
}

// digestOf is what a report says the node runs.
func digestOf(md5, peer string) fleet.Digest { return fleet.Digest{Config: md5, Peer: peer} }

// encoded is the configuration as it is pushed, nil for none.
func (n *node) encoded() ([]byte, error) {
	c := n.configuration()
	if c == nil {
		return nil, nil
	}
	return c.Encode()
}
