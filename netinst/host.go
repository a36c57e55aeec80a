package netinst

import (
	"fmt"
	"net/netip"
	"slices"

	"edgespan/netinst/netstate"
)

// HostNetwork is what HostState must know of one network instance. A switch network has no subnet, and an orphan's is
// unknown.
type HostNetwork struct {
	Number int
	Subnet netip.Prefix
	Ports  []HostPort // that it may use
	// Gateway is the address of its bridge; invalid without one.
	Gateway netip.Addr
}

// HostState is the desired host state that belongs to no network: the root chains with their jumps, the base drop for
// every network's links, the guard behind them, and forwarding. Without networks it is empty, so that every object of
// edgespan is removed.
//
// The rules that lead packets from the root chains into networks are the Hooks of the networks' own chains and not part
// of it. Unmarked are the numbers of networks whose chains were written by a release that set no mark: the guard spares
// them.
func HostState(ns []HostNetwork, unmarked ...int) netstate.State {
	s := netstate.State{}
	if len(ns) == 0 {
		return s
	}
	ns = slices.Clone(ns)
	slices.SortFunc(ns, func(a, b HostNetwork) int { return a.Number - b.Number })
	var base, exit []string
	for _, n := range ns {
		br := BridgeName(n.Number)
		base = append(base, fmt.Sprintf("-i %s -j DROP", br), fmt.Sprintf("-o %s -j DROP", br))
		if n.Subnet.IsValid() {
			exit = append(exit, "-d "+n.Subnet.Masked().String()+" -j DROP")
		}
	}
	root := func(table, name, builtin string, rules ...string) netstate.Chain {
		return netstate.Chain{
			Family: netstate.IPv4, Table: table, Name: name, Rules: rules,
			Hooks: []netstate.Hook{{Parent: builtin}},
		}
	}
	const toBase = "-j " + BaseChain
	opens, closes := forwarding(ns)
	s.Add(opens...)
	if g, needed := arpGuard(ns); needed {
		s.Add(g)
	}
	s.Add(
		root(tableFilter, RootForward, "FORWARD", append([]string{toBase}, closes...)...),
		root(tableFilter, RootInput, "INPUT", toBase),
		root(tableFilter, RootOutput, "OUTPUT", toBase),
		root(tableNAT, RootPostrouting, "POSTROUTING"),
		// Also without a switch network: one may be added, and needs it in place.
		root(tableRaw, RootPrerouting, "PREROUTING"),
		netstate.Chain{Family: netstate.IPv4, Table: tableFilter, Name: BaseChain, Rules: base},
		netstate.Chain{Family: netstate.IPv4, Table: tableFilter, Name: ExitChain, Rules: append(exit, "-j "+PassChain)},
		passChain(), guard(ns, unmarked),
	)
	return s
}
