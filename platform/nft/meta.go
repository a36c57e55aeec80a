package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// meta compiles the words after "meta": a match of the family or the mark, or the statement that sets the mark and
// ends the rule.
//
//	meta nfproto ipv4
//	meta iifkind "bridge"
//	meta mark & MASK == VALUE
//	meta mark set meta mark & MASK
func (p *parser) meta() (end bool, err error) {
	switch what := p.next(); what {
	case "nfproto":
		if v := p.next(); v != "ipv4" {
			return false, fmt.Errorf("meta nfproto %s is unknown", v)
		}
		p.load("meta", attr(unix.NFTA_META_KEY, be32(unix.NFT_META_NFPROTO)), attr(unix.NFTA_META_DREG, be32(unix.NFT_REG_1)))
		p.compare(unix.NFT_CMP_EQ, []byte{unix.NFPROTO_IPV4})
		p.ether = "ip"
		return false, nil
	case "iifkind":
		return false, p.linkKind()
	case "mark":
		return p.mark()
	default:
		return false, fmt.Errorf("meta %s is unknown", what)
	}
}

// metaIIFKind is NFT_META_IIFKIND (linux/netfilter/nf_tables.h), which x/sys lacks: the kind of a link, in 16 bytes.
const metaIIFKind = 26

func (p *parser) linkKind() error {
	quoted := p.next()
	kind, err := strconv.Unquote(quoted)
	if err != nil || kind == "" || len(kind) >= unix.IFNAMSIZ {
		return fmt.Errorf("kind of link %s: want a quoted word of 1 to 15 bytes", quoted)
	}
	value := make([]byte, unix.IFNAMSIZ)
	copy(value, kind)
	p.load("meta", attr(unix.NFTA_META_KEY, be32(metaIIFKind)), attr(unix.NFTA_META_DREG, be32(unix.NFT_REG_1)))
	p.compare(unix.NFT_CMP_EQ, value)
	return nil
}

func (p *parser) mark() (end bool, err error) {
	set := false
	if len(p.words) > 2 && p.words[0] == "set" && p.words[1] == "meta" && p.words[2] == "mark" {
		p.words, set = p.words[3:], true
	}
	if p.next() != "&" {
		return false, errors.New("meta mark without a mask")
	}
	mask, err := p.number()
	if err != nil {
		return false, err
	}
	p.load("meta", attr(unix.NFTA_META_KEY, be32(unix.NFT_META_MARK)), attr(unix.NFTA_META_DREG, be32(unix.NFT_REG_1)))
	p.load("bitwise", attr(unix.NFTA_BITWISE_SREG, be32(unix.NFT_REG_1)),
		attr(unix.NFTA_BITWISE_DREG, be32(unix.NFT_REG_1)),
		attr(unix.NFTA_BITWISE_LEN, be32(4)), data(unix.NFTA_BITWISE_MASK, mask), data(unix.NFTA_BITWISE_XOR, host32(0)))
	if set {
		if len(p.words) > 0 {
			return false, fmt.Errorf("%q follows the mark that is set", p.words[0])
		}
		p.load("meta", attr(unix.NFTA_META_KEY, be32(unix.NFT_META_MARK)), attr(unix.NFTA_META_SREG, be32(unix.NFT_REG_1)))
		return true, nil
	}
	if p.next() != "==" {
		return false, errors.New("meta mark is compared with nothing")
	}
	want, err := p.number()
	if err != nil {
		return false, err
	}
	p.compare(unix.NFT_CMP_EQ, want)
	return false, nil
}

// Parts of the kernel's connection entry (linux/netfilter/nf_conntrack_common.h).
const (
	statusSrcNAT   = 1 << 4 // IPS_SRC_NAT
	directionReply = 1      // IP_CT_DIR_REPLY
)

// ct compiles the words after "ct", which match no packet without a connection entry:
//
//	ct status snat
//	ct direction reply
func (p *parser) ct() error {
	key := uint32(unix.NFT_CT_STATUS)
	what := p.next() + " " + p.next()
	switch what {
	case "status snat":
	case "direction reply":
		key = unix.NFT_CT_DIRECTION
	default:
		return fmt.Errorf("ct %s is unknown", what)
	}
	p.load("ct", attr(unix.NFTA_CT_KEY, be32(key)), attr(unix.NFTA_CT_DREG, be32(unix.NFT_REG_1)))
	if key == unix.NFT_CT_DIRECTION {
		p.compare(unix.NFT_CMP_EQ, []byte{directionReply})
		return nil
	}
	p.load("bitwise", attr(unix.NFTA_BITWISE_SREG, be32(unix.NFT_REG_1)),
		attr(unix.NFTA_BITWISE_DREG, be32(unix.NFT_REG_1)),
		attr(unix.NFTA_BITWISE_LEN, be32(4)), data(unix.NFTA_BITWISE_MASK, host32(statusSrcNAT)),
		data(unix.NFTA_BITWISE_XOR, host32(0)))
	p.compare(unix.NFT_CMP_NEQ, host32(0))
	return nil
}

// number reads the next word as a register value, in host order.
func (p *parser) number() ([]byte, error) {
	w := p.next()
	n, err := strconv.ParseUint(w, 0, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is no number of 32 bits", w)
	}
	return host32(uint32(n)), nil
}

func host32(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }

func data(kind uint16, v []byte) []byte { return nestAttrs(kind, attr(unix.NFTA_DATA_VALUE, v)) }
