package netinst

import (
	"fmt"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// The bridge of a switch that has several VLANs (IEEE 802.1Q) filters them: the kernel passes a frame only to ports of
// its VLAN. A trunk port carries the native VLAN untagged and each other VLAN of the switch tagged, an access port one
// VLAN untagged; so does an adapter, which may carry others tagged beside it. Its rules apply to tagged frames as to
// others: br_netfilter passes both to the chains (netstate.TaggedFilter), with the addresses in the frame. An adapter
// may send only VLANs of its own: frames.go drops the rest before anything reads it.
//
// Two VLANs may have the same addresses, so each has a conntrack zone of its own: the chains of frames, which know a
// frame's VLAN, write the zone into the packet's mark (zoneMask), and ES<n>-RAW reads and clears it.

// NativeVLAN is the VLAN of untagged frames on trunks.
const NativeVLAN = netstate.NativeVLAN

const (
	// MaxVLANs is the maximum of VLANs of one switch besides the native one.
	MaxVLANs = 32
	// zonesOfVLANs is the first zone of VLANs, and zonesPerSwitch how many each network has: more than MaxVLANs, so that
	// few VLANs lead to one slot by their number.
	zonesOfVLANs   = 21000
	zonesPerSwitch = 40
	zoneMask       = 0xffff
)

// usedVLANs returns the VLANs of a switch but the native one. Those of adapters are in the config too, which may be
// newer or older.
func (nw network) usedVLANs() []int {
	if !nw.isSwitch() || nw.isCluster() {
		return nil
	}
	vids := slices.Clone(nw.Config.VLANs)
	for _, a := range nw.Adapters {
		vids = append(append(vids, a.Config.Spec.VLAN), a.Config.Spec.Trunk...)
	}
	slices.Sort(vids)
	return slices.DeleteFunc(slices.Compact(vids), func(vid int) bool { return vid <= netstate.NativeVLAN })
}

// vlanErrors refuses adapters with VLANs on a network that has none. A config refuses those of a local network; that of
// a cluster is made elsewhere.
func vlanErrors(c NetworkInstanceConfig, adapters []AppAdapterConfig) map[AdapterKey]string {
	errs := map[AdapterKey]string{}
	plain := network{Input: Input{Config: c}}
	for _, a := range adapters {
		if a.Spec.hasVLANs() && (!plain.isSwitch() || plain.isCluster()) {
			errs[a.Key()] = "vlan and trunk: this network has no VLANs: must be on a switch network of this node alone"
		}
	}
	return errs
}

func (u AdapterSpec) hasVLANs() bool { return u.VLAN != 0 || len(u.Trunk) > 0 }

// vlansOf are the VLANs of an adapter's port, nil if the bridge has only one.
func (nw network) vlansOf(u AdapterSpec) []netstate.VLANMember {
	return nw.members(max(u.VLAN, netstate.NativeVLAN), u.Trunk)
}

// InVLAN reports whether frames of a VLAN of a switch may reach an adapter of it.
func (u AdapterSpec) InVLAN(vid int) bool {
	return vid == max(u.VLAN, netstate.NativeVLAN) || slices.Contains(u.Trunk, vid)
}

// SharesVLAN reports whether frames of one adapter of a switch may reach another.
func (u AdapterSpec) SharesVLAN(v AdapterSpec) bool {
	return v.InVLAN(max(u.VLAN, netstate.NativeVLAN)) || slices.ContainsFunc(u.Trunk, v.InVLAN)
}

// trunkOf are the VLANs of an adapter's tagged frames. Of a network that filters none, no such frame passes.
func (nw network) trunkOf(a Adapter) []int {
	if len(nw.vlans) == 0 {
		return nil
	}
	return a.Config.Spec.Trunk
}

// vlansOfPort are the VLANs of a host's interface.
func (nw network) vlansOfPort(p PortStatus) []netstate.VLANMember {
	if vid := nw.Config.AccessVLAN(p.PortConfig); vid != 0 {
		return nw.members(vid, nil)
	}
	return nw.members(netstate.NativeVLAN, nw.vlans)
}

func (nw network) members(untagged int, tagged []int) []netstate.VLANMember {
	if len(nw.vlans) == 0 {
		return nil
	}
	list := []netstate.VLANMember{{ID: untagged, PVID: true, Untagged: true}}
	for _, vid := range tagged {
		list = append(list, netstate.VLANMember{ID: vid})
	}
	slices.SortFunc(list, func(a, b netstate.VLANMember) int { return a.ID - b.ID })
	return list
}

// AccessVLAN returns the VLAN of an access port of a switch, 0 for a trunk.
func (c NetworkInstanceConfig) AccessVLAN(p PortConfig) int {
	for _, x := range c.AccessPorts {
		if p.Matches(x.Label) {
			return x.VLAN
		}
	}
	return 0
}

// zoneOfVLAN returns the zone of a VLAN: that of its slot, or of the next one that is free. A slot depends on the
// number alone unless two VLANs share it, so that other VLANs may come and go.
func (nw network) zoneOfVLAN(vid int) uint16 {
	taken := map[int]bool{}
	for _, v := range nw.vlans[:min(len(nw.vlans), zonesPerSwitch)] {
		slot := v % zonesPerSwitch
		for taken[slot] {
			slot = (slot + 1) % zonesPerSwitch
		}
		if taken[slot] = true; v == vid {
			return uint16(zonesOfVLANs + (nw.n-1)*zonesPerSwitch + slot)
		}
	}
	return Zone(nw.n)
}

// vlanOfZone returns the VLAN whose flows a zone of the switch has; false for a zone of others.
func (nw network) vlanOfZone(zone uint16) (vid int, own bool) {
	for _, v := range nw.vlans {
		if nw.zoneOfVLAN(v) == zone {
			return v, true
		}
	}
	return netstate.NativeVLAN, zone == Zone(nw.n)
}

// markOf writes the zone of a VLAN into a packet's mark.
func (nw network) markOf(vid int) string {
	s := fmt.Sprintf("meta mark set meta mark & %#x", ^uint32(zoneMask))
	if vid > netstate.NativeVLAN {
		s += fmt.Sprintf(" | %#x", nw.zoneOfVLAN(vid))
	}
	return s
}

// zoneRules choose the zone of IPv4 packets. The first rule that does wins (net/netfilter/xt_CT.c).
func (nw network) zoneRules() (rules []string) {
	for _, vid := range nw.vlans {
		rules = append(rules, fmt.Sprintf("-m mark --mark %#x/%#x -j CT --zone %[1]d", nw.zoneOfVLAN(vid), zoneMask))
	}
	rules = append(rules, fmt.Sprintf("-j CT --zone %d", Zone(nw.n)))
	if len(nw.vlans) > 0 { // other programs give these bits a meaning of their own
		rules = append(rules, fmt.Sprintf("-j MARK --set-xmark 0x0/%#x", zoneMask))
	}
	return rules
}

// zoneRules6 are zoneRules for IPv6, where the last rule that matches wins.
func (nw network) zoneRules6() []string {
	rules := []string{fmt.Sprintf("ct zone set %d", Zone(nw.n))}
	for _, vid := range nw.vlans {
		rules = append(rules, fmt.Sprintf("meta mark & %#x == %#x ct zone set %[2]d", zoneMask, nw.zoneOfVLAN(vid)))
	}
	if len(nw.vlans) > 0 {
		rules = append(rules, nw.markOf(netstate.NativeVLAN))
	}
	return rules
}

// tagged returns rules for the same packets in frames with a VLAN tag.
func tagged(rules []string) (out []string) {
	for _, r := range rules {
		out = append(out, strings.ReplaceAll(r, "ether type ", "ether type vlan vlan type "))
	}
	return out
}

// taggedTo leads frames with the tag of one of these VLANs to a chain, with the zone of their VLAN.
func (nw network) taggedTo(chain string, vids []int) (rules []string) {
	for _, vid := range vids {
		rules = append(rules, fmt.Sprintf("ether type vlan vlan id %d %s goto %s", vid, nw.markOf(vid), chain))
	}
	return rules
}
