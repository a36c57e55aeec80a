package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
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
	{"priority", nl.IFLA_BR_PRIORITY, 2}, // before stp_state
	{"stp_state", nl.IFLA_BR_STP_STATE, 4},
	{"vlan_filtering", nl.IFLA_BR_VLAN_FILTERING, 1},
	{"vlan_default_pvid", nl.IFLA_BR_VLAN_DEFAULT_PVID, 2}, // after vlan_filtering: the kernel keeps it while that is on
	{"group_fwd_mask", nl.IFLA_BR_GROUP_FWD_MASK, 2},
	{"mcast_snooping", nl.IFLA_BR_MCAST_SNOOPING, 1},
	{"nf_call_iptables", nl.IFLA_BR_NF_CALL_IPTABLES, 1},
	{"nf_call_ip6tables", nl.IFLA_BR_NF_CALL_IP6TABLES, 1},
	{"nf_call_arptables", nl.IFLA_BR_NF_CALL_ARPTABLES, 1},
}

var desiredAttrs = netstate.BridgeAttrs()

// skipStats is RTEXT_FILTER_SKIP_STATS (linux/rtnetlink.h): dump without counters.
const skipStats = 1 << 3

// setBridge corrects the attributes of a bridge that differ from those of edgespan's bridges, with exceptions.
func (k *Kernel) setBridge(index int, except map[string]uint64) error {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	found, err := k.readLinks(0, msg)
	if err != nil {
		return fmt.Errorf("read attributes: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	return k.correctBridge(found[0], except)
}

// correctBridge does that with a bridge as it was read.
func (k *Kernel) correctBridge(br link, except map[string]uint64) (err error) {
	odd := br.odd
	if maps.Equal(odd, except) {
		return nil
	}
	if (netstate.Link{Attrs: except}).FiltersVLANs() {
		if odd, err = k.prepareFilter(br, except); err != nil {
			return err
		}
	}
	if err := k.setAttrs(br.index, odd, except); err != nil {
		return fmt.Errorf("set attributes: %w", err)
	}
	return nil
}

// setAttrs changes the attributes of a bridge from one set of exceptions to another.
func (k *Kernel) setAttrs(index int, from, to map[string]uint64) error {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("bridge"))
	data := info.AddRtAttr(nl.IFLA_INFO_DATA, nil)
	for _, a := range bridgeAttrs {
		if have, want := attrOf(from, a.name), attrOf(to, a.name); have != want {
			data.AddRtAttr(a.kind, binary.NativeEndian.AppendUint64(nil, want)[:a.size])
		}
	}
	return k.do(unix.RTM_NEWLINK, 0, msg, info)
}

func attrOf(odd map[string]uint64, name string) uint64 {
	if v, is := odd[name]; is {
		return v
	}
	return desiredAttrs[name]
}

// guard sets whether a bridge port is guarded, and lets one pass frames again that its guard has disabled. A port that
// has just joined its bridge is not guarded.
func (k *Kernel) guard(l netlink.Link, p netstate.Port, joined bool) error {
	if !p.Guarded && !joined {
		return nil
	}
	if err := k.h.LinkSetGuard(l, p.Guarded); err != nil {
		return fmt.Errorf("set guard %v of link %s: %w", p.Guarded, p.Link, err)
	}
	if !p.Guarded || !joined {
		return nil
	}
	flags, err := k.listPortFlags()
	if err != nil {
		return fmt.Errorf("list bridge ports: %w", err)
	}
	if !flags[l.Attrs().Index].cut {
		return nil
	}
	if err := k.change(func() error { return k.h.LinkSetDown(l) }); err != nil {
		return fmt.Errorf("set link %s down: %w", p.Link, err)
	}
	return nil // the caller sets it up
}

// limitFlooding sets whether the bridge floods a port of one station, and its address (netstate.Port). A station that
// says nothing for longer than the bridge remembers it must still be found: its entry is static, until the port leaves
// the bridge. It is there before the port is no longer flooded, so that no frame is lost between the two.
func (k *Kernel) limitFlooding(index int, p netstate.Port) error {
	if p.MAC == "" {
		return nil
	}
	mac, err := net.ParseMAC(p.MAC)
	if err != nil {
		return fmt.Errorf("set flooding of link %s: %w", p.Link, err)
	}
	l := indexed(index, p.Link)
	entry := &netlink.Neigh{LinkIndex: index, Family: unix.AF_BRIDGE, Flags: unix.NTF_MASTER, State: unix.NUD_NOARP,
		HardwareAddr: mac}
	if p.Unflooded {
		err = k.h.NeighSet(entry)
	}
	if err == nil {
		err = k.h.LinkSetFlood(l, !p.Unflooded)
	}
	if err == nil && !p.Unflooded {
		if err = k.h.NeighDel(entry); errors.Is(err, unix.ENOENT) {
			err = nil // the bridge has learnt no such address
		}
	}
	if err != nil {
		return fmt.Errorf("set flooding of link %s: %w", p.Link, err)
	}
	return nil
}

// oddAttrs returns the attributes in a bridge's IFLA_INFO_DATA that differ from those of edgespan's bridges, nil for
// none. Attributes the kernel was built without are absent and don't count.
func oddAttrs(info []byte) map[string]uint64 {
	var odd map[string]uint64
	eachAttr(info, func(kind uint16, value []byte) {
		for _, a := range bridgeAttrs {
			if int(kind) != a.kind || len(value) < a.size {
				continue
			}
			var octets [8]byte
			copy(octets[:], value[:a.size])
			if n := binary.NativeEndian.Uint64(octets[:]); n != desiredAttrs[a.name] {
				if odd == nil {
					odd = map[string]uint64{}
				}
				odd[a.name] = n
			}
		}
	})
	return odd
}
