package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// All links and rules of the host are read each minute, which took a fifth of an idle daemon's processor time through
// the library: it makes an object of each attribute. What is read here is only what Observe reports.

// link is what Observe needs of a link.
type link struct {
	index, master, mtu int
	netns              int // the kernel's ID for the namespace of a veth's peer, -1 for its own
	name, alias, mac   string
	up                 bool
	unflooded          bool   // of a bridge port
	station            string // of one that is not flooded: see addStations
	kind               netstate.LinkType
	odd                map[string]uint64 // of a bridge: attributes that differ from those of edgespan's bridges
	vxlan              *netlink.Vxlan    // of a tunnel
}

// listLinks returns all links.
func (k *Kernel) listLinks() ([]link, error) {
	return whileUnchanged(k, func() ([]link, error) {
		return k.readLinks(unix.NLM_F_DUMP, nl.NewIfInfomsg(unix.AF_UNSPEC))
	})
}

// find returns the link of a name. It costs a third of linkByName.
func (k *Kernel) find(name string) (link, error) {
	found, err := k.readLinks(0, nl.NewIfInfomsg(unix.AF_UNSPEC), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(name)))
	if err != nil {
		return link{}, err
	}
	if len(found) != 1 {
		return link{}, fmt.Errorf("%d links: %w", len(found), unix.ENODEV)
	}
	return found[0], nil
}

// readLinks reads one link or dumps all.
func (k *Kernel) readLinks(flags int, ask ...nl.NetlinkRequestData) (found []link, err error) {
	req := k.rt.request(unix.RTM_GETLINK, flags, append(ask,
		nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStats)))...)
	var failed error
	err = req.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWLINK, func(m []byte) bool {
		l, err := parseLink(m)
		failed = errors.Join(failed, err)
		found = append(found, l)
		return true
	})
	if err == nil {
		err = failed
	}
	return found, err
}

func parseLink(m []byte) (link, error) {
	if len(m) < unix.SizeofIfInfomsg {
		return link{}, errors.New("short link message")
	}
	msg := nl.DeserializeIfInfomsg(m)
	l := link{index: int(msg.Index), up: msg.Flags&unix.IFF_UP != 0, netns: -1, kind: "device"}
	var info, slave []byte
	enslaved := ""
	eachAttr(m[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) {
		switch kind {
		case unix.IFLA_IFNAME:
			l.name = cString(value)
		case unix.IFLA_IFALIAS:
			l.alias = cString(value)
		case unix.IFLA_ADDRESS:
			if strings.Trim(string(value), "\x00") != "" {
				l.mac = net.HardwareAddr(value).String()
			}
		case unix.IFLA_MTU:
			l.mtu = int(u32(value))
		case unix.IFLA_MASTER:
			l.master = int(u32(value))
		case unix.IFLA_LINK_NETNSID:
			l.netns = int(int32(u32(value)))
		case unix.IFLA_LINKINFO:
			eachAttr(value, func(kind uint16, value []byte) {
				switch kind {
				case nl.IFLA_INFO_KIND:
					l.kind = netstate.LinkType(cString(value))
				case nl.IFLA_INFO_DATA:
					info = value
				case unix.IFLA_INFO_SLAVE_KIND:
					enslaved = cString(value)
				case unix.IFLA_INFO_SLAVE_DATA:
					slave = value
				}
			})
		}
	})
	if enslaved == string(netstate.Bridge) {
		eachAttr(slave, func(kind uint16, value []byte) {
			if kind == nl.IFLA_BRPORT_UNICAST_FLOOD {
				l.unflooded = len(value) == 1 && value[0] == 0
			}
		})
	}
	switch l.kind {
	case netstate.Bridge:
		l.odd = oddAttrs(info)
	case "tun", netstate.VXLAN: // few
		whole, err := netlink.LinkDeserialize(nil, m)
		if err != nil {
			return l, err
		}
		l.kind = linkType(whole)
		l.vxlan, _ = whole.(*netlink.Vxlan)
	}
	return l, nil
}

// readRules returns edgespan's policy rules by network instance number.
func (k *Kernel) readRules() (map[int][]netstate.Rule, error) {
	return whileUnchanged(k, func() (map[int][]netstate.Rule, error) {
		found := map[int][]netstate.Rule{}
		msg := &nl.RtMsg{} // of all families
		err := k.rt.request(unix.RTM_GETRULE, unix.NLM_F_DUMP, msg).ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWRULE,
			func(m []byte) bool {
				if n, r, own := parseRule(m); own {
					found[n] = append(found[n], r)
				}
				return true
			})
		return found, err
	})
}

// parseRule returns a policy rule and its network's number, and false for a foreign rule. The message begins with a
// struct fib_rule_hdr (linux/fib_rules.h): family, length of dst, length of src.
func parseRule(m []byte) (number int, r netstate.Rule, own bool) {
	if len(m) < unix.SizeofRtMsg {
		return 0, r, false
	}
	proto := byte(0)
	eachAttr(m[unix.SizeofRtMsg:], func(kind uint16, value []byte) {
		switch kind {
		case nl.FRA_PRIORITY:
			r.Priority = int(u32(value))
		case nl.FRA_PROTOCOL:
			proto = append(value[:len(value):len(value)], 0)[0]
		}
	})
	if number, own = PriorityNumber(r.Priority); !own || proto != netstate.RouteProtocol {
		return 0, r, false
	}
	var ports []byte
	r.IPv6 = m[0] == unix.AF_INET6
	eachAttr(m[unix.SizeofRtMsg:], func(kind uint16, value []byte) {
		switch kind {
		case nl.FRA_TABLE:
			r.Table = int(u32(value))
		case nl.FRA_SRC:
			r.From = netip.PrefixFrom(addr(value), int(m[2])).String()
		case nl.FRA_DST:
			r.To = netip.PrefixFrom(addr(value), int(m[1])).String()
		case nl.FRA_OIFNAME:
			r.OIF = cString(value)
		case nl.FRA_IIFNAME:
			r.IIF = cString(value)
		case nl.FRA_GOTO:
			r.Goto = int(u32(value))
		case nl.FRA_FWMARK:
			r.Mark = u32(value)
		case nl.FRA_FWMASK:
			r.Mask = u32(value)
		case nl.FRA_DPORT_RANGE:
			ports = value
		}
	})
	if len(ports) >= 4 {
		first, last := binary.NativeEndian.Uint16(ports), binary.NativeEndian.Uint16(ports[2:])
		if r.DPort = int(first); first != last { // edgespan creates no such rule
			r.To = fmt.Sprintf("ports %d-%d", first, last)
		}
	}
	if r.Goto != 0 { // see PutRule
		r.Table = 0
	}
	return number, r, true
}

func cString(b []byte) string { return strings.TrimSuffix(string(b), "\x00") }
