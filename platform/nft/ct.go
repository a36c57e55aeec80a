package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Parts of the kernel's connection entry (linux/netfilter/nf_conntrack_common.h).
var (
	ctStates = map[string]uint32{
		"invalid":     1 << 0, // NF_CT_STATE_INVALID_BIT
		"established": 1 << 1, // NF_CT_STATE_BIT(IP_CT_ESTABLISHED)
		"related":     1 << 2,
		"new":         1 << 3,
		"untracked":   1 << 6, // NF_CT_STATE_UNTRACKED_BIT
	}
	ctStatuses = map[string]uint32{
		"confirmed": 1 << 3, // IPS_CONFIRMED
		"snat":      1 << 4, // IPS_SRC_NAT
		"dnat":      1 << 5, // IPS_DST_NAT
	}
	ctDirections = map[string]byte{"original": 0, "reply": 1}
)

// ct compiles the words after "ct", which match no packet without a connection entry; only a state matches one:
//
//	ct state established,related     one of these states
//	ct status snat                   one of these bits
//	ct status & snat == 0            none of these bits
//	ct direction reply
//	ct reply ip daddr ADDRESS        or ip6; a flow of the other family does not match
//	ct count over NUMBER
//	ct zone set NUMBER
//	ct original zone set NUMBER      in the original direction alone
//	ct original zone != NUMBER       or without !=; also ct reply zone
//	ct original zone vmap @MAP
func (p *parser) ct() error {
	switch what := p.next(); what {
	case "state":
		return p.ctBits(unix.NFT_CT_STATE, ctStates)
	case "status":
		return p.ctBits(unix.NFT_CT_STATUS, ctStatuses)
	case "direction":
		w := p.next()
		direction, known := ctDirections[w]
		if !known {
			return fmt.Errorf("ct direction %s is unknown", w)
		}
		p.loadCT(unix.NFT_CT_DIRECTION)
		p.compare(unix.NFT_CMP_EQ, []byte{direction})
		return nil
	case "original", "reply":
		if len(p.words) > 0 && p.words[0] == "zone" {
			p.next()
			return p.zoneOf(ctDirections[what])
		} else if what == "reply" {
			return p.replyDestination()
		}
		return fmt.Errorf("ct original %s is unknown", p.next())
	case "count":
		return p.count()
	case "zone":
		return p.setZone(nil)
	default:
		return fmt.Errorf("ct %s is unknown", what)
	}
}

func (p *parser) loadCT(key uint32) {
	p.load("ct", attr(unix.NFTA_CT_KEY, be32(key)), attr(unix.NFTA_CT_DREG, be32(unix.NFT_REG_1)))
}

// replyDestination compares the address to which the replies of the packet's flow are sent.
func (p *parser) replyDestination() error {
	field := p.next() + " " + p.next()
	a, err := netip.ParseAddr(p.next())
	key, known := map[string]uint32{"ip daddr": unix.NFT_CT_DST_IP, "ip6 daddr": unix.NFT_CT_DST_IP6}[field]
	if !known || err != nil || a.Is6() != (key == unix.NFT_CT_DST_IP6) || a.Zone() != "" {
		return errors.New("want ct reply ip daddr ADDRESS, or ip6")
	}
	p.load("ct", attr(unix.NFTA_CT_KEY, be32(key)),
		attr(unix.NFTA_CT_DIRECTION, []byte{ctDirections["reply"]}), attr(unix.NFTA_CT_DREG, be32(unix.NFT_REG_1)))
	p.compare(unix.NFT_CMP_EQ, a.AsSlice())
	return nil
}

// ctBits matches a connection entry with one of the named bits, or with none of them.
func (p *parser) ctBits(key uint32, known map[string]uint32) error {
	w, none := p.next(), false
	if w == "&" {
		w, none = p.next(), true
	}
	bits := uint32(0)
	for name := range strings.SplitSeq(w, ",") {
		if known[name] == 0 {
			return fmt.Errorf("ct bit %q is unknown", name)
		}
		bits |= known[name]
	}
	op := uint32(unix.NFT_CMP_NEQ)
	if none {
		if p.next() != "==" || p.next() != "0" {
			return fmt.Errorf("ct bits %s are compared with nothing: want == 0", w)
		}
		op = unix.NFT_CMP_EQ
	}
	p.loadCT(key)
	p.load("bitwise", attr(unix.NFTA_BITWISE_SREG, be32(unix.NFT_REG_1)),
		attr(unix.NFTA_BITWISE_DREG, be32(unix.NFT_REG_1)),
		attr(unix.NFTA_BITWISE_LEN, be32(4)), data(unix.NFTA_BITWISE_MASK, host32(bits)),
		data(unix.NFTA_BITWISE_XOR, host32(0)))
	p.compare(op, host32(0))
	return nil
}

// zoneOf puts a packet into a zone of one direction of its flow, or matches that zone.
func (p *parser) zoneOf(direction byte) error {
	dir := attr(unix.NFTA_CT_DIRECTION, []byte{direction})
	if len(p.words) > 0 && p.words[0] == "set" {
		return p.setZone(dir)
	}
	op, v := p.operator()
	n, err := strconv.ParseUint(v, 10, 16)
	if v != "vmap" && (err != nil || op != unix.NFT_CMP_EQ && op != unix.NFT_CMP_NEQ) {
		return errors.New("want a zone of 16 bits, != and one, vmap @MAP or set NUMBER")
	}
	p.load("ct", attr(unix.NFTA_CT_KEY, be32(unix.NFT_CT_ZONE)), dir, attr(unix.NFTA_CT_DREG, be32(unix.NFT_REG_1)))
	if v == "vmap" {
		return p.verdictMap(op)
	}
	p.compare(op, host16(uint16(n)))
	return nil
}

// setZone puts a packet into a zone before it is tracked, which ends the rule: one of both directions of its flow, or
// with dir of one, while the other has none.
func (p *parser) setZone(dir []byte) error {
	set := p.next()
	n, err := strconv.ParseUint(p.next(), 10, 16)
	if set != "set" || err != nil {
		return errors.New("want ct zone set NUMBER of 16 bits")
	}
	p.load("immediate", attr(unix.NFTA_IMMEDIATE_DREG, be32(unix.NFT_REG_1)),
		data(unix.NFTA_IMMEDIATE_DATA, host16(uint16(n))))
	p.load("ct", attr(unix.NFTA_CT_KEY, be32(unix.NFT_CT_ZONE)), dir, attr(unix.NFTA_CT_SREG, be32(unix.NFT_REG_1)))
	p.ended = true
	return nil
}

func host16(v uint16) []byte { return binary.NativeEndian.AppendUint16(nil, v) }
