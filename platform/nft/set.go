package nft

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// compiledSet is a set or map of a table in the kernel's form.
type compiledSet struct {
	name     string
	isMap    bool // to verdicts
	kind     setKind
	size     uint32 // most elements, 0 for any number
	elements []element
	meter    uint32 // its number, if a rule fills it; 0 for another set
}

// element is a key of a set, with its verdict in a map: an attribute.
type element struct{ key, value []byte }

// setKind is the type of a set's keys: its number in nft (datatype.h of nft's sources; the kernel only stores it for
// nft's listing) and its length.
type setKind struct{ number, length, order uint32 }

// Byte orders, which nft stores with a set for its listing (NFTNL_UDATA_SET_KEYBYTEORDER).
const (
	hostOrder = 1
	bigOrder  = 2
)

var setKinds = map[string]setKind{"ipv4_addr": {7, 4, bigOrder}, "ipv6_addr": {8, 16, bigOrder},
	"ifname": {41, unix.IFNAMSIZ, hostOrder}, "ct_zone": {4, 2, hostOrder}}

// elementsAtOnce bounds one message: an attribute has at most 65,535 bytes, and an element takes 28, one of a map with
// the longest name of a chain that edgespan writes 64.
const elementsAtOnce = 800

// setLine compiles one line between the braces of a set:
//
//	type ipv4_addr;
//	type ipv6_addr;
//	type ifname;
//	type ct_zone;
//	size NUMBER;
//	elements = { ELEMENT, ELEMENT }
//
// The type comes first. An element is an address, the quoted name of a link or the number of a
// zone, whose type nft lists as integer. A map's type is "KEY : verdict", and its
// elements are "KEY : VERDICT"; it has no addresses of IPv6, which are as long as names of links. With a size, the
// kernel makes a table that it never resizes: while it resizes one, a list of it lacks elements or has some twice.
func (s *compiledSet) setLine(line string) error {
	if list, ok := strings.CutPrefix(line, "elements = { "); ok {
		list, closed := strings.CutSuffix(list, " }")
		if !closed || s.kind.length == 0 {
			return fmt.Errorf("%q: want elements = { … } behind a type", line)
		}
		for w := range strings.SplitSeq(list, ", ") {
			e, err := s.element(w)
			if err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			s.elements = append(s.elements, e)
		}
		return nil
	}
	if size, ok := strings.CutPrefix(line, "size "); ok {
		n, err := strconv.ParseUint(strings.TrimSuffix(size, ";"), 10, 32)
		if err != nil || n == 0 || s.kind.length == 0 {
			return fmt.Errorf("%q: want size NUMBER; behind a type", line)
		}
		s.size = uint32(n)
		return nil
	}
	kind, typed := strings.CutPrefix(line, "type ")
	kind, ended := strings.CutSuffix(kind, ";")
	kind, toVerdict := strings.CutSuffix(kind, " : verdict")
	s.kind = setKinds[kind]
	if !typed || !ended || toVerdict != s.isMap || s.kind.length == 0 || s.isMap && kind == "ipv6_addr" {
		return fmt.Errorf("%q: want type ipv4_addr; ipv6_addr; or ifname; in a map with : verdict", line)
	}
	return nil
}

func (s *compiledSet) element(w string) (e element, err error) {
	w, v, valued := strings.Cut(w, " : ")
	if valued != s.isMap {
		return e, fmt.Errorf("%q: want a key, with its verdict in a map", w)
	}
	if valued {
		if e.value, err = elementValue(v); err != nil {
			return e, err
		}
	}
	if e.key, err = elementKey(w); err == nil && len(e.key) != int(s.kind.length) {
		err = fmt.Errorf("%q is of another type than the set", w)
	}
	return e, err
}

