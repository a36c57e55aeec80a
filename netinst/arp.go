package netinst

import (
	"fmt"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// arpGuard hides the gateways of networks from the neighbours of every other link: the kernel answers ARP for every
// address it has on any link, and sends requests from any of them. It is the host's table of family arp; without a
// gateway there is none.
func arpGuard(ns []HostNetwork) (netstate.Chain, bool) {
	var gateways, links []string
	for _, n := range ns {
		if n.Gateway.IsValid() {
			gateways, links = append(gateways, n.Gateway.String()), append(links, fmt.Sprintf("%q", BridgeName(n.Number)))
		}
	}
	if len(gateways) == 0 {
		return netstate.Chain{}, false
	}
	slices.Sort(gateways)
	slices.Sort(links)
	rules := slices.Concat(nftSet("gateways", "type ipv4_addr;", slices.Compact(gateways)),
		nftSet("links", "type ifname;", links), []string{
			"chain input {", "type filter hook input priority 0; policy accept;",
			"iifname != @links arp daddr ip @gateways drop",
			"}",
			"chain output {", "type filter hook output priority 0; policy accept;",
			"oifname != @links arp saddr ip @gateways drop", "}",
		})
	return netstate.Chain{Family: netstate.ARPFamily, Name: GuardTable, Rules: rules}, true
}

// nftSet is a set of a table of nftables, line by line.
func nftSet(name, kind string, elements []string) []string {
	lines := []string{"set " + name + " {", kind}
	if len(elements) > 0 {
		lines = append(lines, "elements = { "+strings.Join(elements, ", ")+" }")
	}
	return append(lines, "}")
}
