package kernel

import (
	"encoding/binary"
	"fmt"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// bridgeAttr is one bridge attribute of the kernel (IFLA_BR_*, linux/if_link.h).
type bridgeAttr struct {
	name string // key in netstate.BridgeAttrs
	kind int
	size int // in octets
}

var bridgeAttrs = []bridgeAttr{
	{"ageing_time", nl.IFLA_BR_AGEING_TIME, 4},
	{"stp_state", nl.IFLA_BR_STP_STATE, 4},
	{"vlan_filtering", nl.IFLA_BR_VLAN_FILTERING, 1},
	{"group_fwd_mask", nl.IFLA_BR_GROUP_FWD_MASK, 2},
	{"mcast_snooping", nl.IFLA_BR_MCAST_SNOOPING, 1},
	{"nf_call_iptables", nl.IFLA_BR_NF_CALL_IPTABLES, 1},
	{"nf_call_ip6tables", nl.IFLA_BR_NF_CALL_IP6TABLES, 1},
	{"nf_call_arptables", nl.IFLA_BR_NF_CALL_ARPTABLES, 1},
}

// skipStats is RTEXT_FILTER_SKIP_STATS (linux/rtnetlink.h): dump without counters.
const skipStats = 1 << 3

// setBridge corrects the attributes of a bridge that differ from those of edgespan's bridges.
func (k *Kernel) setBridge(index int) error {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	found, err := k.readBridges(0, msg)
	if err != nil {
		return fmt.Errorf("read attributes: %w", err)
	}
	odd := found[index]
	if len(odd) == 0 {
		return nil
	}
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("bridge"))
	data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
	want := netstate.BridgeAttrs()
	for _, a := range bridgeAttrs {
		if _, is := odd[a.name]; is {
			data.AddRtAttr(a.kind, binary.NativeEndian.AppendUint64(nil, want[a.name])[:a.size])
		}
	}
	if err := k.do(unix.RTM_NEWLINK, 0, msg, info); err != nil {
		return fmt.Errorf("set attributes: %w", err)
	}
	return nil
}

// listBridges returns, by link index, the attributes of all bridges that differ from those of edgespan's bridges.
func (k *Kernel) listBridges() (map[int]map[string]uint64, error) {
	return whileUnchanged(k, func() (map[int]map[string]uint64, error) {
		kind := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
		kind.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("bridge"))
		return k.readBridges(unix.NLM_F_DUMP, nl.NewIfInfomsg(unix.AF_UNSPEC), kind)
	})
}

// readBridges reads one link or dumps several. The netlink library knows only some of the attributes.
func (k *Kernel) readBridges(flags int, ask ...nl.NetlinkRequestData) (map[int]map[string]uint64, error) {
	ask = append(ask, nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStats)))
	msgs, err := k.rt.request(unix.RTM_GETLINK, flags, ask...).Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err != nil {
		return nil, err
	}
	found := map[int]map[string]uint64{}
	for _, m := range msgs {
		attrs, err := nl.ParseRouteAttr(m[unix.SizeofIfInfomsg:])
		if err != nil {
			return nil, fmt.Errorf("parse bridge: %w", err)
		}
		for _, a := range attrs {
			if a.Attr.Type&^unix.NLA_F_NESTED != unix.IFLA_LINKINFO {
				continue
			}
			if odd := oddAttrs(a.Value); len(odd) > 0 {
				found[int(nl.DeserializeIfInfomsg(m).Index)] = odd
			}
		}
	}
	return found, nil
}

// oddAttrs returns the attributes in a link's IFLA_LINKINFO that differ from those of edgespan's bridges. Attributes
// the kernel was built without are absent and don't count.
func oddAttrs(linkinfo []byte) map[string]uint64 {
	odd := map[string]uint64{}
	parts, err := nl.ParseRouteAttr(linkinfo)
	if err != nil {
		return nil
	}
	want := netstate.BridgeAttrs()
	for _, p := range parts {
		if p.Attr.Type&^unix.NLA_F_NESTED != nl.IFLA_INFO_DATA {
			continue
		}
		values, err := nl.ParseRouteAttr(p.Value)
		if err != nil {
			return nil
		}
		for _, v := range values {
			for _, a := range bridgeAttrs {
				if int(v.Attr.Type) != a.kind || len(v.Value) < a.size {
					continue
				}
				n := binary.NativeEndian.Uint64(append(v.Value[:a.size:a.size], make([]byte, 8)...))
				if n != want[a.name] {
					odd[a.name] = n
				}
			}
		}
	}
	return odd
}
