package ipset

import (
	"cmp"
	"encoding/binary"
	"errors"
	"iter"
	"net/netip"
	"slices"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// listNames asks for the names of sets alone (IPSET_FLAG_LIST_SETNAME, linux/netfilter/ipset/ip_set.h).
const listNames = 1 << 1

// entriesAtOnce bounds one message: an attribute has at most 65,535 octets, and an entry takes up to 52.
const entriesAtOnce = 1000

// errNoSupport is the error of a kernel without sets.
var errNoSupport = errors.New("the kernel has no sets of addresses (CONFIG_IP_SET and CONFIG_NETFILTER_XT_SET)")

// entry is one entry of a set; seconds is the rest of its time in a set with a timeout.
type entry struct {
	prefix  netip.Prefix
	seconds uint32
}

// content is a set as the kernel lists it.
type content struct {
	kind    string
	ipv6    bool
	timeout uint32
	timed   bool
	max     uint32
	entries []entry
}

// The types of sets: with entries of any prefix length, and of single addresses.
const (
	kindNets = "hash:net"
	kindIPs  = "hash:ip"
)

// object returns a set as an object. One of another type than edgespan's has no entries and no family's text, so that
// it differs from any desired one.
func (c content) object(name string) netstate.Set {
	set := netstate.Set{Name: name, IPv6: c.ipv6}
	if c.timed {
		set.Timeout, set.Max = max(int(c.timeout), 1), int(c.max)
	}
	if (c.kind == kindIPs) != c.timed || c.kind != kindIPs && c.kind != kindNets {
		set.Timeout = -1
		return set
	}
	for _, e := range c.entries {
		if c.timed {
			set.Members = append(set.Members, e.prefix.Addr())
		} else {
			set.Entries = append(set.Entries, e.prefix)
		}
	}
	slices.SortFunc(set.Entries, comparePrefixes)
	slices.SortFunc(set.Members, netip.Addr.Compare)
	return set
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits())
}

// kept returns the entries that a set with a timeout takes over from its former form.
func (c content) kept(set netstate.Set) []entry {
	if c.kind != kindIPs || c.ipv6 != set.IPv6 {
		return nil
	}
	var out []entry
	for _, e := range c.entries[:min(len(c.entries), set.Max)] {
		e.seconds = min(max(e.seconds, 1), uint32(set.Timeout))
		out = append(out, e)
	}
	return out
}

func (s *Sets) create(at string, set netstate.Set) error {
	family, kind := byte(unix.AF_INET), kindNets
	if set.IPv6 {
		family = unix.AF_INET6
	}
	data := nl.NewRtAttr(nl.IPSET_ATTR_DATA|unix.NLA_F_NESTED, nil)
	// The lowest revision of hash:net that is common, and the first of hash:ip that drops others when it is full.
	revision, size := byte(0), max(len(set.Entries), 1)
	if set.Timeout > 0 {
		kind, revision, size = kindIPs, 3, set.Max
		data.AddChild(number(nl.IPSET_ATTR_TIMEOUT, uint32(set.Timeout)))
		data.AddChild(number(nl.IPSET_ATTR_CADT_FLAGS, nl.IPSET_FLAG_WITH_FORCEADD))
	}
	data.AddChild(number(nl.IPSET_ATTR_MAXELEM, uint32(size)))
	return s.do(nl.IPSET_CMD_CREATE, name(nl.IPSET_ATTR_SETNAME, at), name(nl.IPSET_ATTR_TYPENAME, kind),
		nl.NewRtAttr(nl.IPSET_ATTR_REVISION, []byte{revision}), nl.NewRtAttr(nl.IPSET_ATTR_FAMILY, []byte{family}), data)
}

func (s *Sets) add(to string, entries []entry) error {
	for some := range slices.Chunk(entries, entriesAtOnce) {
		list := nl.NewRtAttr(nl.IPSET_ATTR_ADT|unix.NLA_F_NESTED, nil)
		for _, e := range some {
			kind := nl.IPSET_ATTR_IPADDR_IPV4
			if e.prefix.Addr().Is6() {
				kind = nl.IPSET_ATTR_IPADDR_IPV6
			}
			data := nl.NewRtAttr(nl.IPSET_ATTR_DATA|unix.NLA_F_NESTED, nil)
			ip := nl.NewRtAttr(nl.IPSET_ATTR_IP|unix.NLA_F_NESTED, nil)
			ip.AddChild(nl.NewRtAttr(kind|unix.NLA_F_NET_BYTEORDER, e.prefix.Addr().AsSlice()))
			data.AddChild(ip)
			data.AddChild(nl.NewRtAttr(nl.IPSET_ATTR_CIDR, []byte{byte(e.prefix.Bits())}))
			if e.seconds > 0 {
				data.AddChild(number(nl.IPSET_ATTR_TIMEOUT, e.seconds))
			}
			list.AddChild(data)
		}
		// Several entries need a line number, for the error that names one of them.
		err := s.do(nl.IPSET_CMD_ADD, name(nl.IPSET_ATTR_SETNAME, to), number(nl.IPSET_ATTR_LINENO, 1), list)
		if err != nil {
			return err
		}
	}
	return nil
}

