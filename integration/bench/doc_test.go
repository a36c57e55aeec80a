package bench

import (
	"fmt"
	"net/netip"
)

// doc is a node config as the benchmarks build it.
type doc map[string]map[string]any

type object = map[string]any

func newDoc() doc {
	return doc{
		"ports":            {"wan": object{"ifName": "eth0", "uplink": true, "dnsServers": "192.0.2.1"}},
		"networkInstances": {}, "appNetworks": {},
	}
}

func niID(n int) string  { return fmt.Sprintf("10000000-0000-4000-8000-%012d", n) }
func appID(n int) string { return fmt.Sprintf("a0000000-0000-4000-8000-%012d", n) }

// subnet is a network's: a /24 each, or for network 0, which is alone, one that has room for all.
func subnet(n int) netip.Prefix {
	if n == 0 {
		return netip.MustParsePrefix("10.200.0.0/21")
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n), byte(n >> 8), 0}), 24)
}

func gateway(n int) netip.Addr { return subnet(n).Addr().Next() }

func gateways(n int) []netip.Addr {
	var list []netip.Addr
	for i := range n {
		list = append(list, gateway(i+1))
	}
	return list
}

func (d doc) network(n int) {
	d["networkInstances"][niID(n)] = object{
		"displayName": fmt.Sprintf("lan%d", n), "type": "local", "port": "wan",
		"ipv4": object{"subnet": subnet(n).String()}, "dns": object{"domain": "lan"},
	}
}

// full has all networks, and the apps spread over them with 10 rules each.
func (d doc) full(p *place, networks, apps int) {
	for n := range networks {
		d.network(n + 1)
	}
	for k := range apps {
		d.app(k, k%networks+1, p.apps[k].Name, 10)
	}
}

func (d doc) app(k, network int, netns string, rules int) {
	acl := object{}
	for i := range rules {
		acl[fmt.Sprintf("r%04d", i)] = object{
			"order": i, "direction": "egress",
			"match": object{"ip": fmt.Sprintf("198.51.%d.%d/32", i/250, i%250+1), "protocol": "tcp", "port": 443},
		}
	}
	d["appNetworks"][appID(k)] = object{
		"displayName": fmt.Sprintf("app%d", k), "activate": true,
		"adapters": object{"0": object{"networkInstance": niID(network), "attach": object{"kind": "veth", "netns": netns},
			"acl": acl}},
	}
}
