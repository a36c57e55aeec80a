package kernel

import (
	"cmp"
	"net"
	"strings"
	"syscall"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ownLinks holds edgespan's links, and foreign links in edgespan's bridges, by index, as the kernel last reported them.
type ownLinks map[int]*ownLink

// ownLink is one link of ownLinks.
type ownLink struct {
	num  int    // the network instance number
	name string // name of an adapter's link, "" for the network's own and foreign links
	lent bool   // a foreign link in the network's bridge
	have [2]linkFacts
}

// linkFacts holds the properties of a link that edgespan controls, as one of the two families of link messages reports
// them. It leaves out carrier and operational state: an app sets its end of the link up and down at will, and each time
// the kernel reports this end, unchanged.
type linkFacts struct {
	known            bool
	up               bool
	master, mtu      uint32
	netns            uint32 // namespace of a veth's peer, as an ID of this namespace
	name, alias, mac string
	more             string // settings a bridge, a tunnel or a bridge port was created with
}

func (o ownLinks) learn(index int, name, alias string) {
	if n, own := linkOwner(name, alias); own {
		o[index] = newOwnLink(n, name)
	}
}

func newOwnLink(num int, name string) *ownLink {
	l := &ownLink{num: num}
	if _, tunnel := netstate.VPNNumber(name); name != bridgeName(num) && !tunnel {
		l.name = name
	}
	return l
}

// readLink records the changes a link message reports for edgespan's links. Messages of family AF_BRIDGE describe
// bridge ports and carry no alias.
func (n *changes) readLink(m syscall.NetlinkMessage, owners ownLinks) {
	if len(m.Data) < unix.SizeofIfInfomsg {
		return
	}
	msg := nl.DeserializeIfInfomsg(m.Data)
	index, bridge, gone := int(msg.Index), msg.Family == unix.AF_BRIDGE, m.Header.Type == unix.RTM_DELLINK
	f, ok := readFacts(m.Data[unix.SizeofIfInfomsg:], bridge)
	if !ok {
		n.foreign = true
		return
	}
	f.up = msg.Flags&unix.IFF_UP != 0
	was := owners[index]
	switch {
	case f.name == "":
		n.changed(was)
		return
	case bridge: // the link left its bridge but still exists
		if f.known = !gone; was != nil {
			n.compare(index, was, 1, f)
		}
		return
	}
	num, own := linkOwner(f.name, f.alias)
	n.foreign = n.foreign || isForeign(f.name) && !own
	var now *ownLink
	if own {
		now = newOwnLink(num, f.name)
	} else if master := owners[int(f.master)]; f.master != 0 && master != nil && !master.lent {
		now = &ownLink{num: master.num, lent: true}
	}
	if gone || now == nil {
		n.changed(cmp.Or(was, now))
		n.gone = append(n.gone, index)
		delete(owners, index)
		return
	}
	if was != nil && was.num == now.num && was.name == now.name && was.lent == now.lent {
		n.compare(index, was, 0, f)
		return
	}
	n.changed(was)
	now.have[0] = f
	owners[index] = now
	n.changed(now)
}

// compare stores the facts a message of one family reports for a link, and whether they changed.
func (n *changes) compare(index int, l *ownLink, family int, f linkFacts) {
	switch {
	case l.have[family] != f:
		l.have[family] = f
		n.changed(l)
	case l.name != "":
		n.idle = append(n.idle, index)
	}
}

// changed records that a link changed.
func (n *changes) changed(l *ownLink) {
	switch {
	case l == nil:
	case l.name != "" || l.lent:
		n.links[netstate.LinkTouch{Number: l.num, Name: l.name}] = true
	default:
		n.touched[l.num] = true
	}
}

// readFacts reads the attributes of a link message without copying attributes it drops: an app can cause thousands of
// messages a second. A message about a bridge port ends with its VLANs.
func readFacts(b []byte, bridge bool) (f linkFacts, ok bool) {
	f.known = true
	ok = eachAttr(b, func(kind uint16, v []byte) {
		switch kind {
		case unix.IFLA_IFNAME:
			f.name = unix.ByteSliceToString(v)
		case unix.IFLA_IFALIAS:
			f.alias = unix.ByteSliceToString(v)
		case unix.IFLA_ADDRESS:
			f.mac = net.HardwareAddr(v).String()
		case unix.IFLA_MTU:
			f.mtu = u32(v)
		case unix.IFLA_MASTER:
			f.master = u32(v)
		case unix.IFLA_LINK_NETNSID:
			f.netns = u32(v) + 1
		case unix.IFLA_LINKINFO:
			f.more = madeWith(v)
		case unix.IFLA_PROTINFO:
			f.more = portMadeWith(v)
		case unix.IFLA_AF_SPEC:
			if bridge {
				f.more += string(v)
			}
		}
	})
	return f, ok
}

// madeWith returns the part of IFLA_LINKINFO that never changes by itself.
func madeWith(info []byte) string {
	var b strings.Builder
	kind := ""
	eachAttr(info, func(t uint16, v []byte) {
		switch {
		case t == unix.IFLA_INFO_KIND:
			kind = unix.ByteSliceToString(v)
			b.WriteString(kind)
		case t == unix.IFLA_INFO_DATA && kind == "vxlan":
			b.Write(v)
		case t == unix.IFLA_INFO_DATA && kind == "bridge":
			eachAttr(v, func(t uint16, v []byte) {
				if !bridgeMoves[t] {
					b.WriteByte(byte(t))
					b.Write(v)
				}
			})
		case t == unix.IFLA_INFO_SLAVE_DATA:
			b.WriteString(portMadeWith(v))
		}
	})
	return b.String()
}

// bridgeMoves lists the bridge attributes that change by themselves: timers, the results of the spanning tree, and the
// number of learned addresses.
var bridgeMoves = map[uint16]bool{
	nl.IFLA_BR_ROOT_ID: true, nl.IFLA_BR_BRIDGE_ID: true, nl.IFLA_BR_ROOT_PORT: true, nl.IFLA_BR_ROOT_PATH_COST: true,
	nl.IFLA_BR_TOPOLOGY_CHANGE: true, nl.IFLA_BR_TOPOLOGY_CHANGE_DETECTED: true, nl.IFLA_BR_HELLO_TIMER: true,
	nl.IFLA_BR_TCN_TIMER: true, nl.IFLA_BR_TOPOLOGY_CHANGE_TIMER: true, nl.IFLA_BR_GC_TIMER: true,
	brFDBLearned: true, brMcastQuerierState: true,
}

// From linux/if_link.h; the library ends before them.
const (
	brMcastQuerierState = 47
	brFDBLearned        = 48
)

// portMadeWith returns the bridge port settings that edgespan controls: isolation, learning and flooding.
func portMadeWith(info []byte) string {
	made := make([]byte, 3)
	eachAttr(info, func(t uint16, v []byte) {
		if len(v) != 1 {
			return
		}
		switch t {
		case nl.IFLA_BRPORT_ISOLATED:
			made[0] = v[0]
		case nl.IFLA_BRPORT_LEARNING:
			made[1] = v[0]
		case nl.IFLA_BRPORT_UNICAST_FLOOD:
			made[2] = v[0]
		}
	})
	return string(made)
}

// eachAttr iterates over the attributes of a netlink message and reports whether they were complete.
func eachAttr(b []byte, do func(kind uint16, value []byte)) bool {
	for len(b) >= unix.SizeofRtAttr {
		size := int(nl.NativeEndian().Uint16(b))
		if size < unix.SizeofRtAttr || size > len(b) {
			return false
		}
		do(nl.NativeEndian().Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[unix.SizeofRtAttr:size])
		b = b[min((size+3)&^3, len(b)):]
	}
	return true
}
