package nodeconf

import (
	"slices"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
)

// checkAirGap refuses fields of a network without a port that would need one.
func (c *checker) checkAirGap(o *object, ni netinst.NetworkInstanceConfig) {
	if ni.Port != "" || !o.isGiven("port") || o.isInvalid("port") {
		return
	}
	const what = "invalid for an air-gapped network"
	if dns := o.objectOrEmpty("dns"); len(ni.DNS.Servers) > 0 {
		c.addFault(dns.pathOf("servers"), what, "only a network with a port can ask other servers")
	}
	subnet := ni.IPv4.Subnet
	for _, r := range ni.Routes {
		route := o.objectOrEmpty("routes").objectOrEmpty(r.Name)
		inside := r.Gateway.IsValid() && subnet.Contains(r.Gateway)
		if r.Destination.Addr().Is6() {
			c.addFault(route.pathOf("destination"), what, "must be an IPv4 prefix with a gateway in its subnet")
			continue
		}
		switch {
		case route.isGiven("port"):
			c.addFault(route.pathOf("port"), what, "must be a gateway in its subnet, and no port")
		case subnet.IsValid() && !inside && !route.isInvalid("gateway"):
			c.addFault(route.pathOf("gateway"), what, config.MustBe("an address of its subnet "+subnet.String()))
		}
	}
}

// ofLocal lists the fields that only a local network has.
var ofLocal = []string{"dns", "flows", "ipv4", "ntpServers", "probe", "routes", "share"} // and vpn: see readVPN

// checkSwitch refuses fields that a switch network does not have, and those that only it has. Its ports are named,
// since the bridge receives everything that arrives there.
func (c *checker) checkSwitch(o *object, ni netinst.NetworkInstanceConfig) {
	if ni.Type != netinst.Switch {
		if ni.ForwardLLDP && !o.isInvalid("type") {
			c.addFault(o.pathOf("forwardLLDP"), "invalid for a "+string(ni.Type)+" network", "only type switch has it")
		}
		if len(ni.AccessPorts) > 0 && !o.isInvalid("type") {
			c.addFault(o.pathOf("vlanAccessPorts"), "invalid for a "+string(ni.Type)+" network", "only type switch has it")
		}
		return
	}
	for _, key := range ofLocal {
		if o.isGiven(key) && !o.isInvalid(key) {
			c.addFault(o.pathOf(key), "invalid for a switch network", "only type local has it")
		}
	}
	c.checkLimitsOfSwitch(o.objectOrEmpty("limits"))
	if ni.Port != "" && len(c.portsOfSwitch(ni)) == 0 && !o.isInvalid("port") && !c.noPorts {
		c.addFault(o.pathOf("port"), config.Invalid(ni.Port),
			`for a switch network must be a port's own label, a shared label, or "" for none`)
	}
	c.checkAccessPorts(o, ni)
}

// portsOfSwitch returns the ports that a switch network enslaves.
func (c *checker) portsOfSwitch(ni netinst.NetworkInstanceConfig) []netinst.PortConfig {
	if slices.Contains(reserved, ni.Port) {
		return nil
	}
	found, _ := c.portsOf(ni.Port)
	return found
}

// checkSwitchPorts refuses the ports of a switch network that another network uses too.
func (c *checker) checkSwitchPorts() {
	for _, key := range c.networks.keys() {
		o := c.networks.objectOrEmpty(key)
		ni := c.cfg.Networks[uuid.MustParse(key)]
		if ni.Type != netinst.Switch {
			continue
		}
		for _, p := range c.portsOfSwitch(ni) {
			if user := c.userOf(p.Label, key); user != nil {
				what := config.Invalid(ni.Port) + ", which " + config.FormatPath(user) + " uses too"
				c.addFault(o.pathOf("port"), what, "for a switch network must be a port that no other network uses")
				break
			}
		}
	}
}

// userOf returns the path at which a network other than but refers to a port, or nil.
func (c *checker) userOf(label, but string) []string {
	stands := func(word string) bool {
		found, _ := c.portsOf(word)
		return slices.ContainsFunc(found, func(p netinst.PortConfig) bool { return p.Label == label })
	}
	for _, key := range c.networks.keys() {
		o := c.networks.objectOrEmpty(key)
		if key == but {
			continue
		}
		if stands(value[string](o, "port")) {
			return o.pathOf("port")
		}
		for _, name := range o.objectOrEmpty("routes").keys() {
			if route := o.objectOrEmpty("routes").objectOrEmpty(name); stands(value[string](route, "port")) {
				return route.pathOf("port")
			}
		}
	}
	return nil
}

// checkAttach refuses fields that an adapter's kind does not have, and a host interface name that another adapter or a
// port uses.
func (c *checker) checkAttach(attach *object, a netinst.AdapterSpec, u uniques) {
	if attach.isInvalid("kind") || a.Kind == "" {
		return
	}
	others := []string{"ifName", "netns"}
	if a.Kind == netinst.Veth {
		others = []string{"hostIfName"}
	}
	for _, key := range others {
		if attach.isGiven(key) && !attach.isInvalid(key) {
			c.addFault(attach.pathOf(key), "invalid for kind "+string(a.Kind), map[string]string{
				"hostIfName": "kinds tap and external have it", "ifName": "kind veth has it", "netns": "kind veth has it",
			}[key])
		}
	}
	if a.HostIfName == "" || a.Kind == netinst.Veth {
		return
	}
	path := attach.pathOf("hostIfName")
	for _, label := range c.ports.keys() {
		if c.cfg.Ports[label].IfName == a.HostIfName {
			c.addFault(path, duplicateText(a.HostIfName, c.ports.objectOrEmpty(label).pathOf("ifName")),
				"must be an interface that is not a port")
			return
		}
	}
	switch first, again := u.host.firstUse(a.HostIfName, path); {
	case isOwnKey(a.HostIfName) || a.HostIfName == "lo":
		c.addFault(path, config.Invalid(string(a.HostIfName)),
			"must be an interface other than lo and those of edgespan (es or evpn followed by a digit)")
	case again:
		c.addFault(path, duplicateText(a.HostIfName, first), "must be unique")
	}
}
