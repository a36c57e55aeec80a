package kernel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// prepareFilter makes a bridge ready to keep VLANs apart, and returns its attributes then. It first takes the default
// VLAN away, so that a link that joins later is in no VLAN until it gets its own; the kernel changes it only while the
// bridge filters nothing, and takes it from all ports. They get it back: turning the filter on loses no frame. A bridge
// that filters already with a default of its own, as no release makes one, is set down meanwhile.
func (k *Kernel) prepareFilter(br link, want map[string]uint64) (map[string]uint64, error) {
	odd := maps.Clone(br.odd)
	if odd == nil {
		odd = map[string]uint64{}
	}
	already := netstate.Link{Attrs: odd}.FiltersVLANs()
	if already && odd["vlan_default_pvid"] == want["vlan_default_pvid"] {
		return odd, nil
	}
	if already {
		if err := k.change(func() error { return k.h.LinkSetDown(indexed(br.index, br.name)) }); err != nil {
			return nil, fmt.Errorf("set link %s down: %w", br.name, err)
		}
		defer func() { _ = k.h.LinkSetUp(indexed(br.index, br.name)) }() // otherwise the next observation finds it down
	}
	closed := maps.Clone(odd)
	delete(closed, "vlan_filtering")
	closed["vlan_default_pvid"] = want["vlan_default_pvid"]
	if err := k.setAttrs(br.index, odd, closed); err != nil {
		return nil, fmt.Errorf("set the default VLAN: %w", err)
	}
	if !already {
		if err := k.keepNative(br.index); err != nil {
			return nil, err
		}
	}
	filtering := maps.Clone(closed)
	filtering["vlan_filtering"] = want["vlan_filtering"]
	if err := k.setAttrs(br.index, closed, filtering); err != nil {
		return nil, fmt.Errorf("keep VLANs apart: %w", noFilter(err))
	}
	return filtering, nil
}

// keepNative puts the ports of a bridge that filters no VLANs yet into the native one, and takes them out of those that
// an earlier filter has left.
func (k *Kernel) keepNative(bridge int) error {
	links, err := k.listLinks()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	native := []netstate.VLANMember{{ID: netstate.NativeVLAN, PVID: true, Untagged: true}}
	for _, l := range links {
		if l.master != bridge {
			continue
		}
		if err := k.setVLANs(indexed(l.index, l.name), native, false); err != nil {
			return noFilter(err)
		}
	}
	return nil
}

// noFilter is ErrNoVLANFilter for the error of a kernel that has none (net/bridge/br_private.h).
func noFilter(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return netstate.ErrNoVLANFilter
	}
	return err
}

func indexed(index int, name string) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: index, Name: name}}
}

// setVLANs puts a bridge port into its VLANs and no others. It removes first: for an instant the port may be in none.
func (k *Kernel) setVLANs(l netlink.Link, want []netstate.VLANMember, self bool) error {
	all, err := k.listVLANs()
	if err != nil {
		return fmt.Errorf("list VLANs: %w", err)
	}
	have := all[l.Attrs().Index]
	for _, v := range have {
		if slices.Contains(want, v) {
			continue
		}
		if err := k.h.BridgeVlanDel(l, uint16(v.ID), v.PVID, v.Untagged, self, false); err != nil {
			return fmt.Errorf("take link %s out of VLAN %d: %w", l.Attrs().Name, v.ID, err)
		}
	}
	for _, v := range want {
		if slices.Contains(have, v) {
			continue
		}
		if err := k.h.BridgeVlanAdd(l, uint16(v.ID), v.PVID, v.Untagged, self, false); err != nil {
			return fmt.Errorf("put link %s into VLAN %d: %w", l.Attrs().Name, v.ID, err)
		}
	}
	return nil
}

// joinVLANs puts a port of a bridge into its VLANs. On a bridge that can't keep them apart, it stays in no bridge that
// would mix its frames with others, and carries none.
func (k *Kernel) joinVLANs(l netlink.Link, p netstate.Port, bridge int) error {
	if len(p.VLANs) == 0 {
		return nil
	}
	err := k.filters(bridge)
	if err == nil {
		err = k.setVLANs(l, p.VLANs, false)
	}
	if err == nil || p.OnlyNative() {
		return err
	}
	shut := func() error { return k.h.LinkSetDown(l) }
	if p.Foreign { // whose state is not edgespan's
		shut = func() error { return k.h.LinkSetNoMaster(l) }
	}
	if e := k.change(shut); e != nil {
		err = errors.Join(err, fmt.Errorf("cut link %s off: %w", p.Link, e))
	}
	return err
}

// filters returns why a bridge does not keep VLANs apart, nil if it does.
func (k *Kernel) filters(bridge int) error {
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(bridge)
	found, err := k.readLinks(0, msg)
	switch {
	case err != nil:
		return fmt.Errorf("read the bridge: %w", err)
	case len(found) == 0 || !(netstate.Link{Attrs: found[0].odd}).FiltersVLANs():
		return fmt.Errorf("the bridge does not keep VLANs apart: %w", netstate.ErrNoVLANFilter)
	}
	return nil
}

// leaveVLANs takes the bridge itself out of all VLANs.
func (k *Kernel) leaveVLANs(l netlink.Link) error {
	if err := k.filters(l.Attrs().Index); errors.Is(err, netstate.ErrNoVLANFilter) {
		return nil
	} else if err != nil {
		return err
	}
	return k.setVLANs(l, nil, true)
}

// listVLANs returns the VLANs of all bridges and bridge ports, by link index.
func (k *Kernel) listVLANs() (map[int][]netstate.VLANMember, error) {
	all, err := retry(k.h.BridgeVlanList)
	if err != nil {
		return nil, err
	}
	found := make(map[int][]netstate.VLANMember, len(all))
	for index, list := range all {
		for _, v := range list {
			found[int(index)] = append(found[int(index)], netstate.VLANMember{ID: int(v.Vid), PVID: v.PortVID(),
				Untagged: v.EngressUntag()})
		}
		slices.SortFunc(found[int(index)], func(a, b netstate.VLANMember) int { return a.ID - b.ID })
	}
	return found, nil
}

// vlansOf returns the VLANs of the ports of network n's bridge and of the bridge, by link index; nil if it filters
// none.
func (k *Kernel) vlansOf(ctx context.Context, own []link) (map[int][]netstate.VLANMember, error) {
	if !slices.ContainsFunc(own, func(l link) bool { return netstate.Link{Attrs: l.odd}.FiltersVLANs() }) {
		return nil, nil
	}
	found, err := k.vlans.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list VLANs of bridge ports: %w", err)
	}
	return found, nil
}
