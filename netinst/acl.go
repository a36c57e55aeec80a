package netinst

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// IP protocol numbers that have a name in a rule.
const (
	protoICMP = 1
	protoTCP  = 6
	protoUDP  = 17
)

// protocols returns the protocol numbers that a rule matches; any is true if it names none. Ports without a protocol
// mean those of tcp and udp. Ports of another protocol, an unknown word and 0 (which iptables takes for "all") match
// nothing.
func (r ACLRule) protocols() (nums []uint8, any bool) {
	ports := len(r.Ports) > 0 || len(r.LocalPort) > 0
	switch r.Protocol {
	case "":
		if ports {
			return []uint8{protoTCP, protoUDP}, false
		}
		return nil, true
	case "tcp":
		return []uint8{protoTCP}, false
	case "udp":
		return []uint8{protoUDP}, false
	case "icmp":
		if ports {
			return nil, false
		}
		return []uint8{protoICMP}, false
	}
	n, err := strconv.ParseUint(r.Protocol, 10, 8)
	if err != nil || n == 0 || ports && n != protoTCP && n != protoUDP {
		return nil, false
	}
	return []uint8{uint8(n)}, false
}

// applies reports whether a rule is for packets of one direction.
func (r ACLRule) applies(d Direction) bool { return r.Direction == d || r.Direction == Both }

// elsewhere reports whether a rule is for another address family.
func (r ACLRule) elsewhere() bool { return r.IP.IsValid() && !r.IP.Addr().Is4() }

// names reports whether a rule names its remote end: the node's own addresses require that of a rule that allows
// (docs/configuration.md).
func (r ACLRule) names() bool { return r.namesIP() || r.Set != nil }

func (r ACLRule) namesIP() bool { return r.IP.IsValid() && r.IP.Bits() > 0 }

// links returns the interfaces of the ports that a rule names, in order; a single "" means any. It includes a port that
// does not exist, so that its rules are in place before it appears.
func (r ACLRule) links(ports []PortStatus) []IfName {
	if r.PortLabel == "" {
		return []IfName{""}
	}
	var names []IfName
	for _, p := range ports {
		if p.Matches(r.PortLabel) {
			names = append(names, p.IfName)
		}
	}
	slices.Sort(names)
	return names
}

// decides reports whether a rule has an action that is implemented. Another one is refused by config and never allows.
func (r ACLRule) decides() bool {
	return r.Action == Allow || r.Action == Drop || r.Action == Limit || r.Action == MapPort
}

// targets are what packets go through that a rule of a chain allows or drops, as the last words of the rule; bucket
// returns those that lead to the chain that drops what exceeds the rate of limit i of the adapter.
type targets struct {
	allow, drop string
	bucket      func(i int) string
	observes    bool // what the rules drop passes
}

// dropped is what the packets count for that a rule drops; rule is "" for the drop behind the last.
func (t targets) dropped(rule string) Hit {
	if t.observes {
		return Hit{rule, Observed}
	}
	return Hit{rule, Matched}
}

// counted is one rule of a chain of the kernel, and what its packets count for.
type counted struct {
	rule string
	hit  Hit
}

func ruleTexts(list []counted) []string {
	out := make([]string, len(list))
	for i, c := range list {
		out[i] = c.rule
	}
	return out
}

// uncounted are rules of the kernel that belong to no access rule.
func uncounted(rules ...string) []counted {
	out := make([]counted, len(rules))
	for i, r := range rules {
		out[i] = counted{rule: r}
	}
	return out
}

// chain returns the rules of one direction that keep selects, followed by a drop. matches returns what a rule matches,
// as the first words of each rule of the kernel.
func (nw network) chain(acl []ACLRule, d Direction, to targets, matches func(ACLRule) []string,
	keep func(ACLRule) bool) []counted {
	var out []counted
	limits := -1
	for _, r := range acl {
		if r.Action == Limit {
			limits++
		}
		if !r.applies(d) || !keep(r) || !r.decides() {
			continue
		}
		for _, m := range matches(r) {
			hit := Hit{r.Name, Matched}
			if r.Action == Limit {
				out = append(out, counted{strings.TrimSpace(m + " " + to.bucket(limits)), hit})
				hit = Hit{} // the same packet
			}
			target := to.allow
			if r.Action == Drop {
				target, hit = to.drop, to.dropped(r.Name)
			}
			out = append(out, counted{strings.TrimSpace(m + " " + target), hit})
		}
	}
	return append(out, counted{to.drop, to.dropped("")})
}

// matching returns the function matches for ports that a packet of the chain may pass, none for packets that stay on
// the node.
func (nw network) matching(d Direction, ports []PortStatus) func(ACLRule) []string {
	return func(r ACLRule) []string { return nw.matches(r, d, ports) }
}

// matches returns what a rule matches, one argument list per rule of iptables.
func (nw network) matches(r ACLRule, d Direction, ports []PortStatus) []string {
	if r.Action == MapPort {
		return nw.mapped(r)
	}
	if r.elsewhere() {
		return nil
	}
	remote, link := "-d ", " -o "
	if d == Ingress {
		remote, link = "-s ", " -i "
	}
	var out []string
	for _, name := range r.links(ports) {
		prefix := ""
		if r.namesIP() {
			prefix = remote + r.IP.Masked().String()
		}
		if name != "" {
			prefix += link + string(name)
		}
		for _, set := range nw.setMatches(r, d, false) {
			out = append(out, r.protocolMatches(strings.TrimSpace(prefix), set, d)...)
		}
	}
	return out
}