// read lists one set. The error wraps ENOENT if there is none.
func (s *Sets) read(set string) (c content, err error) {
	msgs, err := s.request(nl.IPSET_CMD_LIST, name(nl.IPSET_ATTR_SETNAME, set))
	if errors.Is(err, errNoSupport) {
		return c, unix.ENOENT
	}
	for _, m := range msgs {
		for kind, v := range attributes(m[min(len(m), nl.SizeofNfgenmsg):]) {
			switch kind {
			case nl.IPSET_ATTR_TYPENAME:
				c.kind = unix.ByteSliceToString(v)
			case nl.IPSET_ATTR_FAMILY:
				c.ipv6 = v[0] == unix.AF_INET6
			case nl.IPSET_ATTR_DATA:
				c.readHeader(v)
			case nl.IPSET_ATTR_ADT:
				for _, e := range attributes(v) {
					c.entries = append(c.entries, readEntry(e))
				}
			}
		}
	}
	return c, err
}

func (c *content) readHeader(b []byte) {
	for kind, v := range attributes(b) {
		switch kind {
		case nl.IPSET_ATTR_TIMEOUT:
			c.timeout, c.timed = binary.BigEndian.Uint32(v), true
		case nl.IPSET_ATTR_MAXELEM:
			c.max = binary.BigEndian.Uint32(v)
		}
	}
}

func readEntry(b []byte) (e entry) {
	var addr netip.Addr
	bits := -1
	for kind, v := range attributes(b) {
		switch kind {
		case nl.IPSET_ATTR_IP:
			for _, ip := range attributes(v) {
				addr, _ = netip.AddrFromSlice(ip)
			}
		case nl.IPSET_ATTR_CIDR:
			bits = int(v[0])
		case nl.IPSET_ATTR_TIMEOUT:
			e.seconds = binary.BigEndian.Uint32(v)
		}
	}
	if bits < 0 {
		bits = addr.BitLen()
	}
	e.prefix = netip.PrefixFrom(addr, bits)
	return e
}

// do sends a request and waits for the kernel's answer.
func (s *Sets) do(cmd int, attrs ...nl.NetlinkRequestData) error {
	_, err := s.request(cmd, attrs...)
	return err
}

func (s *Sets) request(cmd int, attrs ...nl.NetlinkRequestData) ([][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_IPSET<<8|cmd, nl.GetIpsetFlags(cmd))
	req.Sockets = s.sock
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_INET, Version: nl.NFNETLINK_V0})
	req.AddData(nl.NewRtAttr(nl.IPSET_ATTR_PROTOCOL, []byte{nl.IPSET_PROTOCOL}))
	for _, a := range attrs {
		req.AddData(a)
	}
	msgs, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	return msgs, explain(err)
}

// explain returns what an error of the kernel's sets means.
func explain(err error) error {
	var no unix.Errno
	switch {
	case !errors.As(err, &no):
		return err
	case no == unix.EINVAL || no == unix.EOPNOTSUPP: // of nfnetlink, which has no such subsystem
		return errNoSupport
	case no == nl.IPSET_ERR_FIND_TYPE:
		return errors.New("the kernel lacks a type of set (CONFIG_IP_SET_HASH_NET, CONFIG_IP_SET_HASH_IP)")
	case no >= nl.IPSET_ERR_PRIVATE:
		return nl.IPSetError(no)
	}
	return err
}

// attributes yields the attributes of a message from the kernel, without the flags of their types.
func attributes(b []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			size := int(binary.NativeEndian.Uint16(b))
			if size < unix.SizeofNlAttr || size > len(b) {
				return
			}
			kind := int(binary.NativeEndian.Uint16(b[2:])) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if !yield(kind, b[unix.SizeofNlAttr:size]) {
				return
			}
			b = b[min(len(b), (size+3)&^3):]
		}
	}
}

func name(kind int, s string) *nl.RtAttr { return nl.NewRtAttr(kind, nl.ZeroTerminated(s)) }

func number(kind int, v uint32) *nl.RtAttr {
	return nl.NewRtAttr(kind|unix.NLA_F_NET_BYTEORDER, binary.BigEndian.AppendUint32(nil, v))
}
