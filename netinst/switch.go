package netinst

import (
	"fmt"

	"edgespan/netinst/netstate"
)

// A switch network is a separate bridge, with or without open ports: a port of the host, and the tunnels and members of
// a cluster. It has no address, DHCP, DNS or routes: packets of its apps are bridged, and filtered by the same rules as
// on a local network. Packets from one open port to another are not filtered.
//
//	raw PREROUTING: ES-PREROUTING (host): -i es<n> -> ES<n>-RAW: CT --zone 20000+n
//
//	filter FORWARD                 filter INPUT, OUTPUT
//	  ES-FORWARD (host)              -i es<n> -> ES<n>-INP: DROP
//	   -i es<n>, -o es<n>            -o es<n> -> ES<n>-OUT: DROP
//	   |  ES<n>-FWD
//	   |    reply      -> ACCEPT, only in the direction opposite to the flow's
//	   |    -i es<n>   -> ES<n>-EGR: by port of bridge -> ES<n>-<k>E; open port RETURN
//	   |    -o es<n>   -> ES<n>-ING: by port of bridge -> ES<n>-<k>I; open port ACCEPT
//	   '- last: ES-BASE (host): DROP, also what would be routed into or out of a switch
//
// Its flows are tracked in a separate conntrack zone: the addresses on a switch are assigned by others and may be those
// of another network of the node, and neither replies nor NAT may match the entries of that network.
//
// The rules check every packet of a flow's first direction again. On a local network the spoof guard knows which
// adapter may send from an address; here it knows only the MAC, so an entry of one app must not let another's packets
// pass.

const switchReplies = "-m conntrack --ctstate RELATED,ESTABLISHED --ctdir REPLY -j ACCEPT"

// Zone is the conntrack zone of switch network n.
func Zone(n int) uint16 { return uint16(tableBase + n) }

func (nw network) isSwitch() bool { return nw.Config.Type == Switch }

// switchChains returns all chains of a switch network.
func (nw network) switchChains() []netstate.Chain {
	br := string(nw.bridge)
	egr, ing := nw.chainName("EGR"), nw.chainName("ING")
	out := []netstate.Chain{
		nw.zone(),
		nw.filter("FWD", []netstate.Hook{
			{Parent: RootForward, Match: "-i " + br},
			{Parent: RootForward, Match: "-o " + br},
		}, []string{
			switchReplies, "-i " + br + " -j " + egr, "-i " + br + " -o " + br + " -j " + ing,
		}),
		nw.switchEgress(), nw.switchIngress(),
		nw.filter("INP", []netstate.Hook{{Parent: RootInput, Match: "-i " + br}}, []string{"-j DROP"}),
		nw.filter("OUT", []netstate.Hook{{Parent: RootOutput, Match: "-o " + br}}, []string{"-j DROP"}),
		nw.bridgeTable(),
	}
	for _, a := range nw.Adapters {
		acl := a.Config.UnderlayConfig.ACL
		k := fmt.Sprint(a.Lease.Number)
		// Any station may serve DHCP on the segment: the client asks, the server answers.
		returns, accepts := nw.allowTarget(a, "RETURN"), nw.allowTarget(a, "ACCEPT")
		ask, answer := "-p udp -m udp --sport 68 --dport 67 "+returns, "-p udp -m udp --sport 67 --dport 68 "+accepts
		out = append(append(out, nw.flowChains(a)...),
			nw.filter(k+"E", nil, append([]string{ask}, chain(acl, Egress, returns, nil, always)...)),
			nw.filter(k+"I", nil, append([]string{answer}, chain(acl, Ingress, accepts, nil, always)...)))
	}
	return out
}

func (nw network) zone() netstate.Chain {
	return netstate.Chain{
		Family: netstate.IPv4, Table: tableRaw, Name: nw.chainName("RAW"),
		Hooks: []netstate.Hook{{Parent: RootPrerouting, Match: "-i " + string(nw.bridge)}},
		Rules: []string{fmt.Sprintf("-j CT --zone %d", Zone(nw.n))},
	}
}

func (nw network) switchEgress() netstate.Chain {
	c := nw.egress()
	var open []string
	for _, p := range nw.openPorts("+") {
		open = append(open, "-m physdev --physdev-in "+p+" -j RETURN")
	}
	c.Rules = append(open, c.Rules...)
	return c
}

// switchIngress matches by port of the bridge alone: the address of an app is not assigned by edgespan.
func (nw network) switchIngress() netstate.Chain {
	var rules []string
	out := func(link string) string { return "-m physdev --physdev-out " + link + " --physdev-is-bridged" }
	for _, a := range nw.Adapters {
		rules = append(rules, out(string(nw.hostIfName(a)))+" -g "+nw.adapterChain(a, "I"))
	}
	for _, p := range nw.openPorts("+") {
		rules = append(rules, out(p)+" -j ACCEPT")
	}
	return nw.filter("ING", nil, append(rules, "-j DROP"))
}

// enslaved returns the host's interface in the bridge, "" without one.
func (nw network) enslaved() string {
	if !nw.isSwitch() || nw.port == nil {
		return ""
	}
	return string(nw.port.IfName)
}
