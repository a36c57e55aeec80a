package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ifaProto is IFA_PROTO (linux/if_addr.h, since 5.18): one octet that names the program that has set an address.
const ifaProto = 11

// forEver is a lifetime without an end (linux/if_addr.h, ifa_cacheinfo).
const forEver = 1<<32 - 1

// hostAddr is an IPv4 address with its protocol.
type hostAddr struct {
	index  int
	prefix netip.Prefix
	proto  int
	ends   time.Time // zero for never
}

// ObservePorts lists what ports have on the host: foreign links that are up, their IPv4 addresses, VLANs, and the
// default routes in the main table that are edgespan's.
func (k *Kernel) ObservePorts(context.Context) (netstate.State, error) {
	links, err := whileUnchanged(k, k.h.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	addrs, err := k.listHostAddrs()
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	routes, err := k.listRoutes(unix.AF_INET, netstate.RouteProtocol, unix.RT_TABLE_MAIN)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	s, names := netstate.State{}, map[int]string{}
	for _, l := range links {
		a := l.Attrs()
		names[a.Index] = a.Name
		if !isPort(l) {
			continue
		}
		if a.Flags&net.FlagUp != 0 {
			s.Add(netstate.Port{Link: a.Name, Foreign: true})
		}
		for _, ad := range addrs {
			if ad.index == a.Index {
				s.Add(netstate.Address{Link: a.Name, Prefix: ad.prefix.String(), Foreign: true,
					Unmarked: ad.proto != netstate.RouteProtocol, Ends: ad.ends})
			}
		}
	}
	for _, l := range links {
		if v, ok := vlanOf(l, names); ok {
			s.Add(v)
		}
	}
	observeRoutes(s, routes, names)
	return s, nil
}

// isPort reports whether a link can be a port: it is not one of edgespan's, and not the loopback interface.
func isPort(l netlink.Link) bool {
	_, own := linkOwner(l.Attrs().Name, l.Attrs().Alias)
	return !own && isForeign(l.Attrs().Name)
}

func (k *Kernel) listHostAddrs() ([]hostAddr, error) {
	return whileUnchanged(k, func() ([]hostAddr, error) {
		msgs, err := k.rt.request(unix.RTM_GETADDR, unix.NLM_F_DUMP,
			nl.NewIfAddrmsg(unix.AF_INET)).Execute(unix.NETLINK_ROUTE, unix.RTM_NEWADDR)
		if err != nil {
			return nil, err
		}
		var addrs []hostAddr
		for _, m := range msgs {
			if a, ok := parseHostAddr(m); ok {
				addrs = append(addrs, a)
			}
		}
		return addrs, nil
	})
}

func parseHostAddr(m []byte) (a hostAddr, ok bool) {
	if len(m) < unix.SizeofIfAddrmsg {
		return a, false
	}
	msg := nl.DeserializeIfAddrmsg(m)
	a.index = int(msg.Index)
	complete := eachAttr(m[unix.SizeofIfAddrmsg:], func(kind uint16, v []byte) {
		switch {
		case kind == unix.IFA_LOCAL:
			a.prefix = netip.PrefixFrom(addr(v), int(msg.Prefixlen))
		case kind == ifaProto && len(v) == 1:
			a.proto = int(v[0])
		case kind == unix.IFA_CACHEINFO && len(v) >= 8:
			if valid := nl.NativeEndian().Uint32(v[4:]); valid != forEver {
				a.ends = time.Now().Add(time.Duration(valid) * time.Second)
			}
		}
	})
	return a, complete && a.prefix.IsValid()
}

// foreignPort returns a foreign link, or an error that wraps netstate.ErrWaiting if it does not exist or is a part of
// another link, where an address would have no effect.
func (k *Kernel) foreignPort(name string) (netlink.Link, error) {
	l, err := k.linkByName(name)
	switch {
	case isNotFound(err):
		return nil, fmt.Errorf("interface %s does not exist: %w", name, netstate.ErrWaiting)
	case err != nil:
		return nil, fmt.Errorf("find link %s: %w", name, err)
	case !isPort(l):
		return nil, fmt.Errorf("interface %s: belongs to a network", name)
	case l.Attrs().MasterIndex != 0:
		return nil, fmt.Errorf("interface %s is enslaved to another one: %w", name, netstate.ErrWaiting)
	}
	return l, nil
}

// SetForeignUp sets a port's interface up.
func (k *Kernel) SetForeignUp(p netstate.Port) error {
	l, err := k.foreignPort(p.Link)
	if err == nil && l.Attrs().Flags&net.FlagUp == 0 {
		err = k.change(func() error { return k.h.LinkSetUp(l) })
	}
	if err != nil {
		return fmt.Errorf("set port up: %w", err)
	}
	return nil
}

// AddForeignAddress adds a marked address to a port's interface, or changes the end of the one that is there. One that
// another program has set stays as it is.
func (k *Kernel) AddForeignAddress(a netstate.Address) error {
	l, err := k.foreignPort(a.Link)
	if err != nil {
		return fmt.Errorf("add address %s: %w", a.Prefix, err)
	}
	p, err := netip.ParsePrefix(a.Prefix)
	if err != nil || !p.Addr().Is4() {
		return fmt.Errorf("add address %q: must be an IPv4 address with its prefix length", a.Prefix)
	}
	data := append(foreignAddress(l, p), lifetime(a.Ends, time.Now()))
	err = k.do(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, data...)
	there := errors.Is(err, unix.EEXIST)
	if err != nil && !there {
		return fmt.Errorf("add address %s to %s: %w", a.Prefix, a.Link, err)
	}
	marked, err := k.isMarked(l, p)
	switch {
	case err != nil || marked && !there:
		return err
	case marked:
		if err := k.do(unix.RTM_NEWADDR, unix.NLM_F_REPLACE, data...); err != nil {
			return fmt.Errorf("change address %s of %s: %w", a.Prefix, a.Link, err)
		}
		return nil
	case there:
		return nil
	}
	return errors.Join(fmt.Errorf("add address %s to %s: the kernel is older than 5.18 and cannot mark addresses",
		a.Prefix, a.Link), k.do(unix.RTM_DELADDR, 0, data...))
}

// RemoveForeignAddress removes a marked address from a port's interface. It is no error if there is none.
func (k *Kernel) RemoveForeignAddress(a netstate.Address) error {
	l, err := k.linkByName(a.Link)
	if isNotFound(err) {
		return nil
	}
	p, perr := netip.ParsePrefix(a.Prefix)
	if err = errors.Join(err, perr); err != nil {
		return fmt.Errorf("remove address %s: %w", a.Prefix, err)
	}
	marked, err := k.isMarked(l, p)
	if err == nil && marked {
		err = k.do(unix.RTM_DELADDR, 0, foreignAddress(l, p)...)
	}
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) && !isNotFound(err) {
		return fmt.Errorf("remove address %s from %s: %w", a.Prefix, a.Link, err)
	}
	return nil
}

