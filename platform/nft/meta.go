package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// meta compiles the words after "meta": a match of the family or the mark, or a statement that sets the mark. A rule
// may end with one that removes bits.
//
//	meta nfproto ipv4 (or ipv6)
//	meta l4proto NUMBER
//	meta iifkind "bridge"
//	meta random < NUMBER
//	meta mark & MASK == VALUE
//	meta mark set meta mark & MASK
//	meta mark set meta mark & MASK | BITS
//	meta mark set meta mark | BITS
func (p *parser) meta() (end bool, err error) {
	switch what := p.next(); what {
	case "nfproto":
		v := p.next()
		number, known := map[string]byte{"ipv4": unix.NFPROTO_IPV4, "ipv6": unix.NFPROTO_IPV6}[v]
		if !known {
			return false, fmt.Errorf("meta nfproto %s is unknown", v)
		}
		p.meta1(unix.NFT_META_NFPROTO)
		p.compare(unix.NFT_CMP_EQ, []byte{number})
		p.ether = map[string]string{"ipv4": "ip", "ipv6": "ip6"}[v]
		return false, nil
	case "l4proto":
		op, v := p.operator()
		n, err := strconv.ParseUint(v, 10, 8)
		if err != nil || op != unix.NFT_CMP_EQ && op != unix.NFT_CMP_NEQ {
			return false, fmt.Errorf("meta l4proto %s: want a number of 0 to 255, or != before it", v)
		}
		p.meta1(unix.NFT_META_L4PROTO)
		p.compare(op, []byte{byte(n)})
		return false, nil
	case "iifkind":
		return false, p.linkKind()
	case "random":
		return false, p.random()
	case "mark":
		return p.mark()
	default:
		return false, fmt.Errorf("meta %s is unknown", what)
	}
}

// metaIIFKind is NFT_META_IIFKIND (linux/netfilter/nf_tables.h), which x/sys lacks: the kind of a link, in 16 bytes.
const metaIIFKind = 26

// random compares 32 random bits, which mean the same in any byte order.
func (p *parser) random() error {
	operator := p.next()
	n, err := strconv.ParseUint(p.next(), 0, 32)
	if operator != "<" || err != nil {
		return errors.New("want meta random < NUMBER of 32 bits")
	}
	p.meta1(unix.NFT_META_PRANDOM)
	p.compare(unix.NFT_CMP_LT, be32(uint32(n)))
	return nil
}

func (p *parser) linkKind() error {
	quoted := p.next()
	kind, err := strconv.Unquote(quoted)
	if err != nil || kind == "" || len(kind) >= unix.IFNAMSIZ {
		return fmt.Errorf("kind of link %s: want a quoted word of 1 to 15 bytes", quoted)
	}
	value := make([]byte, unix.IFNAMSIZ)
	copy(value, kind)
	p.meta1(metaIIFKind)
	p.compare(unix.NFT_CMP_EQ, value)
	return nil
}

func (p *parser) mark() (end bool, err error) {
	set := false
	if len(p.words) > 2 && p.words[0] == "set" && p.words[1] == "meta" && p.words[2] == "mark" {
		p.words, set = p.words[3:], true
	}
	operator := p.next()
	if set && operator == "|" {
		return false, p.addMark()
	}
	if operator != "&" {
		return false, errors.New("meta mark without a mask")
	}
	mask, err := p.number()
	if err != nil {
		return false, err
	}
	replaces, bits := set && len(p.words) > 0 && p.words[0] == "|", host32(0)
	if replaces {
		p.next()
		if bits, err = p.number(); err != nil {
			return false, err
		}
	}
	p.meta1(unix.NFT_META_MARK)
	p.load("bitwise", attr(unix.NFTA_BITWISE_SREG, be32(unix.NFT_REG_1)),
		attr(unix.NFTA_BITWISE_DREG, be32(unix.NFT_REG_1)),
		attr(unix.NFTA_BITWISE_LEN, be32(4)), data(unix.NFTA_BITWISE_MASK, mask), data(unix.NFTA_BITWISE_XOR, bits))
	if replaces {
		p.setMark()
		return len(p.words) == 0, nil
	}
	if set {
		p.setMark()
		return len(p.words) == 0, nil
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

// addMark sets bits of the mark.
func (p *parser) addMark() error {
	bits, err := p.number()
	if err != nil {
		return err
	}
	others := host32(^binary.NativeEndian.Uint32(bits))
	p.meta1(unix.NFT_META_MARK)
	p.load("bitwise", attr(unix.NFTA_BITWISE_SREG, be32(unix.NFT_REG_1)),
		attr(unix.NFTA_BITWISE_DREG, be32(unix.NFT_REG_1)),
		attr(unix.NFTA_BITWISE_LEN, be32(4)), data(unix.NFTA_BITWISE_MASK, others), data(unix.NFTA_BITWISE_XOR, bits))
	p.setMark()
	return nil
}

func (p *parser) setMark() {
	p.load("meta", attr(unix.NFTA_META_KEY, be32(unix.NFT_META_MARK)), attr(unix.NFTA_META_SREG, be32(unix.NFT_REG_1)))
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
