package kernel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

const (
	// vlanAlias marks a VLAN that edgespan has created. It has a name of the operator's choice.
	vlanAlias = aliasMark + "port"
	// vlanUnfinished is the name of a VLAN until it is marked, so that a crash leaves no unmarked one.
	vlanUnfinished = doomedPrefix + "-vlan"
)

// errNoVLAN is the error of a kernel without VLANs.
var errNoVLAN = errors.New("the kernel has no 802.1Q (module 8021q)")

// AddVLAN creates a VLAN of a foreign link, down and marked. A parent that does not exist is an error that wraps
// netstate.ErrWaiting.
func (k *Kernel) AddVLAN(l netstate.Link) error {
	if err := k.addVLAN(l); err != nil {
		return fmt.Errorf("create VLAN %d of %s: %w", l.Tag.ID, l.Tag.Parent, err)
	}
	return nil
}

func (k *Kernel) addVLAN(l netstate.Link) error {
	if !isForeign(l.Name) {
		return fmt.Errorf("interface name %s: reserved for edgespan", l.Name)
	}
	if _, err := k.linkByName(l.Name); err == nil {
		return fmt.Errorf("interface name %s is in use by another link: %w", l.Name, unix.EEXIST)
	}
	if left, err := k.linkByName(vlanUnfinished); err == nil {
		if err := k.h.LinkDel(left); err != nil && !isNotFound(err) {
			return fmt.Errorf("delete %s, left by a crash: %w", vlanUnfinished, err)
		}
	}
	parent, err := k.linkByName(l.Tag.Parent)
	switch {
	case isNotFound(err):
		return fmt.Errorf("interface %s does not exist: %w", l.Tag.Parent, netstate.ErrWaiting)
	case err != nil:
		return err
	case !isPort(parent):
		return fmt.Errorf("interface %s: belongs to a network", l.Tag.Parent)
	}
	info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
	info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated("vlan"))
	info.AddRtAttr(nl.IFLA_INFO_DATA, nil).AddRtAttr(nl.IFLA_VLAN_ID, nl.Uint16Attr(uint16(l.Tag.ID)))
	err = k.do(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, nl.NewIfInfomsg(unix.AF_UNSPEC),
		nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(vlanUnfinished)),
		nl.NewRtAttr(unix.IFLA_LINK, nl.Uint32Attr(uint32(parent.Attrs().Index))), info)
	switch {
	case isUnknownKind(err):
		return errNoVLAN
	case errors.Is(err, unix.EEXIST):
		return errors.New("another program has created it with another name")
	case err != nil:
		return err
	}
	made, err := k.linkByName(vlanUnfinished)
	if err == nil {
		msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
		msg.Index = int32(made.Attrs().Index)
		err = k.do(unix.RTM_SETLINK, 0, msg, nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(l.Name)),
			nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(vlanAlias)))
	}
	if err != nil {
		return k.undo(vlanUnfinished, err)
	}
	return nil
}

// isUnknownKind reports whether the kernel knows no links of a kind. An interface that can't have VLANs is refused with
// the same number, and with another text (net/core/rtnetlink.c, net/8021q/vlan.c).
func isUnknownKind(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) && !strings.Contains(err.Error(), "VLAN")
}

// RemoveVLANs removes VLANs that edgespan has created, and returns once the kernel reports them gone. A missing one is
// no error.
func (k *Kernel) RemoveVLANs(ctx context.Context, names []string) error {
	return k.remove(ctx, names, "a VLAN of edgespan", isOwnVLAN)
}

func isOwnVLAN(l netlink.Link) bool {
	_, isVLAN := l.(*netlink.Vlan)
	return isVLAN && (l.Attrs().Alias == vlanAlias || l.Attrs().Name == vlanUnfinished)
}

// vlanOf returns a link as a VLAN, also one of another program. One whose parent is in another network namespace has
// none here. Links that edgespan is removing are none.
func vlanOf(l netlink.Link, names map[int]string) (netstate.Link, bool) {
	v, ok := l.(*netlink.Vlan)
	a := l.Attrs()
	if !ok || strings.HasPrefix(a.Name, doomedPrefix) && a.Name != vlanUnfinished {
		return netstate.Link{}, false
	}
	parent := ""
	if a.NetNsID < 0 {
		parent = names[a.ParentIndex]
	}
	if v.VlanProtocol != netlink.VLAN_PROTOCOL_8021Q {
		parent += " (" + v.VlanProtocol.String() + ")"
	}
	return netstate.Link{Name: a.Name, Type: netstate.VLAN, Tag: &netstate.VLANTag{Parent: parent, ID: v.VlanId},
		Unmarked: !isOwnVLAN(l)}, true
}
