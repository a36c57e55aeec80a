package netinst

import (
	"fmt"
	"strings"

	"edgespan/netinst/netstate"
)

// The chains of a node (k: adapter, n: network; all of table filter unless said):
//
//	FORWARD ──► ES-FORWARD ─┬─ -i es<n> | -o es<n> ──► ES<n>-FWD
//	            (host)      └─ else ──► ES-BASE        │ established ACCEPT
//	                           drops -i/-o es<n>       │ -i es<n> ──► ES<n>-EGR ─ by port ─► ES<n>-<k>E  RETURN | DROP
//	                                                   │                └ unknown port DROP
//	                                                   │ own or port -> es<n> ──► ES<n>-ING ─► ES<n>-<k>I  ACCEPT | DROP
//	                                                   │ es<n> -> port ──► ES-EXIT (host): other subnets DROP, ACCEPT
//	                                                   └ back to ES-FORWARD, and so to ES-BASE
//	INPUT   ──► ES-INPUT  ── -i es<n> ──► ES<n>-INP ─ by port ─► ES<n>-<k>N   essentials, rules that name the node
//	OUTPUT  ──► ES-OUTPUT ── -o es<n> ──► ES<n>-OUT ─ by address ─► ES<n>-<k>M  rules that name the node
//	nat POSTROUTING ──► ES-POSTROUTING ── -s subnet ──► ES<n>-POST ── -o port MASQUERADE
//	bridge family: table es<n>, prerouting: unknown ports DROP, then each adapter's frame and spoof guard
//
// A packet that egress allows goes on to ingress (RETURN after a goto comes back to
// FWD), and one that both allow ends with ACCEPT. What no chain took, ES-BASE drops.

// firewall adds the chains of one network.
func (b *builder) firewall() {
	egr, ing := b.chainName("EGR"), b.chainName("ING")
	forward := []string{
		"-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
		"-i " + b.br + " -j " + egr,
		"-i " + b.br + " -o " + b.br + " -j " + ing,
	}
	var post []string
	for _, p := range b.exits() {
		forward = append(forward,
			fmt.Sprintf("-i %s -o %s -j %s", p.IfName, b.br, ing),
			fmt.Sprintf("-i %s -o %s -j %s", b.br, p.IfName, ExitChain))
		post = append(post, fmt.Sprintf("-o %s -j MASQUERADE", p.IfName))
	}
	input := []string{"-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"}
	output := []string{
		"-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
		"-p udp -m udp --sport 67 --dport 68 -j ACCEPT", // an untracked broadcast
	}
	var egress, bridged, routed []string
	for _, a := range b.Adapters {
		k, host, to := a.Lease.Number, HostIfName(b.n, a.Lease.Number), "-d "+a.Lease.IP.String()+"/32 -g "
		in := fmt.Sprintf("-m physdev --physdev-in %s -g ", host)
		egress = append(egress, in+b.chainName(fmt.Sprintf("%dE", k)))
		input = append(input, in+b.chainName(fmt.Sprintf("%dN", k)))
		bridged = append(bridged, fmt.Sprintf("-m physdev --physdev-out %s --physdev-is-bridged -g %s", host, b.chainName(fmt.Sprintf("%dI", k))))
		routed = append(routed, to+b.chainName(fmt.Sprintf("%dI", k)))
		output = append(output, to+b.chainName(fmt.Sprintf("%dM", k)))
		b.adapterChains(a)
	}
	drop := []string{"-j DROP"}
	b.chain("filter", "FWD", forward, netstate.Hook{Parent: RootForward, Match: "-i " + b.br}, netstate.Hook{Parent: RootForward, Match: "-o " + b.br})
	b.chain("filter", "EGR", append(egress, drop...))
	b.chain("filter", "ING", append(append(bridged, routed...), drop...))
	b.chain("filter", "INP", append(input, drop...), netstate.Hook{Parent: RootInput, Match: "-i " + b.br})
	b.chain("filter", "OUT", append(output, drop...), netstate.Hook{Parent: RootOutput, Match: "-o " + b.br})
	b.chain("nat", "POST", post, netstate.Hook{Parent: RootPostrouting, Match: "-s " + b.Config.IPv4.Subnet.String()})
	b.bridgeTable()
}

func (b *builder) chainName(s string) string { return fmt.Sprintf("%s%d-%s", chainPrefix, b.n, s) }

func (b *builder) chainID(table, s string) netstate.ID {
	return netstate.Chain{Family: netstate.IPv4, Table: table, Name: b.chainName(s)}.ID()
}

func (b *builder) chain(table, s string, rules []string, hooks ...netstate.Hook) {
	b.state.Add(netstate.Chain{Family: netstate.IPv4, Table: table, Name: b.chainName(s), Rules: rules, Hooks: hooks})
}

// adapterChains are the four chains of one adapter: what it sends to others and to
// the node, what it gets from others and from the node.
func (b *builder) adapterChains(a Adapter) {
	acl, gw := a.Config.UnderlayConfig.ACL, "-d "+b.Config.IPv4.Gateway.String()+"/32 "
	chains := map[string][]string{
		"E": rulesOf(acl, Egress, "RETURN", false),
		"I": rulesOf(acl, Ingress, "ACCEPT", false),
		"N": append([]string{
			"-p udp -m udp --sport 68 --dport 67 -j ACCEPT",
			gw + "-p udp -m udp --dport 53 -j ACCEPT",
			gw + "-p tcp -m tcp --dport 53 -j ACCEPT",
			gw + "-p icmp -m icmp --icmp-type 8 -j ACCEPT",
		}, rulesOf(acl, Egress, "ACCEPT", true)...),
		"M": rulesOf(acl, Ingress, "ACCEPT", true),
	}
	for s, rules := range chains {
		c := netstate.Chain{
			Family: netstate.IPv4, Table: "filter", Name: b.chainName(fmt.Sprintf("%d%s", a.Lease.Number, s)),
			Rules: append(rules, "-j DROP"),
		}
		b.own(a.Config.Key(), c)
	}
}

