package netinst

import (
	"fmt"
	"net/netip"

	"edgespan/netinst/netstate"
)

// HostNetwork is one network as the host ground names it. An orphan's subnet is
// not known.
type HostNetwork struct {
	Number int
	Subnet netip.Prefix
}

// HostState is the ground that belongs to no network: root chains with one jump
// each, the base chain that drops what no adapter chain took, the exit chain that
// keeps networks from reaching each other, and forwarding. Without networks there
// is none.
func HostState(ns []HostNetwork) netstate.State {
	st := netstate.State{}
	if len(ns) == 0 {
		return st
	}
	var base, exit []string
	for _, n := range ns {
		br := BridgeName(n.Number)
		base = append(base, fmt.Sprintf("-i %s -j DROP", br), fmt.Sprintf("-o %s -j DROP", br))
		if n.Subnet.IsValid() {
			exit = append(exit, fmt.Sprintf("-d %s -j DROP", n.Subnet))
		}
	}
	chain := func(table, name string, rules []string, hooks ...netstate.Hook) {
		st.Add(netstate.Chain{Family: netstate.IPv4, Table: table, Name: name, Rules: rules, Hooks: hooks})
	}
	chain("filter", BaseChain, base)
	chain("filter", ExitChain, append(exit, "-j ACCEPT"))
	for root, builtin := range map[string]string{RootForward: "FORWARD", RootInput: "INPUT", RootOutput: "OUTPUT"} {
		chain("filter", root, []string{"-j " + BaseChain}, netstate.Hook{Parent: builtin})
	}
	chain("nat", RootPostrouting, nil, netstate.Hook{Parent: "POSTROUTING"})
	st.Add(netstate.Sysctl{Key: "net/ipv4/ip_forward", Value: "1"})
	return st
}
