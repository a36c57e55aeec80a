package nodeconf

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
	"edgespan/netinst/addressing"
)

// external is the default of a port's addressing.
const external = "external"

// maxAddresses limits the addresses of a port.
const maxAddresses = 4

// checkAddressing checks the addresses that edgespan sets on ports, and that no switch network takes such a port.
func (c *checker) checkAddressing() {
	own := 0
	seen := map[netip.Addr][]string{}
	for _, label := range c.ports.keys() {
		o, p := c.ports.objectOrEmpty(label), c.cfg.Ports[label]
		if o.isInvalid("addressing") {
			continue
		}
		if p.Addressing != netinst.AddressingExternal {
			own++
		}
		c.checkStatic(o, p, seen)
	}
	if own > addressing.MaxPorts {
		c.addFault(c.ports.path, fmt.Sprintf("too many ports with an addressing other than external (%d)", own),
			fmt.Sprintf("must be at most %d", addressing.MaxPorts))
	}
	for _, key := range c.networks.keys() {
		ni := c.cfg.Networks[uuid.MustParse(key)]
		if ni.Type != netinst.Switch {
			continue
		}
		ports := c.portsOfSwitch(ni)
		i := slices.IndexFunc(ports, func(p netinst.PortConfig) bool { return p.Addressing != netinst.AddressingExternal })
		if i >= 0 {
			what := fmt.Sprintf("%s, which has addressing %s", config.Invalid(ni.Port), ports[i].Addressing)
			c.addFault(c.networks.objectOrEmpty(key).pathOf("port"), what,
				"for a switch network must be a port with addressing external")
		}
	}
}

// checkStatic checks the addresses of one port; seen are those of the ports before it.
func (c *checker) checkStatic(o *object, p netinst.PortConfig, seen map[netip.Addr][]string) {
	static := p.Addressing == netinst.AddressingStatic
	path := o.pathOf("address")
	switch {
	case o.isInvalid("address"):
		return
	case static && len(p.Static) == 0:
		c.addFault(path, "required", config.MustBe(words[wordOnLink].plural+" if addressing is static"))
	case !static && len(p.Static) > 0:
		c.addFault(path, "invalid without addressing static", "only addressing static has it")
		return
	case len(p.Static) > maxAddresses:
		c.addFault(path, fmt.Sprintf("too many addresses (%d)", len(p.Static)),
			fmt.Sprintf("must be at most %d", maxAddresses))
	}
	for _, a := range p.Static {
		if first := seen[a.Addr()]; first != nil {
			c.addFault(path, duplicateText(a.Addr(), first), "must be unique")
			return
		}
		seen[a.Addr()] = path
		if a.Addr() == p.Gateway {
			c.addFault(o.pathOf("gateway"), config.Invalid(p.Gateway.String())+", the port's own address",
				"must be the address of a neighbour")
		}
	}
	c.checkSubnetOf(p, path)
}

// checkSubnetOf refuses an address in the subnet of a network: packets for one would go to the other.
func (c *checker) checkSubnetOf(p netinst.PortConfig, path []string) {
	for _, key := range c.networks.keys() {
		subnet := c.cfg.Networks[uuid.MustParse(key)].IPv4.Subnet
		i := slices.IndexFunc(p.Static, func(a netip.Prefix) bool { return subnet.IsValid() && a.Overlaps(subnet) })
		if i >= 0 {
			of := c.networks.objectOrEmpty(key).objectOrEmpty("ipv4").pathOf("subnet")
			what := fmt.Sprintf("invalid value %s, which overlaps %s of %s", p.Static[i], subnet, config.FormatPath(of))
			c.addFault(path, what, "must be outside of every network's subnet")
			return
		}
	}
}
