package nodeconf

import (
	"fmt"
	"net/netip"

	"edgespan/config"
	"edgespan/netinst"
)

// modeOff is the mode of a network without IPv6.
const modeOff = "off"

// readIPv6 returns a network's IPv6; the zero value if it has none.
func (c *checker) readIPv6(network *object) netinst.IPv6Config {
	o := network.objectOrEmpty("ipv6")
	mode := value[string](o, "mode")
	given := o.isGiven("subnet") || o.isGiven("mode") || o.isGiven("nat")
	if !given || mode == modeOff || o.isInvalid("mode") {
		return netinst.IPv6Config{}
	}
	switched := value[string](network, "type") == string(netinst.Switch)
	switch {
	case switched && mode == string(netinst.Bridged):
		for _, key := range []string{"subnet", "nat"} {
			if o.isGiven(key) {
				c.addFault(o.pathOf(key), "invalid for a switch network", "the segment's routers assign its addresses")
			}
		}
		return netinst.IPv6Config{Mode: netinst.Bridged}
	case switched:
		c.addFault(o.pathOf("mode"), config.Invalid(mode)+" for a switch network", config.OneOf([]string{"bridged", modeOff}))
		return netinst.IPv6Config{}
	case mode == string(netinst.Bridged):
		c.addFault(o.pathOf("mode"), config.Invalid(mode)+" for a local network",
			config.OneOf([]string{"slaac", "dhcpv6", modeOff}))
		return netinst.IPv6Config{}
	}
	subnet := value[netip.Prefix](o, "subnet")
	if !o.isGiven("subnet") && !o.isInvalid("nat") {
		c.addFault(o.pathOf("subnet"), config.Required, config.MustBe(words[wordSubnet6].allowed))
	}
	if !subnet.IsValid() {
		return netinst.IPv6Config{}
	}
	return netinst.IPv6Config{Subnet: subnet, Gateway: subnet.Addr().Next(), Mode: netinst.IPv6Mode(mode),
		NAT: value[bool](o, "nat")}
}

// checkIP6 checks an adapter's configured address. With SLAAC the app makes its address by itself.
func (c *checker) checkIP6(o *object, a netinst.AdapterSpec, ni netinst.NetworkInstanceConfig, found bool, u uniques) {
	path, six := o.pathOf("ip6"), ni.IPv6
	if !found || c.networks.objectOrEmpty(ni.UUID.String()).isInvalid("ipv6") {
		return
	}
	switch {
	case six.Mode != netinst.DHCPv6:
		c.addFault(path, "invalid on a network whose ipv6.mode is not dhcpv6", "the app makes its address by itself")
	case !six.Subnet.Contains(a.IP6) || a.IP6 == six.Subnet.Addr():
		c.addFault(path, config.Invalid(a.IP6.String()),
			fmt.Sprintf("must be a host address of the network's subnet %s", six.Subnet))
	case a.IP6 == six.Gateway:
		c.addFault(path, fmt.Sprintf("invalid value %s, the network's gateway", a.IP6), "must be unique")
	default:
		if first, again := u.ips.firstUse(onNetwork[netip.Addr]{ni.UUID, a.IP6}, path); again {
			c.addFault(path, duplicateText(a.IP6, first), "must be unique")
		}
	}
}

// checkRoute6 checks the families of a static route.
func (c *checker) checkRoute6(o *object, r netinst.StaticRoute, ni netinst.NetworkInstanceConfig) {
	six := r.Destination.Addr().Is6()
	switch {
	case six && ni.Type != netinst.Switch && !ni.HasIPv6():
		c.addFault(o.pathOf("destination"), config.Invalid(r.Destination.String())+" on a network without IPv6",
			"must be an IPv4 prefix, or the network must have ipv6")
	case r.Gateway.IsValid() && r.Gateway.Is6() != six:
		c.addFault(o.pathOf("gateway"), config.Invalid(r.Gateway.String())+" for "+r.Destination.String(),
			"must be an address of the destination's family")
	case six && ni.IPv6.Subnet.Contains(r.Gateway):
		c.addFault(o.pathOf("gateway"), fmt.Sprintf("invalid value %s, within the subnet %s", r.Gateway, ni.IPv6.Subnet),
			"must be a neighbour of a port: an app sends IPv6 from its own address alone")
	}
}
