package nft

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
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
	chains []compiled
}

// compile compiles the lines between the braces of a table:
//
//	set NAME {
//	type ipv4_addr; flags interval;
//	elements = { 10.1.0.0/24 }
//	}
//	chain NAME {
//	type filter hook prerouting priority -300; policy accept;
//	MATCH … VERDICT
//	}
//
// parser.match has the matches; a verdict is accept, drop, goto CHAIN or jump CHAIN. "meta mark set meta mark & MASK"
// or "notrack" may replace the verdict.
func compile(family netstate.Family, lines []string) (body, error) {
	const inChain, inSet = "chain", "set"
	b, open := body{}, ""
	for _, line := range lines {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "chain" && len(words) == 3 && words[2] == "{" && open == "":
			b.chains, open = append(b.chains, compiled{name: words[1]}), inChain
		case words[0] == "set" && len(words) == 3 && words[2] == "{" && open == "":
			b.sets, open = append(b.sets, compiledSet{name: words[1]}), inSet
		case line == "}" && open != "":
			open = ""
		case open == "":
			return b, fmt.Errorf("%q: outside of a chain", line)
		case open == inSet:
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
			r, err := rule(family, words)
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

// The hooks of the families bridge (linux/netfilter_bridge.h) and inet, which have the same numbers, and of arp
// (linux/netfilter_arp.h).
var (
	hooks    = map[string]uint32{"prerouting": 0, "input": 1, "forward": 2, "output": 3, "postrouting": 4}
	arpHooks = map[string]uint32{"input": 0, "output": 1}
)

func baseChain(family netstate.Family, w []string) ([]byte, error) {
	hooks := hooks
	if family == netstate.ARPFamily {
		hooks = arpHooks
	}
	if len(w) != 8 || w[1] != "filter" || w[2] != "hook" || w[4] != "priority" || w[6] != "policy" {
		return nil, errors.New("want type filter hook HOOK priority NUMBER; policy VERDICT;")
	}
	hook, known := hooks[w[3]]
	priority, err := strconv.ParseInt(strings.TrimSuffix(w[5], ";"), 10, 32)
	policy, judged := map[string]uint32{"accept;": 1, "drop;": 0}[w[7]]
	if !known || err != nil || !judged {
		return nil, fmt.Errorf("hook %s, priority %s or policy %s is unknown", w[3], w[5], w[7])
	}
	return join(nestAttrs(unix.NFTA_CHAIN_HOOK,
		attr(unix.NFTA_HOOK_HOOKNUM, be32(hook)), attr(unix.NFTA_HOOK_PRIORITY, be32(uint32(priority)))), [][]byte{
		attr(unix.NFTA_CHAIN_POLICY, be32(policy)), attr(unix.NFTA_CHAIN_TYPE, text("filter")),
	}), nil
}

// parser compiles one rule.
type parser struct {
	words []string
	out   []byte
	ether string // the matched ethertype: it decides which other headers may be read
	udp   bool
}

func rule(family netstate.Family, words []string) ([]byte, error) {
	p := &parser{words: words}
	if family == netstate.ARPFamily {
		p.ether = "arp"
	}
	for len(p.words) > 0 {
		switch w := p.next(); w {
		case "accept", "drop", "goto", "jump":
			if err := p.verdict(w); err != nil {
				return nil, err
			}
			if len(p.words) > 0 {
				return nil, fmt.Errorf("%q follows the verdict", p.words[0])
			}
			return p.out, nil
		case "notrack":
			if len(p.words) > 0 {
				return nil, fmt.Errorf("%q follows notrack", p.words[0])
			}
			p.load("notrack")
			return p.out, nil
		case "ct":
			if err := p.ct(); err != nil {
				return nil, err
			}
		case "meta":
			if end, err := p.meta(); end || err != nil {
				return p.out, err
			}
		default:
			if err := p.match(w); err != nil {
				return nil, err
			}
		}
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

// The fields by their names. ARP and IPv4 fields require a match of the ethertype before them.
var fields = map[string]field{
	"ether saddr":     {unix.NFT_PAYLOAD_LL_HEADER, 6, 6},
	"ether type":      {unix.NFT_PAYLOAD_LL_HEADER, 12, 2},
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
}

var etherTypes = map[string]uint16{"ip": unix.ETH_P_IP, "arp": unix.ETH_P_ARP, "ip6": unix.ETH_P_IPV6}

func (p *parser) match(w string) error {
	if key, is := interfaces[w]; is {
		return p.interfaceName(key)
	}
	switch {
	case strings.HasPrefix(w, "@"):
		return p.raw(w, p.next())
	case w == "limit":
		return p.limit()
	}
	name := w + " " + p.next()
	if name == "arp saddr" || name == "arp daddr" {
		name += " " + p.next()
	}
	f, known := fields[name]
	if !known {
		return fmt.Errorf("match %q is unknown", name)
	}
	if need := map[string]string{"ip": "ip", "udp": "ip", "arp": "arp"}[w]; need != "" && p.ether != need {
		return fmt.Errorf("match %q without ether type %s before it", name, need)
	}
	if w == "udp" && !p.udp {
		p.udp = true
		p.load("meta", attr(unix.NFTA_META_KEY, be32(unix.NFT_META_L4PROTO)), attr(unix.NFTA_META_DREG, be32(unix.NFT_REG_1)))
		p.compare(unix.NFT_CMP_EQ, []byte{unix.IPPROTO_UDP})
	}
	op, v := p.operator()
	if strings.HasPrefix(v, "@") {
		if f.length != 4 || f.base != unix.NFT_PAYLOAD_NETWORK_HEADER {
			return fmt.Errorf("match %q is of no set", name)
		}
		p.payload(f)
		return p.lookup(op, v)
	}
	data, err := value(name, v, f)
	if err != nil {
		return err
	}
	if name == "ether type" && op == unix.NFT_CMP_EQ {
		p.ether = v
	}
	p.payload(f)
	p.compare(op, data)
	return nil
}

// raw compares bytes after the UDP ports: "@th,OFFSET,LENGTH" in bits, and a number. It requires a match of a port
// before it, which makes sure that the packet is UDP.
func (p *parser) raw(word, v string) error {
	var offset, length uint32
	if n, err := fmt.Sscanf(word, "@th,%d,%d", &offset, &length); n != 2 || err != nil ||
		word != fmt.Sprintf("@th,%d,%d", offset, length) {
		return fmt.Errorf("match %q is unknown", word)
	}
	if !p.udp {
		return fmt.Errorf("match %q without a port of udp before it", word)
	}
	n, err := strconv.ParseUint(v, 0, 64)
	if offset%8 != 0 || length%8 != 0 || length == 0 || length > 128 || err != nil || n>>(length-1)>>1 != 0 {
		return fmt.Errorf("match %q has no value %q", word, v)
	}
	p.payload(field{unix.NFT_PAYLOAD_TRANSPORT_HEADER, offset / 8, length / 8})
	p.compare(unix.NFT_CMP_EQ, binary.BigEndian.AppendUint64(make([]byte, 8), n)[16-length/8:])
	return nil
}

// limit matches packets above a rate: "limit rate over N/second burst N packets".
func (p *parser) limit() error {
	words := p.words[:min(len(p.words), 6)]
	p.words = p.words[len(words):]
	text := strings.Join(words, " ")
	var rate, burst uint32
	n, err := fmt.Sscanf(text, "rate over %d/second burst %d packets", &rate, &burst)
	if n != 2 || err != nil || text != fmt.Sprintf("rate over %d/second burst %d packets", rate, burst) || rate == 0 {
		return fmt.Errorf("limit %q: want rate over NUMBER/second burst NUMBER packets", text)
	}
	be64 := func(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }
	p.load("limit", attr(unix.NFTA_LIMIT_RATE, be64(uint64(rate))), attr(unix.NFTA_LIMIT_UNIT, be64(1)),
		attr(unix.NFTA_LIMIT_BURST, be32(burst)), attr(unix.NFTA_LIMIT_TYPE, be32(unix.NFT_LIMIT_PKTS)),
		attr(unix.NFTA_LIMIT_FLAGS, be32(unix.NFT_LIMIT_F_INV)))
	return nil
}

// payload loads a part of a header into register 1.
func (p *parser) payload(f field) {
	p.load("payload", attr(unix.NFTA_PAYLOAD_DREG, be32(unix.NFT_REG_1)), attr(unix.NFTA_PAYLOAD_BASE, be32(f.base)),
		attr(unix.NFTA_PAYLOAD_OFFSET, be32(f.offset)), attr(unix.NFTA_PAYLOAD_LEN, be32(f.length)))
}

// interfaces are the matches of a packet's incoming and outgoing link.
var interfaces = map[string]uint32{"iifname": unix.NFT_META_IIFNAME, "oifname": unix.NFT_META_OIFNAME}

// operator reads the value that a match compares with, and whether they must differ.
func (p *parser) operator() (op uint32, v string) {
	if v = p.next(); v == "!=" {
		return unix.NFT_CMP_NEQ, p.next()
	}
	return unix.NFT_CMP_EQ, v
}

// interfaceName compares the complete name or the part before a "*", or looks the name up in a set.
func (p *parser) interfaceName(key uint32) error {
	op, quoted := p.operator()
	load := func() {
		p.load("meta", attr(unix.NFTA_META_KEY, be32(key)), attr(unix.NFTA_META_DREG, be32(unix.NFT_REG_1)))
	}
	if strings.HasPrefix(quoted, "@") {
		load()
		return p.lookup(op, quoted)
	}
	name, err := strconv.Unquote(quoted)
	if err != nil || name == "" || len(name) >= unix.IFNAMSIZ {
		return fmt.Errorf("interface %s: want a quoted name of 1 to 15 bytes", quoted)
	}
	data := make([]byte, unix.IFNAMSIZ)
	copy(data, name)
	if prefix, ok := strings.CutSuffix(name, "*"); ok {
		data = []byte(prefix)
	}
	load()
	p.compare(op, data)
	return nil
}

// value returns the value that a field is compared with, in network order.
func value(name, v string, f field) ([]byte, error) {
	switch {
	case name == "ether type" && etherTypes[v] != 0:
		return binary.BigEndian.AppendUint16(nil, etherTypes[v]), nil
	case name == "arp ptype" && v == "ip":
		return binary.BigEndian.AppendUint16(nil, unix.ETH_P_IP), nil
	case f.length == 6:
		if mac, err := net.ParseMAC(v); err == nil && len(mac) == 6 {
			return mac, nil
		}
	case f.length == 4:
		if ip, err := netip.ParseAddr(v); err == nil && ip.Is4() {
			return ip.AsSlice(), nil
		}
	default:
		if n, err := strconv.ParseUint(v, 0, int(8*f.length)); err == nil {
			return bytes.Clone(binary.BigEndian.AppendUint32(nil, uint32(n))[4-f.length:]), nil
		}
	}
	return nil, fmt.Errorf("match %q has no value %q", name, v)
}

func (p *parser) verdict(w string) error {
	code, target := uint32(1), []byte(nil) // NF_ACCEPT
	switch w {
	case "drop":
		code = 0 // NF_DROP
	case "goto", "jump":
		name := p.next()
		if name == "" {
			return fmt.Errorf("%s names no chain", w)
		}
		c := int32(unix.NFT_GOTO)
		if w == "jump" {
			c = unix.NFT_JUMP
		}
		code, target = uint32(c), attr(unix.NFTA_VERDICT_CHAIN, text(name))
	}
	p.load("immediate", attr(unix.NFTA_IMMEDIATE_DREG, be32(unix.NFT_REG_VERDICT)), nestAttrs(unix.NFTA_IMMEDIATE_DATA,
		nestAttrs(unix.NFTA_DATA_VERDICT, attr(unix.NFTA_VERDICT_CODE, be32(code)), target)))
	return nil
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
