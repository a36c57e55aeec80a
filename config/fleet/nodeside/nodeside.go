package nodeside

import (
	"cmp"
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/nodeconf/action"
	"edgespan/config/stateloop/peer"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// Preview lists the actions that a document would trigger on a node.
func Preview(m *metadata.Metadata, done action.ActionTable, now, desired config.Object) nodeproto.PreviewAnswer {
	p := nodeproto.PreviewAnswer{Actions: []nodeproto.PreviewAction{}}
	for _, step := range action.Plan(m, config.FullDiff(now, desired), done) {
		for _, a := range step.Actions {
			keys := make([]string, len(a.Keys))
			for i, k := range a.Keys {
				keys[i] = config.FormatPath(k)
			}
			p.Actions = append(p.Actions,
				nodeproto.PreviewAction{Name: a.Name, Keys: keys, Supported: step.Do.Kind != action.Unsupported})
		}
	}
	return p
}

// BaseConfig returns what a controller needs to know about unknown hardware: the latest config of each kind.
func BaseConfig(m *metadata.Metadata, bases, hardware map[string]config.Object) nodeproto.BaseConfig {
	return nodeproto.BaseConfig{Metadata: m.Document(), Base: latest(bases), Hardware: latest(hardware)}
}

// latest returns the config with the last name in natural order.
func latest(of map[string]config.Object) map[string]config.Object {
	if len(of) == 0 {
		return nil
	}
	name := slices.MaxFunc(slices.Collect(maps.Keys(of)), layers.CompareNatural)
	return map[string]config.Object{name: of[name]}
}

// Actions converts the results of actions for a report.
func Actions(results []action.Result) []nodeproto.Action {
	var out []nodeproto.Action
	for _, r := range results {
		out = append(out, nodeproto.Action{Name: r.Action, State: string(r.State), Detail: r.Cause})
	}
	return out
}

// Ports returns the ports by label, for the tunnels of other nodes, without link-local addresses.
func Ports(all map[string]netinst.PortStatus) []nodeproto.Port {
	var out []nodeproto.Port
	for label, s := range all {
		if !s.Exists {
			continue
		}
		p := nodeproto.Port{Label: label, MTU: s.LinkMTU}
		for _, a := range s.Addresses {
			if !a.Addr().IsLinkLocalUnicast() {
				p.Addresses = append(p.Addresses, a.Addr().String())
			}
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b nodeproto.Port) int { return cmp.Compare(a.Label, b.Label) })
	return out
}

// TunnelFacts are what Tunnels reads, by the keys of the topics.
type TunnelFacts struct {
	Networks  map[string]netinst.NetworkInstanceConfig
	Networked map[string]netinst.NetworkInstanceStatus
	Tunnels   map[string]netstate.TunnelStatus
	Ports     map[string]netinst.PortStatus
	Link      Link
}

// Tunnels returns the tunnels of networks of type vpn in the form of ports, at which tunnels of other nodes may reach
// this one, by peer.TunnelLabel, and the node's key for encrypted clusters, by peer.KeyLabel and
// peer.NextKeyLabel.
func Tunnels(f TunnelFacts) []nodeproto.Port {
	var out []nodeproto.Port
	for _, id := range slices.Sorted(maps.Keys(f.Networks)) {
		c := f.Networks[id]
		if !c.HasVPN() || !c.HasTunnel() {
			continue
		}
		p := nodeproto.Port{Label: peer.TunnelLabel(c.UUID), MTU: c.VPN.MTU}
		if under := f.Ports[f.Networked[id].Port]; p.MTU == 0 && under.LinkMTU != 0 {
			p.MTU = c.VPN.Carries(cmp.Or(under.MTU, under.LinkMTU))
		}
		for _, a := range slices.Concat(c.VPN.Address, f.Tunnels[id].Addresses) {
			p.Addresses = append(p.Addresses, a.Addr().String())
		}
		out = append(out, p)
	}
	if f.Link.Key != "" {
		out = append(out, nodeproto.Port{Label: peer.KeyLabel, PublicKey: f.Link.Key})
	}
	if f.Link.NextKey != "" {
		out = append(out, nodeproto.Port{Label: peer.NextKeyLabel, PublicKey: f.Link.NextKey})
	}
	return out
}

// SamePort reports whether two ports have equal values.
func SamePort(a, b nodeproto.Port) bool {
	return a.Label == b.Label && a.MTU == b.MTU && a.PublicKey == b.PublicKey && slices.Equal(a.Addresses, b.Addresses)
}
