package nodeconf

import (
	"fmt"
	"net/netip"

	"edgespan/config"
	"edgespan/netinst"
)

// placedSubnet is a network's subnet of one family, with the object that has it.
type placedSubnet struct {
	subnet     netip.Prefix
	gateway    netip.Addr
	mayOverlap bool
	in         *object
}

// checkOverlaps compares all pairs: 500,000 for 999 networks, which takes a few ms.
func (c *checker) checkOverlaps(all []placedSubnet) {
	for i, a := range all {
		for _, b := range all[:i] {
			if a.subnet.Overlaps(b.subnet) && !c.mayBoth(a, b) {
				break
			}
		}
	}
}

// mayBoth reports whether two networks with overlapping subnets may be on one node, and adds a fault if not. The node
// answers ARP for an address of its own on every bridge, so neither may give to an app what is the other's gateway.
func (c *checker) mayBoth(a, b placedSubnet) bool {
	path := a.in.pathOf("subnet")
	if !a.mayOverlap && !b.mayOverlap {
		what := fmt.Sprintf("invalid value %s, which overlaps %s of %s", a.subnet, b.subnet,
			config.FormatPath(b.in.pathOf("subnet")))
		c.addFault(path, what, "must be a subnet that overlaps no other")
		return false
	}
	if !a.gateway.IsValid() || !b.gateway.IsValid() || a.gateway == b.gateway ||
		!a.subnet.Contains(b.gateway) && !b.subnet.Contains(a.gateway) {
		return true
	}
	if a.in.isGiven("gateway") {
		path = a.in.pathOf("gateway")
	}
	c.addFault(path, fmt.Sprintf("the gateway %s is not %s of %s, whose subnet overlaps", a.gateway, b.gateway,
		config.FormatPath(b.in.pathOf("subnet"))), "must be the same gateway, or be outside of the other's subnet")
	return false
}

// checkMayOverlap refuses a network with mayOverlap that needs what tells networks by their subnets: routes to apps,
// and marks of flows. (Port maps are refused in checkPortmaps.)
func (c *checker) checkMayOverlap(o *object, ni netinst.NetworkInstanceConfig) {
	if !ni.IPv4.MayOverlap || ni.Type == netinst.Switch {
		return
	}
	const what = "invalid with ipv4.mayOverlap"
	for _, r := range ni.Routes {
		if r.Port == "" && r.Gateway.IsValid() && ni.IPv4.Subnet.Contains(r.Gateway) {
			path := o.objectOrEmpty("routes").objectOrEmpty(r.Name).pathOf("gateway")
			c.addFault(path, what, "must be a gateway outside of the subnet: apps are no routers there")
		}
	}
	if ni.Flows != netinst.FlowsReset && !o.isInvalid("flows") {
		c.addFault(o.pathOf("flows"), what, "must be reset")
	}
	if ni.Share {
		c.addFault(o.pathOf("share"), what, "must be false")
	}
}
