package kernel

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"edgespan/netinst/netstate"
	"edgespan/platform/dump"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Each listing is sorted by network once, not by each network that shares it: with a thousand networks, sorting
// dominated the time.

// linkList holds all links.
type linkList struct {
	names   map[int]string // by index
	own     map[int][]link
	foreign map[int][]link // foreign links, by the network whose bridge they are in
}

func newLinkList(all []link) linkList {
	l := linkList{names: make(map[int]string, len(all)), own: map[int][]link{}, foreign: map[int][]link{}}
	for _, x := range all {
		l.names[x.index] = x.name
	}
	for _, x := range all {
		if n, own := linkOwner(x.name, x.alias); own {
			l.own[n] = append(l.own[n], x)
		} else if n, ok := LinkNumber(l.names[x.master]); ok && l.names[x.master] == bridgeName(n) {
			l.foreign[n] = append(l.foreign[n], x)
		}
	}
	return l
}

// addrList holds all addresses.
type addrList struct {
	all    []netlink.Addr
	byLink map[int][]netlink.Addr // by index
	own    []ownAddr              // IPv4
	six    []netlink.Addr         // IPv6, as edgespan sets them: without a prefix route
}

// ownAddr is an address of a network's link. The kernel labels an address with its link's name, unless it is told
// another label, which begins with it.
type ownAddr struct {
	number int
	link   string
	shared bool // other networks may have its subnet (netstate.Address.Label)
	prefix netip.Prefix
}

func listAddrs(all []netlink.Addr) addrList {
	l := addrList{all: all, byLink: map[int][]netlink.Addr{}}
	for _, a := range all {
		l.byLink[a.LinkIndex] = append(l.byLink[a.LinkIndex], a)
		p, ok := prefix(a.IPNet)
		link, _, labelled := strings.Cut(a.Label, ":")
		if n, own := LinkNumber(link); ok && own && p.Addr().Is4() {
			l.own = append(l.own, ownAddr{n, link, labelled, p})
		}
		if ok && p.Addr().Is6() && !p.Addr().IsLinkLocalUnicast() && a.Flags&unix.IFA_F_NOPREFIXROUTE != 0 {
			l.six = append(l.six, a)
		}
	}
	return l
}

// byNumber groups edgespan's own objects by network.
func byNumber[T any](all []T, number func(T) (int, bool)) map[int][]T {
	found := map[int][]T{}
	for _, x := range all {
		if n, own := number(x); own {
			found[n] = append(found[n], x)
		}
	}
	return found
}

// world holds everything that Observe reports, listed together because every caller needs all of it.
type world struct {
	links  linkList
	addrs  addrList
	routes map[int][]route         // edgespan's own, by number
	rules  map[int][]netstate.Rule // edgespan's own, by number
}

func (k *Kernel) share() {
	k.world = dump.New(worldTimeout, func(context.Context) (world, error) { return k.listWorld() })
	k.addrs = dump.New(requestTimeout, func(context.Context) (addrList, error) { return k.listAddresses() })
	k.portFlags = dump.New(requestTimeout, func(context.Context) (map[int]portFlags, error) { return k.listPortFlags() })
	k.vlans = dump.New(requestTimeout,
		func(context.Context) (map[int][]netstate.VLANMember, error) { return k.listVLANs() })
	k.rules = dump.New(requestTimeout, func(context.Context) (map[int][]netlink.Rule, error) { return k.listRules() })
	k.observed = dump.New(requestTimeout, func(context.Context) (map[int][]netstate.Rule, error) { return k.readRules() })
	k.flows = dump.NewBatch(k.walk)
}

func (k *Kernel) listWorld() (w world, err error) {
	links, err := k.listLinks()
	if err != nil {
		return w, fmt.Errorf("list links: %w", err)
	}
	if err := k.addStations(links); err != nil {
		return w, fmt.Errorf("list the stations of bridges: %w", err)
	}
	w.links = newLinkList(links)
	if w.addrs, err = k.listAddresses(); err != nil {
		return w, fmt.Errorf("list addresses: %w", err)
	}
	routes, err := k.listRoutes(unix.AF_UNSPEC, netstate.RouteProtocol, 0)
	if err != nil {
		return w, fmt.Errorf("list routes: %w", err)
	}
	w.routes = byNumber(routes, func(r route) (int, bool) { return TableNumber(r.table) })
	if w.rules, err = k.readRules(); err != nil {
		return w, fmt.Errorf("list rules: %w", err)
	}
	return w, nil
}

func (k *Kernel) listAddresses() (addrList, error) {
	all, err := whileUnchanged(k, func() ([]netlink.Addr, error) { return k.h.AddrList(nil, netlink.FAMILY_ALL) })
	return listAddrs(all), err
}

// listRules returns edgespan's policy rules by network instance number, with all that identifies each to the kernel.
func (k *Kernel) listRules() (map[int][]netlink.Rule, error) {
	all, err := whileUnchanged(k, func() ([]netlink.Rule, error) { return k.h.RuleList(netlink.FAMILY_ALL) })
	return byNumber(all, func(r netlink.Rule) (int, bool) {
		n, own := PriorityNumber(r.Priority)
		return n, own && r.Protocol == netstate.RouteProtocol
	}), err
}