// addSet adds the message that creates a set or map of a table, without its elements.
func (b *batch) addSet(family byte, table []byte, s compiledSet) {
	flags, number, more := uint32(0), uint32(0), [][]byte{}
	// What nft needs for its listing: the byte orders of keys and values.
	orders := append([]byte{0, 4}, host32(s.kind.order)...)
	if s.isMap {
		flags |= unix.NFT_SET_MAP
		more = append(more, attr(unix.NFTA_SET_DATA_TYPE, be32(unix.NFT_DATA_VERDICT)), attr(unix.NFTA_SET_DATA_LEN, be32(0)))
		orders = append(append(orders, 1, 4), host32(0)...)
	}
	if s.size > 0 {
		more = append(more, nestAttrs(unix.NFTA_SET_DESC, attr(unix.NFTA_SET_DESC_SIZE, be32(s.size))))
	}
	if s.meter > 0 {
		flags, number = flags|unix.NFT_SET_ANONYMOUS|unix.NFT_SET_EVAL|unix.NFT_SET_TIMEOUT, s.meter
	} else {
		b.sets++
		number = b.sets
	}
	b.addTo(family, unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, append([][]byte{
		attr(unix.NFTA_SET_TABLE, table), attr(unix.NFTA_SET_NAME, text(s.name)), attr(unix.NFTA_SET_FLAGS, be32(flags)),
		attr(unix.NFTA_SET_KEY_TYPE, be32(s.kind.number)), attr(unix.NFTA_SET_KEY_LEN, be32(s.kind.length)),
		attr(unix.NFTA_SET_ID, be32(number)), attr(unix.NFTA_SET_USERDATA, orders),
	}, more...)...)
}

// addElements adds the messages that add elements to a set, or delete them from it.
func (b *batch) addElements(family byte, table []byte, set string, kind int, elements []element) {
	flags := 0
	if kind == unix.NFT_MSG_NEWSETELEM {
		flags = unix.NLM_F_CREATE
	}
	for some := range slices.Chunk(elements, elementsAtOnce) {
		var list [][]byte
		for _, e := range some {
			parts := [][]byte{data(unix.NFTA_SET_ELEM_KEY, e.key)}
			if e.value != nil && kind == unix.NFT_MSG_NEWSETELEM {
				parts = append(parts, nestAttrs(unix.NFTA_SET_ELEM_DATA, e.value))
			}
			list = append(list, nestAttrs(unix.NFTA_LIST_ELEM, parts...))
		}
		b.addTo(family, kind, flags,
			attr(unix.NFTA_SET_ELEM_LIST_TABLE, table), attr(unix.NFTA_SET_ELEM_LIST_SET, text(set)),
			nestAttrs(unix.NFTA_SET_ELEM_LIST_ELEMENTS, list...))
	}
}

// mask reads the mask of an address that is looked up, "& 255.255.255.0"; nil for none.
func (p *parser) mask(f field) ([]byte, error) {
	if len(p.words) == 0 || p.words[0] != "&" {
		return nil, nil
	}
	p.next()
	w := p.next()
	ip, err := netip.ParseAddr(w)
	if err != nil || len(ip.AsSlice()) != int(f.length) {
		return nil, fmt.Errorf("mask %q: want & and an address of the field's length", w)
	}
	return ip.AsSlice(), nil
}

// and masks register 1.
func (p *parser) and(mask []byte) {
	if mask == nil {
		return
	}
	p.load("bitwise", attr(unix.NFTA_BITWISE_SREG, be32(unix.NFT_REG_1)),
		attr(unix.NFTA_BITWISE_DREG, be32(unix.NFT_REG_1)), attr(unix.NFTA_BITWISE_LEN, be32(uint32(len(mask)))),
		data(unix.NFTA_BITWISE_MASK, mask), data(unix.NFTA_BITWISE_XOR, make([]byte, len(mask))))
}

// lookup ends the rule unless register 1 is, or is not, in a set of the table.
func (p *parser) lookup(op uint32, set string) error {
	name := strings.TrimPrefix(set, "@")
	if name == "" {
		return errors.New("@ names no set")
	}
	attrs := [][]byte{attr(unix.NFTA_LOOKUP_SET, text(name)), attr(unix.NFTA_LOOKUP_SREG, be32(unix.NFT_REG_1))}
	if op == unix.NFT_CMP_NEQ {
		attrs = append(attrs, attr(unix.NFTA_LOOKUP_FLAGS, be32(unix.NFT_LOOKUP_F_INV)))
	}
	p.load("lookup", attrs...)
	return nil
}
