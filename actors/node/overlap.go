package node

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	core "edgespan/config"
	"edgespan/config/nodeconf"
	"edgespan/netinst"
	"edgespan/netinst/overlap"
	"edgespan/netinst/registry"
)

// comparePrefixes compares every subnet with what the host has now, if that has changed. A
// bridge manager wakes only where what is in its own subnet has changed, however many
// addresses come and go.
func (m *monitor) comparePrefixes(first bool) {
	now := overlap.HostPrefixes(m.seen)
	if !first && slices.Equal(now, m.prefixes) {
		return
	}
	m.prefixes = now
	m.compare(slices.Sorted(maps.Keys(m.subnets)))
}

// compare publishes what the host has in the subnets of networks.
func (m *monitor) compare(ids []string) {
	subnets := make([]netip.Prefix, len(ids))
	for i, id := range ids {
		subnets[i] = m.subnets[id]
	}
	for i, o := range overlap.Of(subnets, m.prefixes) {
		if _, desired := m.subnets[ids[i]]; desired {
			m.overlap.Adopt("", ids[i]) // of an earlier incarnation's
			must(m.overlap.Publish("", ids[i], o))
		}
	}
}

func (m *monitor) withdrawOverlap(id string) {
	if _, reported := m.d.topics.SubnetOverlap.Get("", id); reported {
		m.overlap.Adopt("", id)
		must(m.overlap.Unpublish("", id))
	}
}

// overlaps compares the networks of a config with what the host was last seen to have.
func (d *deps) overlaps(cfg nodeconf.Config, ids []uuid.UUID) map[uuid.UUID]overlap.Overlap {
	subnets := make([]netip.Prefix, len(ids))
	for i, id := range ids {
		subnets[i] = cfg.Networks[id].IPv4.Subnet
	}
	out := make(map[uuid.UUID]overlap.Overlap, len(ids))
	for i, o := range overlap.Of(subnets, overlap.HostPrefixes(d.interfaces())) {
		out[ids[i]] = o
	}
	return out
}

// clashes are the faults of a config on this host as it is now. A network that runs with the
// same subnet is left out: it is withdrawn already and says so, and what a person applies
// beside it must not fail for it. The same goes for an MTU that no tap takes.
func (d *deps) clashes(cfg nodeconf.Config) core.Faults {
	var ids []uuid.UUID
	for id, n := range cfg.Networks {
		if was, runs := d.topics.NetworkConfig.Get("", id.String()); !runs || was.IPv4.Subnet != n.IPv4.Subnet {
			ids = append(ids, id)
		}
	}
	faults := nodeconf.Clashes(d.overlaps(cfg, ids))
	for id, f := range nodeconf.TapMTUs(cfg) {
		if was, runs := d.topics.NetworkConfig.Get("", id.String()); !runs || was.MTU != cfg.Networks[id].MTU {
			faults = append(faults, f)
		}
	}
	faults.Sort()
	return faults
}

// forwardingChanged is which links the host forwards by, and the ports, in an order of their own.
func (d *deps) forwardingChanged() registry.ForwardingChanged {
	f, _ := d.topics.Forwarding.Get("", "node")
	var ports []netinst.PortConfig
	for _, e := range d.topics.PortConfig.All() {
		ports = append(ports, e.Value)
	}
	return registry.ForwardingChanged{Forwarding: f, Ports: sortedPorts(ports)}
}

func sortedPorts(ports []netinst.PortConfig) []netinst.PortConfig {
	slices.SortFunc(ports, func(a, b netinst.PortConfig) int { return cmp.Compare(a.Label, b.Label) })
	return ports
}
