package nodeconf

import (
	"fmt"
	"net/netip"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
	"edgespan/netinst/overlap"
)

func (c *checker) checkNetworks() {
	keys := c.networks.keys()
	if len(keys) > maxNetworks {
		c.addFault(c.networks.path, fmt.Sprintf("too many networks (%d)", len(keys)),
			fmt.Sprintf("must be at most %d", maxNetworks))
	}
	var subnets, subnets6 []placedSubnet
	for _, key := range keys {
		o := c.networks.objectOrEmpty(key)
		ni := netinst.NetworkInstanceConfig{
			UUID:        uuid.MustParse(key),
			DisplayName: value[string](o, "displayName"),
			Type:        netinst.Type(value[string](o, "type")),
			Inactive:    !value[bool](o, "activate"),
			Port:        value[string](o, "port"),
			IPv4:        c.readIPv4(o.objectOrEmpty("ipv4")),
			DNS:         c.readDNS(o.objectOrEmpty("dns")),
			NTPServers:  items[netip.Addr](o, "ntpServers"),
			MTU:         value[int](o, "mtu"),
			SpoofGuard:  value[bool](o, "spoofGuard"),
			FlowLog:     value[bool](o, "flowLog"),
			ForwardLLDP: value[bool](o, "forwardLLDP"),
			Flows:       netinst.FlowPolicy(unlessDefault(value[string](o, "flows"), "reset")),
			Share:       value[bool](o, "share"),
			Probe:       c.readProbe(o.objectOrEmpty("probe")),
			Limits:      readLimits(o.objectOrEmpty("limits")),
		}
		ni.AccessPorts = c.readAccessPorts(o.objectOrEmpty("vlanAccessPorts"))
		ni.IPv6 = c.readIPv6(o)
		ni.Routes = c.readRoutes(o.objectOrEmpty("routes"), ni)
		if ni.VPN = c.readVPN(o, ni); ni.HasVPN() {
			ni.IPv6.NAT = ni.VPN.NAT && ni.HasIPv6()
		}
		c.readSets(ni.UUID, o.objectOrEmpty("sets"))
		c.checkLabel(o, "port", ni.Port)
		c.checkAirGap(o, ni)
		c.warnOfUnusedProbe(o, ni)
		c.checkSwitch(o, ni)
		c.checkMTU(o, ni)
		c.checkMayOverlap(o, ni)
		c.cfg.Networks[ni.UUID] = ni
		if ni.IPv4.Subnet.IsValid() {
			subnets = append(subnets, placedSubnet{ni.IPv4.Subnet, ni.IPv4.Gateway, ni.IPv4.MayOverlap,
				o.objectOrEmpty("ipv4")})
		}
		if ni.HasIPv6() {
			subnets6 = append(subnets6, placedSubnet{ni.IPv6.Subnet, ni.IPv6.Gateway, false, o.objectOrEmpty("ipv6")})
		}
	}
	c.checkOverlaps(subnets)
	c.checkOverlaps(subnets6)
	c.checkSwitchPorts()
	c.checkTunnels()
}

// OverlapFaults returns the faults of networks whose subnet overlaps one of the host, by UUID. Parse can't find them,
// since they depend on the host's present addresses.
func OverlapFaults(overlaps map[uuid.UUID]overlap.Overlap) config.Faults {
	var fs config.Faults
	for id, o := range overlaps {
		if o.Clash != "" {
			fs.Add([]string{"networkInstances", id.String(), "ipv4", "subnet"}, "overlaps "+o.Clash,
				"must be a subnet that no address or connected route of this host is in")
		}
		if o.Clash6 != "" {
			fs.Add([]string{"networkInstances", id.String(), "ipv6", "subnet"}, "overlaps "+o.Clash6,
				"must be a subnet that no address of this host is in")
		}
	}
	fs.Sort()
	return fs
}

