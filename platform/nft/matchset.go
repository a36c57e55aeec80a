package nft

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// setNumbers returns the kernel's number of a set of ipset(8).
type setNumbers func(name string) (uint16, error)

// Attributes of the expression match (linux/netfilter/nf_tables_compat.h), and of requests of ipset
// (linux/netfilter/ipset/ip_set.h), which x/sys lacks.
const (
	matchName, matchRevision, matchInfo = 1, 2, 3 // NFTA_MATCH_…
	nfnlSubsysIPSet                     = 6       // NFNL_SUBSYS_IPSET
	ipsetByName                         = 14      // IPSET_CMD_GET_BYNAME
	ipsetProtocol, ipsetName            = 1, 2    // IPSET_ATTR_…
	ipsetNumber                         = 11      // IPSET_ATTR_INDEX
	protocolByName                      = 7       // the first protocol of ipset with that request (Linux 4.20)
)

// matchSet matches a packet whose source or destination is in a set of ipset(8), "match-set NAME src" or "dst": by the
// match of iptables, which nf_tables runs as an expression (CONFIG_NFT_COMPAT). The kernel keeps the set while a rule
// has it. Other programs, such as dnsmasq, may add to it, as they may not to the sets of a table that has an owner.
func (p *parser) matchSet() error {
	name, side := p.next(), p.next()
	dimension := map[string]byte{"src": 1 << 1, "dst": 0} // IPSET_DIM_ONE_SRC
	flags, known := dimension[side]
	if name == "" || !known || p.sets == nil {
		return fmt.Errorf("match-set %s %s: want a set, and src or dst", name, side)
	}
	number, err := p.sets(name)
	if err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	info := append(binary.NativeEndian.AppendUint16(nil, number), 1, flags) // struct xt_set_info, one dimension
	p.extension("set", 1, info)
	return nil
}

// extension is a match of iptables.
func (p *parser) extension(name string, revision uint32, info []byte) {
	for len(info)%8 != 0 { // XT_ALIGN
		info = append(info, 0)
	}
	p.load("match", attr(matchName, text(name)), attr(matchRevision, be32(revision)), attr(matchInfo, info))
}

// bridgePort matches a packet that a bridge passes by the port at which it came or goes, `physdev in "NAME"` or out; a
// "*" at the end of a name stands for any rest.
func (p *parser) bridgePort() error {
	flags, known := map[string]byte{"in": 0x01, "out": 0x02 | 0x04}[p.next()] // XT_PHYSDEV_OP_IN, OUT and BRIDGED
	name, err := interfaceKey(p.next())
	if !known || err != nil {
		return errors.New("want physdev in or out, and a quoted name of a link")
	}
	mask := bytes.Repeat([]byte{0xff}, len(bytes.TrimRight(name, "\x00"))+1) // with the end of the name
	if i := bytes.IndexByte(name, '*'); i >= 0 {
		name, mask = append(name[:i:i], make([]byte, unix.IFNAMSIZ-i)...), mask[:i]
	}
	mask = append(mask, make([]byte, unix.IFNAMSIZ-min(len(mask), unix.IFNAMSIZ))...)
	side, other := append(name, mask...), make([]byte, 2*unix.IFNAMSIZ)
	// struct xt_physdev_info: in with its mask, out with its mask, what is inverted, flags
	info := slices.Concat(side, other, []byte{0, flags})
	if flags != 0x01 {
		info = slices.Concat(other, side, []byte{0, flags})
	}
	p.extension("physdev", 0, info)
	return nil
}

// setNumber asks the kernel for the number of a set, which a set keeps, and which its name keeps when two are swapped.
func (c *Conn) setNumber(name string) (uint16, error) {
	body := join(genmsg(unix.AF_UNSPEC, 0), [][]byte{attr(ipsetProtocol, []byte{protocolByName}),
		attr(ipsetName, text(name))})
	found, err := c.query([]request{{nfnlSubsysIPSet<<8 | ipsetByName, body}})
	if err != nil {
		return 0, err
	}
	number := found[0][ipsetNumber]
	if len(number) < 2 {
		return 0, errors.New("the kernel has none of this name")
	}
	return binary.BigEndian.Uint16(number), nil
}
