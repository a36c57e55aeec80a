package doctor

import (
	"fmt"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// crowded is the percentage of the machine's tracked flows beyond which it may soon refuse new ones: the node's apps
// have at most half of them.
const crowded = 75

// flows compares the machine's tracked flows with the limits of the node's adapters, and warns when the table is almost
// full: then no program can open a flow.
func flows(f netstate.Facts, n Node) []Finding {
	if f.Flows.Max == 0 || len(n.Networks) == 0 {
		return nil
	}
	if f.Flows.Count*100 >= f.Flows.Max*crowded {
		return []Finding{{
			Level: Problem,
			Text: fmt.Sprintf("%d flows are tracked, of %d at most (net.netfilter.nf_conntrack_max): the machine refuses new "+
				"ones soon; an idle TCP flow stays for %d s",
				f.Flows.Count, f.Flows.Max, f.Flows.Established),
			Fix: fmt.Sprintf("sysctl -w net.netfilter.nf_conntrack_max=%d "+
				"net.netfilter.nf_conntrack_tcp_timeout_established=7200 # conntrack -L shows whose they are", 2*f.Flows.Max),
		}}
	}
	sharers := 0
	for _, ni := range n.Networks {
		sharers = max(sharers, ni.Sharers)
	}
	share := netinst.FlowShare(f.Flows.Max, sharers)
	if share >= netinst.DefaultMaxFlows {
		return nil
	}
	need := f.Flows.Max
	for netinst.FlowShare(need, sharers) < netinst.DefaultMaxFlows {
		need *= 2
	}
	return []Finding{{
		Level: Warning,
		Text: fmt.Sprintf("net.netfilter.nf_conntrack_max is %d: each adapter of this node may have %d flows at most, "+
			"which is less than the usual %d",
			f.Flows.Max, share, netinst.DefaultMaxFlows),
		Fix: fmt.Sprintf("sysctl -w net.netfilter.nf_conntrack_max=%d && echo net.netfilter.nf_conntrack_max=%[1]d > "+
			"/etc/sysctl.d/91-edgespan.conf # and restart the daemon", need),
	}}
}
