package nodeconf

import (
	"slices"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/netinst"
)

// checkAirGap refuses fields of a network without a port that would need one.
func (c *checker) checkAirGap(o *object, ni netinst.NetworkInstanceConfig) {
	if ni.Port != "" || !o.given("port") || o.wrong("port") {
		return
	}
	const what = "invalid for an air-gapped network"
	if dns := o.in("dns"); len(ni.DNS.Servers) > 0 {
		c.fault(dns.at("servers"), what, "only a network with a port can ask other servers")
	}
	subnet := ni.IPv4.Subnet
	for _, r := range ni.Routes {
		route := o.in("routes").in(r.Name)
		inside := r.Gateway.IsValid() && subnet.Contains(r.Gateway)
		switch {
		case route.given("port"):
			c.fault(route.at("port"), what, "must be a gateway in its subnet, and no port")
		case subnet.IsValid() && !inside && !route.wrong("gateway"):
			c.fault(route.at("gateway"), what, config.MustBe("an address of its subnet "+subnet.String()))
		}
	}
}

// ofLocal lists the fields that only a local network has.
var ofLocal = []string{"dns", "ipv4", "ntpServers", "routes"}

// checkSwitch refuses fields that a switch network does not have. Its port must be a single interface, since the bridge
// receives everything that arrives there.
func (c *checker) checkSwitch(o *object, ni netinst.NetworkInstanceConfig) {
	if ni.Type != netinst.Switch {
		return
	}
	for _, key := range ofLocal {
		if o.given(key) && !o.wrong(key) {
			c.fault(o.at(key), "invalid for a switch network", "only type local has it")
		}
	}
	if ni.Port != "" && c.ports.below(ni.Port) == nil && !o.wrong("port") && !c.noPorts {
		c.fault(o.at("port"), config.Invalid(ni.Port), `for a switch network must be a port's own label, or "" for none`)
	}
}

// checkSwitchPorts refuses the port of a switch network if another network uses it too.
func (c *checker) checkSwitchPorts() {
	for _, key := range c.networks.keys() {
		o := c.networks.in(key)
		ni := c.cfg.Networks[uuid.MustParse(key)]
		if ni.Type != netinst.Switch || c.ports.below(ni.Port) == nil {
			continue
		}
		if user := c.userOf(ni.Port, key); user != nil {
			what := config.Invalid(ni.Port) + ", which " + config.FormatPath(user) + " uses too"
			c.fault(o.at("port"), what, "for a switch network must be a port that no other network uses")
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
		o := c.networks.in(key)
		if key == but {
			continue
		}
		if stands(value[string](o, "port")) {
			return o.at("port")
		}
		for _, name := range o.in("routes").keys() {
			if route := o.in("routes").in(name); stands(value[string](route, "port")) {
				return route.at("port")
			}
		}
	}
	return nil
}

// checkAttach refuses fields that an adapter's kind does not have, and a host interface name that another adapter or a
// port uses.
func (c *checker) checkAttach(attach *object, a netinst.UnderlayNetworkConfig, u uniques) {
	if attach.wrong("kind") || a.Kind == "" {
		return
	}
	others := []string{"ifName", "netns"}
	if a.Kind == netinst.Veth {
		others = []string{"hostIfName"}
	}
	for _, key := range others {
		if attach.given(key) && !attach.wrong(key) {
			c.fault(attach.at(key), "invalid for kind "+string(a.Kind), map[string]string{
				"hostIfName": "kinds tap and external have it", "ifName": "kind veth has it", "netns": "kind veth has it",
			}[key])
		}
	}
	if a.HostIfName == "" || a.Kind == netinst.Veth {
		return
	}
	path := attach.at("hostIfName")
	for _, label := range c.ports.keys() {
		if c.cfg.Ports[label].IfName == a.HostIfName {
			c.fault(path, duplicateText(a.HostIfName, c.ports.in(label).at("ifName")), "must be an interface that is not a port")
			return
		}
	}
	switch first, again := u.host.firstUse(a.HostIfName, path); {
	case isOwnKey(a.HostIfName) || a.HostIfName == "lo":
		c.fault(path, config.Invalid(string(a.HostIfName)),
			"must be an interface other than lo and those of edgespan (es followed by a digit)")
	case again:
		c.fault(path, duplicateText(a.HostIfName, first), "must be unique")
	}
}
