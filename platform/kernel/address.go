package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// AddAddress adds an address to one of edgespan's links, without a prefix route, and replaces an address that has other
// flags. If another edgespan network has an address of the same subnet, it returns an error that wraps
// netstate.ErrWaiting: packets for one network would go to the other, and two dnsmasq processes can't listen on one
// address. An address with a label of its own is on a network that is told apart from others without its subnet.
func (k *Kernel) AddAddress(a netstate.Address) error {
	l, n, err := k.addressOf(a)
	if err == nil && a.Label == "" {
		err = k.subnetFree(a)
	}
	if err != nil {
		return fmt.Errorf("add address %s: %w", a.Prefix, err)
	}
	n.Label = a.Label
	err = k.change(func() error { return k.h.AddrAdd(l, n) })
	if errors.Is(err, unix.EEXIST) {
		old := &netlink.Addr{IPNet: n.IPNet}
		if err = k.change(func() error { return k.h.AddrDel(l, old) }); err == nil || errors.Is(err, unix.EADDRNOTAVAIL) {
			err = k.change(func() error { return k.h.AddrAdd(l, n) })
		}
	}
	if err != nil {
		return fmt.Errorf("add address %s to %s: %w", a.Prefix, a.Link, err)
	}
	return nil
}

// subnetFree returns an error that names the other network whose address overlaps a's subnet. Concurrent callers share
// one listing.
func (k *Kernel) subnetFree(a netstate.Address) error {
	own, err := netip.ParsePrefix(a.Prefix)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	all, err := k.addrs.Get(ctx)
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	number, _ := LinkNumber(a.Link)
	for _, other := range all.own {
		if other.number != number && !other.shared && other.prefix.Overlaps(own) {
			return fmt.Errorf("%s still has %s: %w", other.link, other.prefix, netstate.ErrWaiting)
		}
	}
	for _, six := range all.six {
		other, _ := prefix(six.IPNet)
		if !other.Overlaps(own) {
			continue
		}
		l, err := k.h.LinkByIndex(six.LinkIndex) // an address of IPv6 has no label
		if isNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("find link %d: %w", six.LinkIndex, err)
		}
		if n, ours := LinkNumber(l.Attrs().Name); ours && n != number {
			return fmt.Errorf("%s still has %s: %w", l.Attrs().Name, other, netstate.ErrWaiting)
		}
	}
	return nil
}

// RemoveAddress removes an address from one of edgespan's links. A missing address or link is no error.
func (k *Kernel) RemoveAddress(a netstate.Address) error {
	l, n, err := k.addressOf(a)
	if isNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("remove address %s: %w", a.Prefix, err)
	}
	if err := k.change(func() error { return k.h.AddrDel(l, n) }); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) &&
		!isNotFound(err) {
		return fmt.Errorf("remove address %s from %s: %w", a.Prefix, a.Link, err)
	}
	return nil
}

func (k *Kernel) addressOf(a netstate.Address) (netlink.Link, *netlink.Addr, error) {
	if _, ok := LinkNumber(a.Link); !ok {
		return nil, nil, fmt.Errorf("link name %q: not an edgespan name", a.Link)
	}
	p, err := netip.ParsePrefix(a.Prefix)
	if err != nil {
		return nil, nil, err
	}
	l, err := k.find(a.Link)
	if err != nil {
		return nil, nil, err
	}
	return indexed(l.index, a.Link), &netlink.Addr{IPNet: ipNet(p), Flags: addressFlags(p)}, nil
}

// addressFlags are those of an address of edgespan's links. One of IPv6 is not tested for a duplicate: it could not be
// used while the bridge has no port with a carrier, and no app may use it (netinst/firewall6.go).
func addressFlags(p netip.Prefix) int {
	if p.Addr().Is6() {
		return unix.IFA_F_NOPREFIXROUTE | unix.IFA_F_NODAD
	}
	return unix.IFA_F_NOPREFIXROUTE
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// prefix converts an address reported by the kernel, host bits included.
func prefix(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), bits), ok
}