// rulesOf spells the rules of an ACL for one direction, as iptables -S prints them.
// Toward the node's own addresses (node) only an allow counts that names an
// address: neither 0.0.0.0/0 nor an empty match covers them; a drop always counts.
func rulesOf(acl []ACLRule, dir Direction, allow string, node bool) []string {
	var out []string
	for _, r := range acl {
		if r.Direction != Both && r.Direction != dir {
			continue
		}
		verdict := "DROP"
		if r.Action == Allow {
			if node && (!r.IP.IsValid() || r.IP.Bits() == 0) {
				continue
			}
			verdict = allow
		}
		for _, m := range matches(r, dir) {
			out = append(out, strings.TrimSpace(m+" -j "+verdict))
		}
	}
	return out
}

// matches spells what a rule matches: one text, or several where the ports do not
// fit into one.
func matches(r ACLRule, dir Direction) []string {
	remote, local := "d", "s"
	if dir == Ingress {
		remote, local = local, remote
	}
	base := ""
	if r.IP.IsValid() && r.IP.Bits() > 0 {
		base = fmt.Sprintf("-%s %s ", remote, r.IP)
	}
	if r.Protocol != "" {
		base += "-p " + r.Protocol
	}
	var out []string
	for _, rp := range portTexts(r.Protocol, remote, r.Ports) {
		for _, lp := range portTexts(r.Protocol, local, r.LocalPort) {
			out = append(out, strings.Join(strings.Fields(base+" "+rp+" "+lp), " "))
		}
	}
	return out
}

// multiportMax is how many ports one multiport match takes; a range counts as two
// (iptables-extensions(8)).
const multiportMax = 15

// portTexts spells a list of ports: "" for none, several texts for many.
func portTexts(proto, side string, ps []PortRange) []string {
	if len(ps) == 0 {
		return []string{""}
	}
	if len(ps) == 1 {
		return []string{fmt.Sprintf("-m %s --%sport %s", proto, side, ps[0])}
	}
	var out, group []string
	slots := 0
	flush := func() {
		if len(group) > 0 {
			out = append(out, fmt.Sprintf("-m multiport --%sports %s", side, strings.Join(group, ",")))
		}
		group, slots = nil, 0
	}
	for _, p := range ps {
		need := 1
		if p.First != p.Last {
			need = 2
		}
		if slots+need > multiportMax {
			flush()
		}
		group, slots = append(group, p.String()), slots+need
	}
	flush()
	return out
}

// String is "80" or "80:90", as iptables takes it.
func (p PortRange) String() string {
	if p.First == p.Last {
		return fmt.Sprint(p.First)
	}
	return fmt.Sprintf("%d:%d", p.First, p.Last)
}

func (b *builder) bridgeTableID() netstate.ID {
	return netstate.Chain{Family: netstate.BridgeFamily, Name: b.br}.ID()
}

// bridgeTable judges frames before they are judged as packets: a port without a
// chain is dropped, and so is what is neither ARP nor IPv4 (the network has no
// IPv6; a tagged frame would bypass iptables), and what lies about its sender.
func (b *builder) bridgeTable() {
	var chains, jumps []string
	for _, a := range b.Adapters {
		name := fmt.Sprintf("a%d", a.Lease.Number)
		jumps = append(jumps, fmt.Sprintf("iifname %q jump %s", HostIfName(b.n, a.Lease.Number), name))
		chains = append(chains, "chain "+name+" {")
		chains = append(chains, frameRules(a.Lease, b.Config.SpoofGuard)...)
		chains = append(chains, "}")
	}
	// One rule a port and no verdict map: nf_tables judges a rule by the generation
	// in which the walk began and a set's element by that of the lookup, so a walk
	// that straddles the commit of a new table could miss its port, and drop.
	lines := append(chains, "chain ports {", "type filter hook prerouting priority -300; policy accept;")
	lines = append(lines, jumps...)
	lines = append(lines, fmt.Sprintf("iifname %q drop", b.br+"a*"), "}")
	b.state.Add(netstate.Chain{Family: netstate.BridgeFamily, Name: b.br, Rules: lines})
}

// frameRules are the spoof guard of one adapter. 0.0.0.0 is an ARP probe (RFC
// 5227) and a client that asks for a lease (RFC 2131).
func frameRules(l Lease, guard bool) []string {
	if !guard {
		return []string{"ether type arp accept", "ether type ip accept", "drop"}
	}
	return []string{
		"ether saddr != " + l.MAC + " drop",
		fmt.Sprintf("ether type arp arp saddr ether %s arp saddr ip %s accept", l.MAC, l.IP),
		fmt.Sprintf("ether type arp arp saddr ether %s arp saddr ip 0.0.0.0 accept", l.MAC),
		fmt.Sprintf("ether type ip ip saddr %s accept", l.IP),
		"ether type ip ip saddr 0.0.0.0 udp sport 68 udp dport 67 accept",
		"drop",
	}
}
