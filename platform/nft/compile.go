package nft

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"edgespan/netinst/netstate"
)

// compiled is a chain in the kernel's form.
type compiled struct {
	name  string
	hook  []byte // attributes of a base chain; nil for another chain
	rules [][]byte
}

// body is the content of a table.
type body struct {
	sets   []compiledSet
	meters []compiledSet // of rules
	chains []compiled
}

// compile compiles the lines between the braces of a table:
//
//	set NAME {
//	type ipv4_addr;
//	elements = { 10.1.0.1 }
//	}
//	map NAME {
//	type ifname : verdict;
//	elements = { "es1a1" : jump CHAIN }
//	}
//	chain NAME {
//	type filter hook prerouting priority -300; policy accept;   (or type nat, route)
//	MATCH … VERDICT
//	}
//
// parser.match has the matches; "counter" between them and the verdict counts what matched. A verdict is accept, drop,
// return, goto CHAIN or jump CHAIN. "KEY vmap @MAP", in which KEY is iifname, oifname or ct original zone, "meta mark
// set meta mark & MASK" at its end, "masquerade", "notrack", "ct zone set NUMBER", "tcp option maxseg size set NUMBER"
// or "log prefix NAME group NUMBER" may replace the verdict. A rule with a meter has a set of its own.
//
// A rule that matches a set of ipset(8) has its number, which numbers returns by its name.
func compile(family netstate.Family, lines []string, numbers setNumbers) (body, error) {
	const inChain = "chain"
	b, open := body{}, ""
	for _, line := range lines {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "chain" && len(words) == 3 && words[2] == "{" && open == "":
			b.chains, open = append(b.chains, compiled{name: words[1]}), inChain
		case (words[0] == "set" || words[0] == "map") && len(words) == 3 && words[2] == "{" && open == "":
			b.sets, open = append(b.sets, compiledSet{name: words[1], isMap: words[0] == "map"}), words[0]
		case line == "}" && open != "":
			open = ""
		case open == "":
			return b, fmt.Errorf("%q: outside of a chain", line)
		case open != inChain:
			if err := b.sets[len(b.sets)-1].setLine(line); err != nil {
				return b, err
			}
		case words[0] == "type":
			hook, err := baseChain(family, words)
			if err != nil {
				return b, fmt.Errorf("%q: %w", line, err)
			}
			b.chains[len(b.chains)-1].hook = hook
		default:
			r, err := rule(family, words, numbers, &b.meters)
			if err != nil {
				return b, fmt.Errorf("%q: %w", line, err)
			}
			b.chains[len(b.chains)-1].rules = append(b.chains[len(b.chains)-1].rules, r)
		}
	}
	if open != "" {
		return b, fmt.Errorf("a %s has no end", open)
	}
	return b, nil
}

// The hooks of the families bridge (linux/netfilter_bridge.h), inet and ip6, which have the same numbers, and of arp
// (linux/netfilter_arp.h).
var (
	hooks    = map[string]uint32{"prerouting": 0, "input": 1, "forward": 2, "output": 3, "postrouting": 4}
	arpHooks = map[string]uint32{"input": 0, "output": 1}
)

// baseTypes are the types of base chains. After one of type route, which is for hook output alone, the kernel routes a
// packet again whose mark has changed.
var baseTypes = []string{"filter", "nat", "route"}

func baseChain(family netstate.Family, w []string) ([]byte, error) {
	hooks := hooks
	if family == netstate.ARPFamily {
		hooks = arpHooks
	}
	if len(w) != 8 || !slices.Contains(baseTypes, w[1]) || w[2] != "hook" || w[4] != "priority" || w[6] != "policy" {
		return nil, errors.New("want type filter, nat or route, hook HOOK priority NUMBER; policy VERDICT;")
	}
	hook, known := hooks[w[3]]
	known = known && (w[1] != "route" || w[3] == "output")
	priority, err := strconv.ParseInt(strings.TrimSuffix(w[5], ";"), 10, 32)
	policy, isPolicy := map[string]uint32{"accept;": 1, "drop;": 0}[w[7]]
	if !known || err != nil || !isPolicy {
		return nil, fmt.Errorf("hook %s, priority %s or policy %s is unknown", w[3], w[5], w[7])
	}
	return join(nestAttrs(unix.NFTA_CHAIN_HOOK,
		attr(unix.NFTA_HOOK_HOOKNUM, be32(hook)), attr(unix.NFTA_HOOK_PRIORITY, be32(uint32(priority)))), [][]byte{
		attr(unix.NFTA_CHAIN_POLICY, be32(policy)), attr(unix.NFTA_CHAIN_TYPE, text(w[1])),
	}), nil
}

