package ops

import (
	"slices"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/override"
)

const (
	tunnelKey = "tunnelConfig"
	dstIPKey  = "dstIp"
)

// updateTunnels updates the auto layer of a node from its node layer: each tunnel that names a node with an address
// gets that address; for a tunnel that was removed, or whose node has no address, the address that the controller set
// is removed (reference §1.16). A modify without tunnels changes none: the original removed all.
func (s *Snapshot) updateTunnels(n override.Node, node string, own config.Object, always bool) (auto config.Object,
	notes []string) {
	was, had := n.Own[tunnelKey]
	now, has := own[tunnelKey]
	if !always && had == has && config.Equal(was, now) {
		return n.Auto, nil
	}
	auto = n.Auto
	all, _ := now.(config.Object)
	stale, _ := n.Auto[tunnelKey].(config.Object)
	for _, name := range config.Keys(stale) {
		if _, stays := all[name]; !stays {
			auto = config.Prune(auto, []string{tunnelKey, name})
		}
	}
	for _, name := range config.Keys(all) {
		dst, named := tunnelPeer(all[name])
		path := []string{tunnelKey, name, dstIPKey}
		address := s.Nodes[dst].Address
		if fits := s.acceptsAddress(path, address); named && fits {
			auto = config.Set(auto, path, address)
			continue
		}
		if !named {
			auto = config.Prune(auto, path)
			continue
		}
		before, _ := was.(config.Object)
		if old, _ := tunnelPeer(before[name]); old == dst && address == "" {
			if _, known := s.Nodes[dst]; known {
				continue // it may only be offline: keep its address
			}
		}
		auto = config.Prune(auto, path)
		why := "has no known address yet"
		if _, known := s.Nodes[dst]; !known {
			why = "is not known"
		} else if address != "" {
			why = "connects from " + address + ", which the metadata does not allow there"
		}
		notes = append(notes, node+": "+config.FormatPath([]string{tunnelKey, name})+".dstNodeName: node "+config.Quote(dst)+
			" "+why+": the tunnel gets its address as soon as it has one")
	}
	return nilIfEmpty(auto), notes
}

// acceptsAddress reports whether there is an address and the metadata accepts it: the seed's metadata accepts only
// IPv6, and a rejected address must not block the others.
func (s *Snapshot) acceptsAddress(path []string, address string) bool {
	if address == "" {
		return false
	}
	report := s.Metadata.Validate(config.Set(nil, path, address))
	return !slices.ContainsFunc(report.Faults, func(f metadata.Violation) bool { return slices.Equal(f.Path, path) })
}

// tunnelPeer returns the node at the other end of a tunnel.
func tunnelPeer(tunnel any) (string, bool) {
	o, _ := tunnel.(config.Object)
	name, _ := o["dstNodeName"].(string)
	return name, name != ""
}

// TunnelAddresses returns the write that puts the addresses of some nodes, of all if none is named, into the tunnels to
// them; ok is false if the tunnels are up to date. The caller makes this write when it learns an address. A node
// without an address keeps its entries: it may only be offline.
func (s *Snapshot) TunnelAddresses(changed ...string) (write SetAuto, ok bool, err error) {
	versions, err := s.State.WithDamaged().LayersOfKind(history.Node)
	if err != nil {
		return SetAuto{}, false, err
	}
	j := s.newCheck()
	values := config.Object{}
	for _, v := range versions {
		tunnels, _ := v.Document[tunnelKey].(config.Object)
		if _, known := s.Nodes[v.Layer.Name]; !known || len(tunnels) == 0 {
			continue
		}
		if err := j.layersOrDamaged(autoLayer(v.Layer.Name)); err != nil {
			return SetAuto{}, false, err
		}
		if j.read[autoLayer(v.Layer.Name)].Damaged != nil {
			continue // a user must repair it
		}
		for _, name := range config.Keys(tunnels) {
			dst, named := tunnelPeer(tunnels[name])
			address := s.Nodes[dst].Address
			if !named || !s.acceptsAddress([]string{tunnelKey, name, dstIPKey}, address) || len(changed) > 0 &&
				!slices.Contains(changed, dst) {
				continue
			}
			auto, err := j.layer(autoLayer(v.Layer.Name))
			if err != nil {
				return SetAuto{}, false, err
			}
			if now, _ := config.Lookup(auto.Document, []string{tunnelKey, name, dstIPKey}); now != address {
				values = config.Set(values, []string{v.Layer.Name, tunnelKey, name, dstIPKey}, address)
			}
		}
	}
	return SetAuto{values}, len(values) > 0, nil
}
