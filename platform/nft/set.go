package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// compiledSet is a set of a table in the kernel's form.
type compiledSet struct {
	name     string
	kind     setKind
	interval bool
	elements []element
}

// element is a key of a set. In a set of intervals, a key begins an interval or ends the one before it.
type element struct {
	key []byte
	end bool
}

// setKind is the type of a set's keys: its number in nft (datatype.h of nft's sources; the kernel only stores it for
// nft's listing) and its length.
type setKind struct{ number, length, order uint32 }

// Byte orders, which nft stores with a set for its listing (NFTNL_UDATA_SET_KEYBYTEORDER).
const (
	hostOrder = 1
	bigOrder  = 2
)

var setKinds = map[string]setKind{"ipv4_addr": {7, 4, bigOrder}, "ifname": {41, unix.IFNAMSIZ, hostOrder}}

// elementsAtOnce bounds one message: an attribute has at most 65,535 bytes, and an element takes 28.
const elementsAtOnce = 1000

// setLine compiles one line between the braces of a set:
//
//	type ipv4_addr; flags interval;
//	type ifname;
//	elements = { ELEMENT, ELEMENT }
//
// The type comes first. An element is an address, a prefix in a set of intervals, or the quoted name of a link.
func (s *compiledSet) setLine(line string) error {
	if list, is := strings.CutPrefix(line, "elements = { "); is {
		list, closed := strings.CutSuffix(list, " }")
		if !closed || s.kind.length == 0 {
			return fmt.Errorf("%q: want elements = { … } behind a type", line)
		}
		for w := range strings.SplitSeq(list, ", ") {
			e, err := s.element(w)
			if err != nil {
				return fmt.Errorf("%q: %w", line, err)
			}
			s.elements = append(s.elements, e...)
		}
		return nil
	}
	kind, flags, _ := strings.Cut(line, "; ")
	kind, is := strings.CutPrefix(strings.TrimSuffix(kind, ";"), "type ")
	s.kind, s.interval = setKinds[kind], flags == "flags interval;"
	if !is || s.kind.length == 0 || flags != "" && !s.interval || s.interval && kind != "ipv4_addr" {
		return fmt.Errorf("%q: want type ipv4_addr; or type ipv4_addr; flags interval; or type ifname;", line)
	}
	return nil
}

func (s *compiledSet) element(w string) ([]element, error) {
	if s.kind == setKinds["ifname"] {
		name, err := strconv.Unquote(w)
		if err != nil || name == "" || len(name) >= unix.IFNAMSIZ || strings.HasSuffix(name, "*") {
			return nil, fmt.Errorf("interface %s: want a quoted name of 1 to 15 bytes", w)
		}
		key := make([]byte, unix.IFNAMSIZ)
		copy(key, name)
		return []element{{key: key}}, nil
	}
	if !s.interval {
		ip, err := netip.ParseAddr(w)
		if err != nil || !ip.Is4() {
			return nil, fmt.Errorf("%q is no address of IPv4", w)
		}
		return []element{{key: ip.AsSlice()}}, nil
	}
	p, err := netip.ParsePrefix(w)
	if err != nil || !p.Addr().Is4() || p != p.Masked() || p.Bits() == 0 {
		return nil, fmt.Errorf("%q is no prefix of IPv4", w)
	}
	first := binary.BigEndian.Uint32(p.Addr().AsSlice())
	out := []element{{key: p.Addr().AsSlice()}}
	if next := first + 1<<(32-p.Bits()); next != 0 { // there is no address after the last one
		out = append(out, element{be32(next), true})
	}
	return out, nil
}

// addSet adds the messages that create a set of a table.
func (b *batch) addSet(family byte, table []byte, id int, s compiledSet) {
	flags := uint32(0)
	if s.interval {
		flags = unix.NFT_SET_INTERVAL
	}
	b.addTo(family, unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE,
		attr(unix.NFTA_SET_TABLE, table), attr(unix.NFTA_SET_NAME, text(s.name)), attr(unix.NFTA_SET_FLAGS, be32(flags)),
		attr(unix.NFTA_SET_KEY_TYPE, be32(s.kind.number)), attr(unix.NFTA_SET_KEY_LEN, be32(s.kind.length)),
		attr(unix.NFTA_SET_ID, be32(uint32(id))),
		attr(unix.NFTA_SET_USERDATA, append([]byte{0, 4}, host32(s.kind.order)...)))
	for some := range slices.Chunk(s.elements, elementsAtOnce) {
		var list [][]byte
		for _, e := range some {
			parts := [][]byte{data(unix.NFTA_SET_ELEM_KEY, e.key)}
			if e.end {
				parts = append(parts, attr(unix.NFTA_SET_ELEM_FLAGS, be32(unix.NFT_SET_ELEM_INTERVAL_END)))
			}
			list = append(list, nestAttrs(unix.NFTA_LIST_ELEM, parts...))
		}
		b.addTo(family, unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE,
			attr(unix.NFTA_SET_ELEM_LIST_TABLE, table), attr(unix.NFTA_SET_ELEM_LIST_SET, text(s.name)),
			nestAttrs(unix.NFTA_SET_ELEM_LIST_ELEMENTS, list...))
	}
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

// setsOf calls add for every set of one family's tables that own accepts, with its elements in order.
func (c *Conn) setsOf(family byte, own func(table string) bool, add func(table, name, text string)) error {
	type set struct{ table, name, flags string }
	var sets []set
	err := c.dump(unix.NFT_MSG_GETSET, family, func(a map[uint16][]byte) {
		if table := str(a[unix.NFTA_SET_TABLE]); own(table) {
			sets = append(sets, set{table, str(a[unix.NFTA_SET_NAME]), fmt.Sprintf("%x", a[unix.NFTA_SET_FLAGS])})
		}
	})
	if err != nil {
		return err
	}
	for _, s := range sets {
		var keys []string
		err := c.dump(unix.NFT_MSG_GETSETELEM, family, func(a map[uint16][]byte) {
			eachAttribute(a[unix.NFTA_SET_ELEM_LIST_ELEMENTS], func(_ uint16, elem []byte) {
				e := attributes(elem)
				keys = append(keys, fmt.Sprintf("%x/%x", attributes(e[unix.NFTA_SET_ELEM_KEY])[unix.NFTA_DATA_VALUE],
					e[unix.NFTA_SET_ELEM_FLAGS]))
			})
		}, attr(unix.NFTA_SET_ELEM_LIST_TABLE, text(s.table)), attr(unix.NFTA_SET_ELEM_LIST_SET, text(s.name)))
		switch {
		case errors.Is(err, syscall.ENOENT): // deleted meanwhile
			return errInterrupted
		case err != nil:
			return err
		}
		slices.Sort(keys)
		add(s.table, s.name, s.flags+" "+strings.Join(keys, " "))
	}
	return nil
}
