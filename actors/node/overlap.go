package node

import (
	"cmp"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/google/uuid"

	core "edgespan/config"
	"edgespan/config/nodeconf"
	"edgespan/netinst"
	"edgespan/netinst/manager"
	"edgespan/netinst/overlap"
	"edgespan/netinst/registry"
	"edgespan/pubsub"
)

// comparePrefixes compares every subnet with the host's current prefixes, if they have changed. A bridge manager wakes
// only when something inside its own subnet has changed, however many addresses come and go.
func (m *monitor) comparePrefixes(first bool) {
	now := overlap.HostPrefixes(m.interfaces)
	if !first && slices.Equal(now, m.prefixes) {
		return
	}
	m.prefixes = now
	m.compare(slices.Sorted(maps.Keys(m.subnets)))
}

// compare publishes the host's prefixes in the subnets of networks.
func (m *monitor) compare(ids []string) {
	subnets := make([]overlap.Subnets, len(ids))
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

// overlaps compares the networks of a config with the prefixes last observed on the host.
func (d *deps) overlaps(cfg nodeconf.Config, ids []uuid.UUID) map[uuid.UUID]overlap.Overlap {
	subnets := make([]overlap.Subnets, len(ids))
	for i, id := range ids {
		subnets[i] = subnetsOf(cfg.Networks[id])
	}
	out := make(map[uuid.UUID]overlap.Overlap, len(ids))
	for i, o := range overlap.Of(subnets, overlap.HostPrefixes(d.interfaces())) {
		out[ids[i]] = o
	}
	return out
}

// clashes returns the faults of a config on this host in its current state. It leaves out a network that already runs
// with the same subnet: that one is withdrawn and reports it, and must not make an unrelated apply fail. The same holds
// for an MTU that no tap supports.
func (d *deps) clashes(cfg nodeconf.Config) core.Faults {
	var ids []uuid.UUID
	for id, n := range cfg.Networks {
		if was, runs := d.topics.NetworkConfig.Get("", id.String()); !runs || subnetsOf(was) != subnetsOf(n) {
			ids = append(ids, id)
		}
	}
	faults := nodeconf.OverlapFaults(d.overlaps(cfg, ids))
	for id, f := range nodeconf.TapMTUs(cfg) {
		if was, runs := d.topics.NetworkConfig.Get("", id.String()); !runs || was.MTU != cfg.Networks[id].MTU {
			faults = append(faults, f)
		}
	}
	faults.Sort()
	return faults
}

func subnetsOf(n netinst.NetworkInstanceConfig) overlap.Subnets {
	s := overlap.Subnets{IPv4: n.IPv4.Subnet}
	if n.HasIPv6() {
		s.IPv6 = n.IPv6.Subnet
	}
	return s
}

// forwardingChanged returns the links by which the host forwards, and the ports, both in a fixed order.
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

// sendOverlap passes the overlaps of the subnet to the manager, before the ports: the manager applies nothing before it
// knows both. It reports whether there were some to pass.
func (b *bridge) sendOverlap(c actor.Context) bool {
	changes := b.overlap.Drain()
	for _, ch := range changes {
		if ch.Kind == pubsub.Created || ch.Kind == pubsub.Modified {
			b.sentOverlap = &ch.New
			b.step(c, manager.OverlapChanged{Overlap: ch.New})
		}
	}
	return len(changes) > 0
}
