package netstate

import (
	"errors"
	"fmt"
)

// ErrNoVLANFilter is the error of a kernel whose bridges can't keep VLANs apart.
var ErrNoVLANFilter = errors.New("the kernel has no VLAN filtering of bridges (CONFIG_BRIDGE_VLAN_FILTERING)")

// NativeVLAN is the VLAN of a bridge to which the untagged frames of its trunk ports belong.
const NativeVLAN = 1

// TaggedFilter makes br_netfilter pass frames with a VLAN tag to the rules, as it does with others. Without it they
// would meet none.
const TaggedFilter = "net/bridge/bridge-nf-filter-vlan-tagged"

// The attributes of a bridge that keeps VLANs apart. Its default is 0: a link that joins it is in no VLAN at first.
const (
	vlanFiltering = "vlan_filtering"
	vlanDefault   = "vlan_default_pvid"
)

// VLANAttrs are the attributes of a bridge that keeps VLANs apart.
func VLANAttrs() map[string]uint64 { return map[string]uint64{vlanFiltering: 1, vlanDefault: 0} }

// FiltersVLANs reports whether a bridge keeps VLANs apart.
func (l Link) FiltersVLANs() bool { return l.Attrs[vlanFiltering] != 0 }

// VLANMember is the membership of a bridge port in one VLAN: PVID means that the port's untagged frames belong to it,
// Untagged that its frames leave the port without a tag.
type VLANMember struct {
	ID             int
	PVID, Untagged bool
}

func (v VLANMember) String() string {
	s := fmt.Sprintf("vlan %d", v.ID)
	if v.PVID {
		s += " pvid"
	}
	if v.Untagged {
		s += " untagged"
	}
	return s
}

// OnlyNative reports whether a port is in no VLAN but the native one, as each port of a bridge that filters none is.
func (p Port) OnlyNative() bool {
	return len(p.VLANs) == 0 || len(p.VLANs) == 1 && p.VLANs[0] == VLANMember{NativeVLAN, true, true}
}

// VLANTag makes a link a sub-interface: it carries the frames of one VLAN (IEEE 802.1Q) of its parent, untagged.
type VLANTag struct {
	Parent string
	ID     int // 1 to 4094
}

func (v *VLANTag) text() string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("vlan %d of %s", v.ID, v.Parent)
}
