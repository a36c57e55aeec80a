package kernel

import (
	"fmt"
	"net"
	"strings"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
)

// enslave puts a foreign link into one of edgespan's bridges and sets it up. A link that doesn't exist or is already in
// use is an error that wraps netstate.ErrWaiting.
func (k *Kernel) enslave(p netstate.Port) error {
	l, err := k.linkByName(p.Link)
	if isNotFound(err) {
		return fmt.Errorf("interface %s does not exist: %w", p.Link, netstate.ErrAnnounced)
	} else if err != nil {
		return fmt.Errorf("find link %s: %w", p.Link, err)
	}
	m, err := k.linkByName(p.Master)
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", p.Master, err)
	}
	a := l.Attrs()
	if _, own := linkOwner(a.Name, a.Alias); own {
		return fmt.Errorf("interface %s belongs to another adapter: %w", p.Link, netstate.ErrWaiting)
	}
	joined := a.MasterIndex == m.Attrs().Index
	if !joined {
		if err := k.canEnslave(l); err != nil {
			return err
		}
		if err := k.h.LinkSetMasterByIndex(l, m.Attrs().Index); err != nil {
			return fmt.Errorf("put link %s into bridge %s: %w", p.Link, p.Master, err)
		}
	}
	if err := k.joinVLANs(l, p, m.Attrs().Index); err != nil {
		return err
	}
	if err := k.guard(l, p, joined); err != nil {
		return err
	}
	found, err := k.find(p.Link)
	if err != nil {
		return fmt.Errorf("find link %s: %w", p.Link, err)
	}
	if err := k.setStation(found, p); err != nil {
		return err
	}
	if err := k.change(func() error { return k.h.LinkSetUp(l) }); err != nil {
		return fmt.Errorf("set link %s up: %w", p.Link, err)
	}
	return nil
}

// canEnslave refuses a link that the host itself or another bridge uses: once enslaved, it would no longer receive
// packets sent to its own addresses.
func (k *Kernel) canEnslave(l netlink.Link) error {
	name := l.Attrs().Name
	if index := l.Attrs().MasterIndex; index != 0 {
		other := fmt.Sprintf("index %d", index)
		if m, err := k.h.LinkByIndex(index); err == nil {
			other = m.Attrs().Name
		}
		return fmt.Errorf("interface %s is enslaved to %s, which is not edgespan's: %w", name, other, netstate.ErrWaiting)
	}
	addrs, err := retry(func() ([]netlink.Addr, error) { return k.h.AddrList(l, netlink.FAMILY_ALL) })
	if err != nil {
		return fmt.Errorf("list addresses of %s: %w", name, err)
	}
	var held []string
	for _, a := range addrs {
		if p, ok := prefix(a.IPNet); ok && !(p.Addr().Is6() && p.Addr().IsLinkLocalUnicast()) {
			held = append(held, p.String())
		}
	}
	if len(held) > 0 {
		return fmt.Errorf("interface %s has the host's address %s, which would be unreachable in a bridge: %w",
			name, strings.Join(held, ", "), netstate.ErrWaiting)
	}
	return nil
}

// release removes a foreign link from edgespan's bridge and changes nothing else about it. A link that is not in that
// bridge is left alone.
func (k *Kernel) release(p netstate.Port) error {
	l, err := k.linkByName(p.Link)
	if isNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("find link %s: %w", p.Link, err)
	}
	m, err := k.linkByName(p.Master)
	if isNotFound(err) {
		return nil // the kernel released it when the bridge went
	} else if err != nil {
		return fmt.Errorf("find bridge %s: %w", p.Master, err)
	}
	if l.Attrs().MasterIndex != m.Attrs().Index {
		return nil
	}
	if err := k.h.LinkSetNoMaster(l); err != nil && !isNotFound(err) {
		return fmt.Errorf("take link %s out of bridge %s: %w", p.Link, p.Master, err)
	}
	return nil
}

// Borrowed returns the index of a foreign link (0 if no link has this name), whether it is up, and whether it is in the
// bridge of p.
func (k *Kernel) Borrowed(p netstate.Port) (index int, up, in bool, err error) {
	l, err := k.linkByName(p.Link)
	if isNotFound(err) {
		return 0, false, false, nil
	} else if err != nil {
		return 0, false, false, fmt.Errorf("find link %s: %w", p.Link, err)
	}
	a := l.Attrs()
	master, err := k.LinkIndex(p.Master)
	return a.Index, a.Flags&net.FlagUp != 0, master != 0 && a.MasterIndex == master, err
}

// LowerBorrowed sets a foreign link down that is in one of edgespan's bridges.
func (k *Kernel) LowerBorrowed(p netstate.Port) error {
	l, err := k.linkByName(p.Link)
	if err == nil {
		err = k.h.LinkSetDown(l)
	}
	if err != nil && !isNotFound(err) {
		return fmt.Errorf("set link %s down: %w", p.Link, err)
	}
	return nil
}
