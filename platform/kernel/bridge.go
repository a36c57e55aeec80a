package kernel

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// bridgeAttr is one bridge attribute of the kernel (IFLA_BR_*, linux/if_link.h).
type bridgeAttr struct {
	name string // key in netstate.BridgeAttrs
	kind int
	size int    // in octets
	bit  uint32 // of an attribute with several booleans (struct br_boolopt_multi, linux/if_bridge.h); 0: a number
}

// value returns the value in an attribute of the kernel, false if it has none.
func (a bridgeAttr) value(b []byte) (uint64, bool) {
	if len(b) < a.size {
		return 0, false
	}
	var octets [8]byte
	copy(octets[:], b[:a.size])
	if a.bit == 0 {
		return binary.NativeEndian.Uint64(octets[:]), true
	}
	set, known := binary.NativeEndian.Uint32(octets[:]), binary.NativeEndian.Uint32(octets[4:])
	if set&a.bit != 0 {
		return 1, known&a.bit != 0
	}
	return 0, known&a.bit != 0
}

// encode returns the attribute that sets a value.
func (a bridgeAttr) encode(value uint64) []byte {
	if a.bit == 0 {
		return binary.NativeEndian.AppendUint64(nil, value)[:a.size]
	}
	set := a.bit * uint32(value&1) // #nosec G115 -- 0 or 1
	return binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, set), a.bit)
}

var bridgeAttrs = []bridgeAttr{
	{"ageing_time", nl.IFLA_BR_AGEING_TIME, 4, 0},
	{"priority", nl.IFLA_BR_PRIORITY, 2, 0}, // before stp_state
	{"stp_state", nl.IFLA_BR_STP_STATE, 4, 0},
	{"vlan_filtering", nl.IFLA_BR_VLAN_FILTERING, 1, 0},
	{"vlan_default_pvid", nl.IFLA_BR_VLAN_DEFAULT_PVID, 2, 0}, // after vlan_filtering: kept while that is on
	{"group_fwd_mask", nl.IFLA_BR_GROUP_FWD_MASK, 2, 0},
	{"mcast_snooping", nl.IFLA_BR_MCAST_SNOOPING, 1, 0},
	{"nf_call_iptables", nl.IFLA_BR_NF_CALL_IPTABLES, 1, 0},
	{"nf_call_ip6tables", nl.IFLA_BR_NF_CALL_IP6TABLES, 1, 0},
	{"nf_call_arptables", nl.IFLA_BR_NF_CALL_ARPTABLES, 1, 0},
	{"no_linklocal_learn", unix.IFLA_BR_MULTI_BOOLOPT, 8, 1 << 0}, // BR_BOOLOPT_NO_LL_LEARN, Linux 5.0
	{"fdb_max_learned", unix.IFLA_BR_FDB_MAX_LEARNED, 4, 0},       // Linux 6.7
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
			data.AddRtAttr(a.kind, a.encode(want))
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

// oddAttrs returns the attributes in a bridge's IFLA_INFO_DATA that differ from those of edgespan's bridges, nil for
// none. Attributes the kernel was built without are absent and don't count.
func oddAttrs(info []byte) map[string]uint64 {
	var odd map[string]uint64
	eachAttr(info, func(kind uint16, value []byte) {
		for _, a := range bridgeAttrs {
			if int(kind) != a.kind {
				continue
			}
			if n, is := a.value(value); is && n != desiredAttrs[a.name] {
				if odd == nil {
					odd = map[string]uint64{}
				}
				odd[a.name] = n
			}
		}
	})
	return odd
}

// setStation sets the one station behind a bridge port, or that there may be any number (netstate.Port). The bridge has
// an entry for it that is static, since a station that says nothing for longer than the bridge remembers must still be
// found, and sticky, since the bridge learns addresses also from frames that pass no rule (to 01:80:c2:00:00:0x). It is
// there before the port is no longer flooded, so that no frame is lost between the two. Entries of other programs at a
// port that is flooded, and is to be, are left alone.
func (k *Kernel) setStation(found link, p netstate.Port) error {
	if p.Station == "" && !found.unflooded {
		return nil
	}
	index := found.index
	wrap := func(err error) error { return fmt.Errorf("set the station of link %s: %w", p.Link, err) }
	entry := func(mac net.HardwareAddr) *netlink.Neigh {
		return &netlink.Neigh{LinkIndex: index, Family: unix.AF_BRIDGE, Flags: unix.NTF_MASTER | netlink.NTF_STICKY,
			State: unix.NUD_NOARP, HardwareAddr: mac}
	}
	if p.Station != "" {
		mac, err := net.ParseMAC(p.Station)
		if err == nil {
			err = k.h.NeighSet(entry(mac))
		}
		if err != nil {
			return wrap(err)
		}
	}
	if found.unflooded { // else it has had no station
		all, err := k.listStations(index)
		if err != nil {
			return wrap(err)
		}
		for _, old := range all[index] {
			if old.String() == p.Station {
				continue
			}
			if err := k.h.NeighDel(entry(old)); err != nil {
				return wrap(err)
			}
		}
	}
	if err := k.h.LinkSetFlood(indexed(index, p.Link), p.Station == ""); err != nil {
		return wrap(err)
	}
	return nil
}

// addStations adds the stations of those links that are bridge ports and not flooded: one address, or what differs from
// any.
func (k *Kernel) addStations(links []link) error {
	if !slices.ContainsFunc(links, func(l link) bool { return l.unflooded }) {
		return nil
	}
	all, err := k.listStations(0)
	if err != nil {
		return err
	}
	for i, l := range links {
		if !l.unflooded {
			continue
		}
		var list []string
		for _, mac := range all[l.index] {
			list = append(list, mac.String())
		}
		if slices.Sort(list); len(list) == 0 {
			list = []string{"none"}
		}
		links[i].station = strings.Join(list, ",")
	}
	return nil
}

// listStations returns the static entries of bridges by the index of the port, of one port or, for 0, of all.
func (k *Kernel) listStations(port int) (map[int][]net.HardwareAddr, error) {
	return retry(func() (map[int][]net.HardwareAddr, error) {
		found := map[int][]net.HardwareAddr{}
		err := k.rt.request(unix.RTM_GETNEIGH, unix.NLM_F_DUMP, &netlink.Ndmsg{Family: unix.AF_BRIDGE, Index: uint32(port)}).
			ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWNEIGH, func(m []byte) bool {
				if index, mac := staticEntry(m); mac != nil && (port == 0 || index == port) && !slices.ContainsFunc(found[index],
					func(x net.HardwareAddr) bool { return slices.Equal(x, mac) }) { // it is in each VLAN of the port
					found[index] = append(found[index], mac)
				}
				return true
			})
		return found, err
	})
}

// staticEntry returns the port and the address of an entry of a bridge, in a struct ndmsg (linux/neighbour.h) with
// attributes; no address if the entry is not static.
func staticEntry(m []byte) (port int, mac net.HardwareAddr) {
	const size = 12 // family, 3 octets, index, state, flags, type
	if len(m) < size || binary.NativeEndian.Uint16(m[8:]) != unix.NUD_NOARP {
		return 0, nil
	}
	ofBridge := false
	eachAttr(m[size:], func(kind uint16, value []byte) {
		switch kind {
		case unix.NDA_LLADDR:
			mac = slices.Clone(net.HardwareAddr(value))
		case unix.NDA_MASTER:
			ofBridge = true
		}
	})
	if !ofBridge || len(mac) != 6 {
		return 0, nil
	}
	return int(binary.NativeEndian.Uint32(m[4:])), mac
}
