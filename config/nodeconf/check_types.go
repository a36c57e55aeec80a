package nodeconf

import (
	"slices"

	"github.com/google/uuid"

	"edgespan/netinst"
)

// checkAirGap finds what a network without a port can't have: a way out.
func (c *checker) checkAirGap(o *object, ni netinst.NetworkInstanceConfig) {
	if ni.Port != "" || !o.given["port"] || o.wrong["port"] {
		return
	}
	const what = "is of an air-gapped network"
	if dns := o.in("dns"); len(ni.DNS.Servers) > 0 {
		c.fault(dns.at("servers"), what, "a network with a port may ask other servers")
	}
	subnet := ni.IPv4.Subnet
	for _, r := range ni.Routes {
		route := o.in("routes").in(r.Name)
		inside := r.Gateway.IsValid() && subnet.Contains(r.Gateway)
		switch {
		case route.given["port"]:
			c.fault(route.at("port"), what, "a gateway in its subnet is allowed, and no port")
		case subnet.IsValid() && !inside && !route.wrong["gateway"]:
			c.fault(route.at("gateway"), what, "an address of its subnet "+subnet.String()+" is allowed")
		}
	}
}

// ofLocal are the fields that only a local network has.
var ofLocal = []string{"dns", "ipv4", "ntpServers", "routes"}

// checkSwitch finds what a switch network doesn't have, and holds its port to be
// one interface that nobody else leads packets out of: the bridge takes all that
// comes in by it.
func (c *checker) checkSwitch(o *object, ni netinst.NetworkInstanceConfig) {
	if ni.Type != netinst.Switch {
		return
	}
	for _, key := range ofLocal {
		if o.given[key] {
			c.fault(o.at(key), "is of a switch network", "type local has it")
		}
	}
	if _, own := c.ports.objects[ni.Port]; ni.Port != "" && !own && !o.wrong["port"] && !c.noPorts {
		c.fault(o.at("port"), is(ni.Port), `a port's own label, or "" for none, is allowed for a switch network`)
	}
}

// checkSwitchPorts finds ports that a switch network would take from another.
func (c *checker) checkSwitchPorts() {
	for _, key := range c.networks.keys() {
		o := c.networks.in(key)
		ni := c.cfg.Networks[uuid.MustParse(key)]
		if _, own := c.ports.objects[ni.Port]; ni.Type != netinst.Switch || !own {
			continue
		}
		if user := c.userOf(ni.Port, key); user != nil {
			what := is(ni.Port) + ", which " + FormatPath(user) + " stands for too"
			c.fault(o.at("port"), what, "a port that no other network uses is allowed for a switch network")
		}
	}
}

// userOf is where the first network but one says that it may use a port.
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