// readIPv4 fills in the defaults of a subnet and checks the fields that depend on it.
func (c *checker) readIPv4(o *object) netinst.IPv4Config {
	subnet := value[netip.Prefix](o, "subnet")
	if !subnet.IsValid() {
		return netinst.IPv4Config{}
	}
	network, last := subnet.Addr(), broadcast(subnet)
	hosts := fmt.Sprintf("a host address of %s: %s to %s", subnet, firstHost(subnet), last.Prev())

	gateway := value[netip.Addr](o, "gateway")
	switch {
	case !o.isGiven("gateway"):
		gateway = firstHost(subnet)
	case gateway.IsValid() && !isHost(subnet, gateway):
		c.addFault(o.pathOf("gateway"), config.Invalid(gateway.String()), config.MustBe(hosts))
		gateway = netip.Addr{}
	}

	pool := value[ipRange](o, "dhcpRange")
	switch {
	case !o.isGiven("dhcpRange"):
		pool = upperHalf(subnet)
	case pool.first.IsValid() &&
		(pool.first == network || pool.last == last || !isHost(subnet, pool.first) || !isHost(subnet, pool.last)):
		c.addFault(o.pathOf("dhcpRange"), config.Invalid(pool.String()),
			config.MustBe("a range of "+hosts[len("a host address of "):]))
		pool = ipRange{}
	}

	if gateway.IsValid() && pool.first.IsValid() && pool.contains(gateway) {
		if o.isGiven("gateway") {
			c.addFault(o.pathOf("gateway"), fmt.Sprintf("invalid value %s, in the dhcpRange %s", gateway, pool),
				"must be a gateway outside dhcpRange")
		} else {
			c.addFault(o.pathOf("dhcpRange"), fmt.Sprintf("invalid value %s, with the gateway %s in it", pool, gateway),
				"must be a range without the gateway")
		}
	}
	return netinst.IPv4Config{Subnet: subnet, Gateway: gateway, DHCPFirst: pool.first, DHCPLast: pool.last,
		MayOverlap: value[bool](o, "mayOverlap")}
}

func isHost(subnet netip.Prefix, a netip.Addr) bool {
	return subnet.Contains(a) && a != subnet.Addr() && a != broadcast(subnet)
}

func (c *checker) readDNS(o *object) netinst.DNSConfig {
	d := netinst.DNSConfig{
		Domain:  netinst.Domain(value[netinst.Hostname](o, "domain")),
		Servers: items[netip.Addr](o, "servers"),
	}
	hosts := o.objectOrEmpty("hosts")
	for _, name := range hosts.sorted(func(s slot) bool { return s.value != nil }) {
		if d.Hosts == nil {
			d.Hosts = map[netinst.Hostname][]netip.Addr{}
		}
		d.Hosts[netinst.Hostname(name)] = items[netip.Addr](hosts, name)
	}
	return d
}

func (c *checker) readRoutes(all *object, ni netinst.NetworkInstanceConfig) []netinst.StaticRoute {
	var out []netinst.StaticRoute
	type place struct {
		to   netip.Prefix
		cost int
	}
	seen := map[place][]string{}
	for _, name := range all.keys() {
		o := all.objectOrEmpty(name)
		r := netinst.StaticRoute{
			Name:        name,
			Destination: value[netip.Prefix](o, "destination"),
			Gateway:     value[netip.Addr](o, "gateway"),
			Port:        value[string](o, "port"),
			Cost:        value[int](o, "cost"),
		}
		out = append(out, r)
		c.checkLabel(o, "port", r.Port)
		if !r.Destination.IsValid() {
			continue
		}
		path, own := o.pathOf("destination"), ni.IPv4.Subnet
		if c.checkRoute6(o, r, ni); r.Destination.Addr().Is6() {
			own = ni.IPv6.Subnet
		}
		switch first := seen[place{r.Destination, r.Cost}]; {
		case first != nil:
			c.addFault(path, duplicateText(r.Destination, first), "must be unique: one route for each destination and cost")
		case own.IsValid() && own.Overlaps(r.Destination) && r.Destination.Bits() >= own.Bits():
			c.addFault(path, fmt.Sprintf("invalid value %s, within the subnet %s", r.Destination, own),
				"must be a destination outside the network")
		default:
			seen[place{r.Destination, r.Cost}] = path
		}
	}
	return out
}

// checkMTU compares a network's MTU with the configured MTUs of its ports; the actual ones are unknown here.
func (c *checker) checkMTU(o *object, ni netinst.NetworkInstanceConfig) {
	ports, _ := c.portsOf(ni.Port)
	for _, p := range ports {
		limit := p.MTU
		if ni.HasVPN() && limit > 0 {
			limit = ni.VPN.Carries(limit)
		}
		if ni.MTU > 0 && limit > 0 && ni.MTU > limit {
			path := config.FormatPath(c.ports.objectOrEmpty(p.Label).pathOf("mtu"))
			c.addFault(o.pathOf("mtu"), fmt.Sprintf("invalid value %d", ni.MTU),
				fmt.Sprintf("must be at most %d, by %s", limit, path))
			return
		}
	}
}