// parser compiles one rule.
type parser struct {
	words []string
	out   []byte
	ether string // the matched ethertype: it decides which other headers may be read
	l4    string // the matched protocol behind IP
	ended bool   // by what replaces the verdict
	sets  setNumbers
	// meters are those of the table so far.
	meters *[]compiledSet
}

func rule(family netstate.Family, words []string, numbers setNumbers, meters *[]compiledSet) ([]byte, error) {
	p := &parser{words: words, sets: numbers, meters: meters}
	p.ether = map[netstate.Family]string{netstate.ARPFamily: "arp", netstate.IP6Family: "ip6"}[family]
	for len(p.words) > 0 {
		switch w := p.next(); w {
		case "accept", "drop", "return", "goto", "jump":
			if err := p.verdict(w); err != nil {
				return nil, err
			}
			if len(p.words) > 0 {
				return nil, fmt.Errorf("%q follows the verdict", p.words[0])
			}
			return p.out, nil
		case "notrack", "masquerade":
			if len(p.words) > 0 {
				return nil, fmt.Errorf("%q follows %s", p.words[0], w)
			}
			p.load(map[string]string{"notrack": "notrack", "masquerade": "masq"}[w])
			return p.out, nil
		case "log":
			return p.out, p.log()
		case "counter":
			p.counter()
		case "ct":
			if err := p.ct(); err != nil {
				return nil, err
			}
			if p.ended && len(p.words) > 0 {
				return nil, fmt.Errorf("%q follows the zone or map", p.words[0])
			}
		case "meta":
			if end, err := p.meta(); end || err != nil {
				return p.out, err
			}
		default:
			if err := p.match(w); err != nil {
				return nil, err
			}
			if p.ended && len(p.words) > 0 {
				return nil, fmt.Errorf("%q follows the map", p.words[0])
			}
		}
	}
	if p.ended {
		return p.out, nil
	}
	return nil, errors.New("no verdict")
}

