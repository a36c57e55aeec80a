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
		c.fault(c.networks.path, fmt.Sprintf("too many networks (%d)", len(keys)),
			fmt.Sprintf("must be at most %d", maxNetworks))
	}
	var subnets []placedSubnet
	for _, key := range keys {
		o := c.networks.in(key)
		ni := netinst.NetworkInstanceConfig{
			UUID:        uuid.MustParse(key),
			DisplayName: value[string](o, "displayName"),
			Type:        netinst.Type(value[string](o, "type")),
			Inactive:    !value[bool](o, "activate"),
			Port:        value[string](o, "port"),
			IPv4:        c.ipv4(o.in("ipv4")),
			DNS:         c.dns(o.in("dns")),
			NTPServers:  items[netip.Addr](o, "ntpServers"),
			MTU:         value[int](o, "mtu"),
			SpoofGuard:  value[bool](o, "spoofGuard"),
		}
		ni.Routes = c.routes(o.in("routes"), ni.IPv4.Subnet)
		c.checkLabel(o, "port", ni.Port)
		c.checkAirGap(o, ni)
		c.checkSwitch(o, ni)
		c.checkMTU(o, ni)
		c.cfg.Networks[ni.UUID] = ni
		if ni.IPv4.Subnet.IsValid() {
			subnets = append(subnets, placedSubnet{ni.IPv4.Subnet, o.in("ipv4").at("subnet")})
		}
	}
	c.checkOverlaps(subnets)
	c.checkSwitchPorts()
}

type placedSubnet struct {
	subnet netip.Prefix
	path   []string
}

// checkOverlaps compares all pairs: 500,000 for 999 networks, which takes a few ms.
func (c *checker) checkOverlaps(all []placedSubnet) {
	for i, a := range all {
		for _, b := range all[:i] {
			if a.subnet.Overlaps(b.subnet) {
				what := fmt.Sprintf("invalid value %s, which overlaps %s of %s", a.subnet, b.subnet, config.FormatPath(b.path))
				c.fault(a.path, what, "must be a subnet that overlaps no other")
				break
			}
		}
	}
}

// Clashes returns the faults of networks whose subnet overlaps one of the host, by UUID. Parse can't find them, since
// they depend on the host's present addresses.
func Clashes(overlaps map[uuid.UUID]overlap.Overlap) config.Faults {
	var fs config.Faults
	for id, o := range overlaps {
		if o.Clash != "" {
			fs.Add([]string{"networkInstances", id.String(), "ipv4", "subnet"}, "overlaps "+o.Clash,
				"must be a subnet that no address or connected route of this host is in")
		}
	}
	fs.Sort()
	return fs
}

// ipv4 fills in the defaults of a subnet and checks the fields that depend on it.
func (c *checker) ipv4(o *object) netinst.IPv4Config {
	subnet := value[netip.Prefix](o, "subnet")
	if !subnet.IsValid() {
		return netinst.IPv4Config{}
	}
	network, last := subnet.Addr(), broadcast(subnet)
	hosts := fmt.Sprintf("a host address of %s: %s to %s", subnet, firstHost(subnet), last.Prev())

	gateway := value[netip.Addr](o, "gateway")
	switch {
	case !o.given("gateway"):
		gateway = firstHost(subnet)
	case gateway.IsValid() && !isHost(subnet, gateway):
		c.fault(o.at("gateway"), config.Invalid(gateway.String()), config.MustBe(hosts))
		gateway = netip.Addr{}
	}

	pool := value[ipRange](o, "dhcpRange")
	switch {
	case !o.given("dhcpRange"):
		pool = upperHalf(subnet)
	case pool.first.IsValid() &&
		(pool.first == network || pool.last == last || !isHost(subnet, pool.first) || !isHost(subnet, pool.last)):
		c.fault(o.at("dhcpRange"), config.Invalid(pool.String()),
			config.MustBe("a range of "+hosts[len("a host address of "):]))
		pool = ipRange{}
	}

	if gateway.IsValid() && pool.first.IsValid() && pool.contains(gateway) {
		if o.given("gateway") {
			c.fault(o.at("gateway"), fmt.Sprintf("invalid value %s, in the dhcpRange %s", gateway, pool),
				"must be a gateway outside dhcpRange")
		} else {
			c.fault(o.at("dhcpRange"), fmt.Sprintf("invalid value %s, with the gateway %s in it", pool, gateway),
				"must be a range without the gateway")
		}
	}
	return netinst.IPv4Config{Subnet: subnet, Gateway: gateway, DHCPFirst: pool.first, DHCPLast: pool.last}
}

func isHost(subnet netip.Prefix, a netip.Addr) bool {
	return subnet.Contains(a) && a != subnet.Addr() && a != broadcast(subnet)
}

func (c *checker) dns(o *object) netinst.DNSConfig {
	d := netinst.DNSConfig{
		Domain:  netinst.Label(value[netinst.Hostname](o, "domain")),
		Servers: items[netip.Addr](o, "servers"),
	}
	hosts := o.in("hosts")
	for _, name := range hosts.sorted(func(s slot) bool { return s.value != nil }) {
		if d.Hosts == nil {
			d.Hosts = map[netinst.Hostname][]netip.Addr{}
		}
		d.Hosts[netinst.Hostname(name)] = items[netip.Addr](hosts, name)
	}
	return d
}

func (c *checker) routes(all *object, own netip.Prefix) []netinst.StaticRoute {
	var out []netinst.StaticRoute
	seen := map[netip.Prefix][]string{}
	for _, name := range all.keys() {
		o := all.in(name)
		r := netinst.StaticRoute{
			Name:        name,
			Destination: value[netip.Prefix](o, "destination"),
			Gateway:     value[netip.Addr](o, "gateway"),
			Port:        value[string](o, "port"),
		}
		out = append(out, r)
		c.checkLabel(o, "port", r.Port)
		if !r.Destination.IsValid() {
			continue
		}
		path := o.at("destination")
		switch first := seen[r.Destination]; {
		case first != nil:
			c.fault(path, duplicateText(r.Destination, first), "must be unique: one route for each destination")
		case own.IsValid() && own.Overlaps(r.Destination) && r.Destination.Bits() >= own.Bits():
			c.fault(path, fmt.Sprintf("invalid value %s, within the subnet %s", r.Destination, own),
				"must be a destination outside the network")
		default:
			seen[r.Destination] = path
		}
	}
	return out
}

// checkMTU compares a network's MTU with the configured MTUs of its ports; the actual ones are unknown here.
func (c *checker) checkMTU(o *object, ni netinst.NetworkInstanceConfig) {
	ports, _ := c.portsOf(ni.Port)
	for _, p := range ports {
		if ni.MTU > 0 && p.MTU > 0 && ni.MTU > p.MTU {
			path := config.FormatPath(c.ports.in(p.Label).at("mtu"))
			c.fault(o.at("mtu"), fmt.Sprintf("invalid value %d", ni.MTU), fmt.Sprintf("must be at most %d, by %s", p.MTU, path))
			return
		}
	}
}
