package netinst

import (
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// withdrawnChains are the chains of the network that remain while its subnet is the host's: those for frames and
// packets of its own bridge. A hook that matches an address would filter, drop or translate packets of the host's
// neighbours, who have these addresses.
//
// The node has no address on the bridge then, so no packet that arrives by it is for the node.
func (nw network) withdrawnChains(all []netstate.Chain) []netstate.Chain {
	out := make([]netstate.Chain, 0, len(all))
	for _, c := range all {
		c.Hooks = slices.DeleteFunc(slices.Clone(c.Hooks), func(h netstate.Hook) bool { return !nw.ofBridge(h.Match) })
		if c.Name == nw.chainName("INP") {
			c.Rules = []string{"-j DROP"}
		}
		out = append(out, c)
	}
	return out
}

// ofBridge reports whether a match covers only packets that come from or go to the bridge.
func (nw network) ofBridge(match string) bool {
	w := strings.Fields(match)
	for i := 1; i < len(w); i++ {
		if (w[i-1] == "-i" || w[i-1] == "-o") && w[i] == string(nw.bridge) && (i < 2 || w[i-2] != "!") {
			return true
		}
	}
	return false
}

// denyWithdrawn is Validate for a network that is withdrawn: flows that its apps have begun through a port are still
// translated, and their answers would reach neighbours of the host.
func denyWithdrawn(nw network) func(netstate.Flow) bool {
	return func(f netstate.Flow) bool {
		return f.Zone == 0 && f.ReplyDst.Addr() != f.Src.Addr() && slices.ContainsFunc(nw.Adapters, func(a Adapter) bool {
			return a.Lease.IP == f.Src.Addr()
		})
	}
}

// joinTexts joins the texts that are not empty.
func joinTexts(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), "; ")
}