// SharesSubnet reports whether the link of an address has another one in the same subnet.
func (k *Kernel) SharesSubnet(a netstate.Address) (bool, error) {
	l, err := k.linkByName(a.Link)
	if isNotFound(err) {
		return false, nil
	}
	p, perr := netip.ParsePrefix(a.Prefix)
	addrs, lerr := k.listHostAddrs()
	if err = errors.Join(err, perr, lerr); err != nil {
		return false, fmt.Errorf("find the addresses of %s: %w", a.Link, err)
	}
	for _, o := range addrs {
		if o.index == l.Attrs().Index && o.prefix != p && o.prefix.Masked() == p.Masked() {
			return true, nil
		}
	}
	return false, nil
}

// isMarked reports whether a link has an address that edgespan has set.
func (k *Kernel) isMarked(l netlink.Link, p netip.Prefix) (bool, error) {
	addrs, err := k.listHostAddrs()
	for _, a := range addrs {
		if a.index == l.Attrs().Index && a.prefix == p && a.proto == netstate.RouteProtocol {
			return true, nil
		}
	}
	return false, err
}

// lifetime is the attribute by which the kernel removes an address in time: to the second, and at least one from now.
func lifetime(ends, now time.Time) nl.NetlinkRequestData {
	left := uint32(forEver)
	if !ends.IsZero() {
		left = uint32(min(max(ends.Sub(now).Round(time.Second)/time.Second, 1), forEver-1))
	}
	var b []byte
	for _, v := range []uint32{left, left, 0, 0} { // preferred, valid, and when it was created and changed
		b = binary.NativeEndian.AppendUint32(b, v)
	}
	return nl.NewRtAttr(unix.IFA_CACHEINFO, b)
}

// foreignAddress is the message about an address, without flags: the kernel adds the route to its subnet.
func foreignAddress(l netlink.Link, p netip.Prefix) []nl.NetlinkRequestData {
	msg := nl.NewIfAddrmsg(unix.AF_INET)
	msg.Index, msg.Prefixlen = uint32(l.Attrs().Index), uint8(p.Bits())
	data := []nl.NetlinkRequestData{msg, nl.NewRtAttr(unix.IFA_LOCAL, p.Addr().AsSlice()),
		nl.NewRtAttr(unix.IFA_ADDRESS, p.Addr().AsSlice()), nl.NewRtAttr(ifaProto, []byte{netstate.RouteProtocol})}
	if p.Bits() < 31 { // RFC 3021: a /31 has no broadcast address
		last := p.Masked().Addr().As4()
		for i := range last {
			last[i] |= ^net.CIDRMask(p.Bits(), 32)[i]
		}
		data = append(data, nl.NewRtAttr(unix.IFA_BROADCAST, last[:]))
	}
	return data
}
