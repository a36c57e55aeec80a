package nodeconf

import (
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