// protocolMatches adds the protocol, the set and the ports of a rule to a match, in the order of iptables.
func (r ACLRule) protocolMatches(prefix, set string, d Direction) []string {
	remotePort, localPort := "dport", "sport"
	if d == Ingress {
		remotePort, localPort = "sport", "dport"
	}
	nums, any := r.protocols()
	if any {
		return []string{strings.TrimSpace(prefix + " " + set)}
	}
	if set != "" {
		set = " " + set
	}
	var out []string
	for _, n := range nums {
		for _, remotes := range chunks(r.Ports) {
			for _, locals := range chunks(r.LocalPort) {
				ports := portWords(n, portSet{remotePort, remotes}, portSet{localPort, locals})
				out = append(out, strings.TrimSpace(prefix+" -p "+protocolWord(n)+set+ports))
			}
		}
	}
	return out
}

func protocolWord(n uint8) string {
	switch n {
	case protoICMP:
		return "icmp"
	case protoTCP:
		return "tcp"
	case protoUDP:
		return "udp"
	}
	return strconv.Itoa(int(n))
}

type portSet struct {
	flag  string // "sport" or "dport"
	ports []PortRange
}

// portWords returns ports as iptables prints them: source before destination in one match of the protocol, lists by
// multiport.
func portWords(proto uint8, sets ...portSet) string {
	source, destination, lists := "", "", ""
	for _, s := range sets {
		switch {
		case len(s.ports) == 1 && s.flag == "sport":
			source = " --sport " + s.ports[0].String()
		case len(s.ports) == 1:
			destination = " --dport " + s.ports[0].String()
		case len(s.ports) != 0:
			words := make([]string, len(s.ports))
			for i, p := range s.ports {
				words[i] = p.String()
			}
			lists += " -m multiport --" + s.flag + "s " + strings.Join(words, ",")
		}
	}
	if source+destination != "" {
		return " -m " + protocolWord(proto) + source + destination + lists
	}
	return lists
}

// String is the range as iptables spells it: "80" or "80:90".
func (p PortRange) String() string {
	if p.First == p.Last {
		return strconv.Itoa(int(p.First))
	}
	return fmt.Sprintf("%d:%d", p.First, p.Last)
}

// maxMultiport is how many ports one multiport match takes; a range counts twice (XT_MULTI_PORTS).
const maxMultiport = 15

// chunks splits a list of ports into parts that fit one match; an empty list is one part that matches all.
func chunks(ports []PortRange) [][]PortRange {
	out := [][]PortRange{nil}
	used := 0
	for _, p := range ports {
		size := 1
		if p.First != p.Last {
			size = 2
		}
		if used+size > maxMultiport {
			out = append(out, nil)
			used = 0
		}
		out[len(out)-1] = append(out[len(out)-1], p)
		used += size
	}
	return out
}

// packet is the head of a packet as an adapter's rules match it: remote and local are the addresses of the other end
// and of the adapter, port is the one by which it leaves or enters the node, nil for none. mapped is the port
// of the node to which it was sent, if a port map led it to the adapter; 0 if none did.
type packet struct {
	proto         uint8
	remote, local netip.AddrPort
	port          *PortStatus
	mapped        uint16
	hosts         HostAddresses // nil: unknown
}

// matches reports whether a rule matches a packet of its direction.
func (r ACLRule) matches(p packet) bool {
	if r.Action == MapPort {
		return r.maps(p)
	}
	if r.IP.IsValid() && r.IP.Addr().Is4() != p.remote.Addr().Is4() || r.namesIP() && !r.IP.Contains(p.remote.Addr()) {
		return false
	}
	if r.Set != nil && !r.Set.Contains(p.remote.Addr()) || !r.matchesHost(p) {
		return false
	}
	if r.PortLabel != "" && (p.port == nil || !p.port.Matches(r.PortLabel)) {
		return false
	}
	nums, any := r.protocols()
	if any {
		return true
	}
	for _, n := range nums {
		if p.remote.Addr().Is6() {
			n = inIPv6(n)
		}
		if n == p.proto {
			return within(r.Ports, p.remote.Port()) && within(r.LocalPort, p.local.Port())
		}
	}
	return false
}

func within(ranges []PortRange, port uint16) bool {
	for _, r := range ranges {
		if port >= r.First && port <= r.Last {
			return true
		}
	}
	return len(ranges) == 0
}

// remoteEnd is the kind of a packet's remote end, as far as access rules apply to it differently.
type remoteEnd bool

const (
	otherHost  remoteEnd = false
	nodeItself remoteEnd = true
)

// allows reports whether an adapter's rules allow a packet: the first match wins, a packet without a match is dropped.
// A limit allows what it matches, as far as the packet alone can tell.
func (s AdapterSpec) allows(d Direction, p packet, end remoteEnd) bool {
	if s.Observe && end == otherHost {
		return true
	}
	for _, r := range s.ACL {
		if r.applies(d) && (end == otherHost || appliesToNode(r)) && r.decides() && r.matches(p) {
			return r.Action != Drop
		}
	}
	return false
}

// always keeps every rule: for packets between an adapter and hosts outside the node.
func always(ACLRule) bool { return true }

// appliesToNode keeps the rules that apply between an adapter and the node's own addresses: those that drop, and those
// that name what they allow. A port map names the node: packets to it have an address of the node's.
func appliesToNode(r ACLRule) bool { return r.Action == Drop || r.Action == MapPort || r.names() }

// alike reports whether the rules of a direction have the same effect toward the node's own addresses as toward other
// hosts: no rule allows without a name. A rule that names a port needs no exception: packets to and from the node
// itself pass no port.
func (s AdapterSpec) alike(d Direction) bool {
	return !s.Observe && !slices.ContainsFunc(s.ACL, func(r ACLRule) bool { return r.applies(d) && !appliesToNode(r) })
}