func (p *parser) next() string {
	if len(p.words) == 0 {
		return ""
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

// field is a part of a header: its base, offset and length in bytes.
type field struct{ base, offset, length uint32 }

// The fields by their names. Those of ARP and IP require a match of the ethertype before them.
var fields = map[string]field{
	"ether daddr":     {unix.NFT_PAYLOAD_LL_HEADER, 0, 6},
	"ether saddr":     {unix.NFT_PAYLOAD_LL_HEADER, 6, 6},
	"ether type":      {unix.NFT_PAYLOAD_LL_HEADER, 12, 2},
	"vlan id":         {unix.NFT_PAYLOAD_LL_HEADER, 14, 2},
	"vlan type":       {unix.NFT_PAYLOAD_LL_HEADER, 16, 2},
	"ip protocol":     {unix.NFT_PAYLOAD_NETWORK_HEADER, 9, 1},
	"ip saddr":        {unix.NFT_PAYLOAD_NETWORK_HEADER, 12, 4},
	"ip daddr":        {unix.NFT_PAYLOAD_NETWORK_HEADER, 16, 4},
	"arp htype":       {unix.NFT_PAYLOAD_NETWORK_HEADER, 0, 2},
	"arp ptype":       {unix.NFT_PAYLOAD_NETWORK_HEADER, 2, 2},
	"arp hlen":        {unix.NFT_PAYLOAD_NETWORK_HEADER, 4, 1},
	"arp plen":        {unix.NFT_PAYLOAD_NETWORK_HEADER, 5, 1},
	"arp saddr ether": {unix.NFT_PAYLOAD_NETWORK_HEADER, 8, 6},
	"arp saddr ip":    {unix.NFT_PAYLOAD_NETWORK_HEADER, 14, 4},
	"arp daddr ip":    {unix.NFT_PAYLOAD_NETWORK_HEADER, 24, 4},
	"udp sport":       {unix.NFT_PAYLOAD_TRANSPORT_HEADER, 0, 2},
	"udp dport":       {unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2},
	"tcp sport":       {unix.NFT_PAYLOAD_TRANSPORT_HEADER, 0, 2},
	"tcp dport":       {unix.NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2},
	"ip6 length":      {unix.NFT_PAYLOAD_NETWORK_HEADER, 4, 2},
	"ip6 nexthdr":     {unix.NFT_PAYLOAD_NETWORK_HEADER, 6, 1},
	"ip6 hoplimit":    {unix.NFT_PAYLOAD_NETWORK_HEADER, 7, 1},
	"ip6 saddr":       {unix.NFT_PAYLOAD_NETWORK_HEADER, 8, 16},
	"ip6 daddr":       {unix.NFT_PAYLOAD_NETWORK_HEADER, 24, 16},
	"icmpv6 type":     {unix.NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1},
}

var etherTypes = map[string]uint16{"ip": unix.ETH_P_IP, "arp": unix.ETH_P_ARP, "ip6": unix.ETH_P_IPV6,
	"lldp": unix.ETH_P_LLDP, "vlan": unix.ETH_P_8021Q}

// others are the matches that are of no header, by their first words.
var others = map[string]func(*parser) error{"limit": (*parser).limit, "meter": (*parser).meter,
	"rt": (*parser).matchNextHop, "match-set": (*parser).matchSet, "physdev": (*parser).bridgePort}

func (p *parser) match(w string) error {
	if key, ok := interfaces[w]; ok {
		return p.interfaceName(key)
	}
	switch {
	case strings.HasPrefix(w, "@"):
		return p.raw(w)
	case w == "tcp" && len(p.words) > 0 && p.words[0] == "flags":
		return p.tcpFlags()
	case w == "tcp" && len(p.words) > 0 && p.words[0] == "option":
		return p.maxSegment()
	}
	if other, known := others[w]; known {
		return other(p)
	}
	name, f, err := p.field(w)
	if err != nil {
		return err
	}
	p.protocol(w)
	mask, err := p.mask(f)
	if err != nil {
		return err
	}
	op, v := p.operator()
	if op != unix.NFT_CMP_EQ && op != unix.NFT_CMP_NEQ && f.base != unix.NFT_PAYLOAD_TRANSPORT_HEADER {
		return fmt.Errorf("match %q has no order", name)
	}
	if strings.HasPrefix(v, "@") {
		if f.length != 4 && f.length != 16 || f.base != unix.NFT_PAYLOAD_NETWORK_HEADER {
			return fmt.Errorf("match %q is of no set", name)
		}
		p.payload(f)
		p.and(mask)
		return p.lookup(op, v)
	}
	if mask != nil {
		return fmt.Errorf("match %q with a mask is of a set", name)
	}
	if strings.Contains(v, "/") {
		return p.prefix(name, f, op, v)
	}
	data, err := value(name, v, f)
	if err != nil {
		return err
	}
	if (name == "ether type" || name == "vlan type") && op == unix.NFT_CMP_EQ {
		p.ether = v
	}
	p.payload(f)
	if name == "vlan id" { // beside it are the priority and a flag (IEEE 802.1Q §9.6)
		p.and([]byte{0x0f, 0xff})
	}
	p.compare(op, data)
	return nil
}

// field reads the name of a part of a header.
func (p *parser) field(w string) (name string, f field, err error) {
	name = w + " " + p.next()
	if name == "arp saddr" || name == "arp daddr" {
		name += " " + p.next()
	}
	f, known := fields[name]
	if !known {
		return "", f, fmt.Errorf("match %q is unknown", name)
	}
	if need := headers[w]; need != "" && !strings.Contains(need, " "+p.ether+" ") {
		return "", f, fmt.Errorf("match %q without ether type%sbefore it", name, need)
	}
	return name, f, nil
}

// headers are the ethertypes of the packets that have a header.
var headers = map[string]string{"ip": " ip ", "arp": " arp ", "ip6": " ip6 ", "vlan": " vlan ", "icmpv6": " ip6 ",
	"udp": " ip ip6 ", "tcp": " ip ip6 "}

// protocols are those with fields.
var protocols = map[string]byte{"udp": unix.IPPROTO_UDP, "tcp": unix.IPPROTO_TCP, "icmpv6": unix.IPPROTO_ICMPV6}

// protocol matches the protocol of a field behind IP, once.
func (p *parser) protocol(w string) {
	if number, has := protocols[w]; has && p.l4 != w {
		p.l4 = w
		p.meta1(unix.NFT_META_L4PROTO)
		p.compare(unix.NFT_CMP_EQ, []byte{number})
	}
}

// payload loads a part of a header into register 1.
func (p *parser) payload(f field) {
	p.load("payload", attr(unix.NFTA_PAYLOAD_DREG, be32(unix.NFT_REG_1)), attr(unix.NFTA_PAYLOAD_BASE, be32(f.base)),
		attr(unix.NFTA_PAYLOAD_OFFSET, be32(f.offset)), attr(unix.NFTA_PAYLOAD_LEN, be32(f.length)))
}

// interfaces are the matches of a packet's incoming and outgoing link.
var interfaces = map[string]uint32{"iifname": unix.NFT_META_IIFNAME, "oifname": unix.NFT_META_OIFNAME}

// operators are the comparisons that have a word; equality needs none.
var operators = map[string]uint32{"==": unix.NFT_CMP_EQ, "!=": unix.NFT_CMP_NEQ, ">": unix.NFT_CMP_GT,
	">=": unix.NFT_CMP_GTE, "<": unix.NFT_CMP_LT, "<=": unix.NFT_CMP_LTE}

// operator reads the value that a match compares with, and how.
func (p *parser) operator() (op uint32, v string) {
	v = p.next()
	if op, ok := operators[v]; ok {
		return op, p.next()
	}
	return unix.NFT_CMP_EQ, v
}

// interfaceName compares the complete name or the part before a "*", or looks the name up in a set or map.
func (p *parser) interfaceName(key uint32) error {
	op, quoted := p.operator()
	switch {
	case op == unix.NFT_CMP_GT || op == unix.NFT_CMP_LTE:
		return errors.New("names of links have no order but >= and <")
	case quoted == "vmap":
		p.meta1(key)
		return p.verdictMap(op)
	case strings.HasPrefix(quoted, "@"):
		p.meta1(key)
		return p.lookup(op, quoted)
	}
	data, err := interfaceKey(quoted)
	if err != nil {
		return err
	}
	if prefix, ok := bytes.CutSuffix(bytes.TrimRight(data, "\x00"), []byte("*")); ok {
		data = prefix
	}
	p.meta1(key)
	p.compare(op, data)
	return nil
}

// meta1 loads a property of the packet into register 1.
func (p *parser) meta1(key uint32) {
	p.load("meta", attr(unix.NFTA_META_KEY, be32(key)), attr(unix.NFTA_META_DREG, be32(unix.NFT_REG_1)))
}

// load adds an expression.
func (p *parser) load(name string, attrs ...[]byte) {
	parts := [][]byte{attr(unix.NFTA_EXPR_NAME, text(name))}
	if len(attrs) > 0 {
		parts = append(parts, nestAttrs(unix.NFTA_EXPR_DATA, attrs...))
	}
	p.out = append(p.out, nestAttrs(unix.NFTA_LIST_ELEM, parts...)...)
}

// compare ends the rule unless register 1 is equal, or not equal, to data.
func (p *parser) compare(op uint32, data []byte) {
	p.load("cmp", attr(unix.NFTA_CMP_SREG, be32(unix.NFT_REG_1)), attr(unix.NFTA_CMP_OP, be32(op)),
		nestAttrs(unix.NFTA_CMP_DATA, attr(unix.NFTA_DATA_VALUE, data)))
}
