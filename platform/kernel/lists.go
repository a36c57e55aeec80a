package kernel

import (
	"context"
	"fmt"
	"net/netip"

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
	own     map[int][]netlink.Link
	foreign map[int][]netlink.Link // foreign links, by the network whose bridge they are in
}

func listLinks(all []netlink.Link) linkList {
	l := linkList{names: make(map[int]string, len(all)), own: map[int][]netlink.Link{}, foreign: map[int][]netlink.Link{}}
	for _, x := range all {
		l.names[x.Attrs().Index] = x.Attrs().Name
	}
	for _, x := range all {
		a := x.Attrs()
		if n, own := linkOwner(a.Name, a.Alias); own {
			l.own[n] = append(l.own[n], x)
		} else if n, is := LinkNumber(l.names[a.MasterIndex]); is && l.names[a.MasterIndex] == bridgeName(n) {
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
}

// ownAddr is an address of a network's link. The kernel labels an address with its link's name.
type ownAddr struct {
	number int
	label  string
	prefix netip.Prefix
}

func listAddrs(all []netlink.Addr) addrList {
	l := addrList{all: all, byLink: map[int][]netlink.Addr{}}
	for _, a := range all {
		l.byLink[a.LinkIndex] = append(l.byLink[a.LinkIndex], a)
		p, ok := prefix(a.IPNet)
		if n, own := LinkNumber(a.Label); ok && own && p.Addr().Is4() {
			l.own = append(l.own, ownAddr{n, a.Label, p})
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
	links   linkList
	bridges map[int]map[string]uint64
	addrs   addrList
	routes  map[int][]route        // edgespan's own, by number
	rules   map[int][]netlink.Rule // edgespan's own, by number
}

func (k *Kernel) share() {
	k.world = dump.New(worldTimeout, func(context.Context) (world, error) { return k.listWorld() })
	k.addrs = dump.New(requestTimeout, func(context.Context) (addrList, error) { return k.listAddresses() })
	k.isolated = dump.New(requestTimeout, func(context.Context) (map[int]bool, error) { return k.listIsolated() })
	k.rules = dump.New(requestTimeout, func(context.Context) (map[int][]netlink.Rule, error) { return k.listRules() })
	k.flows = dump.NewBatch(k.walk)
}

func (k *Kernel) listWorld() (w world, err error) {
	links, err := whileUnchanged(k, k.h.LinkList)
	if err != nil {
		return w, fmt.Errorf("list links: %w", err)
	}
	w.links = listLinks(links)
	if w.bridges, err = k.listBridges(); err != nil {
		return w, fmt.Errorf("list bridges: %w", err)
	}
	if w.addrs, err = k.listAddresses(); err != nil {
		return w, fmt.Errorf("list addresses: %w", err)
	}
	routes, err := k.listRoutes(unix.AF_UNSPEC, netstate.RouteProtocol, 0)
	if err != nil {
		return w, fmt.Errorf("list routes: %w", err)
	}
	w.routes = byNumber(routes, func(r route) (int, bool) { return TableNumber(r.table) })
	if w.rules, err = k.listRules(); err != nil {
		return w, fmt.Errorf("list rules: %w", err)
	}
	return w, nil
}

func (k *Kernel) listAddresses() (addrList, error) {
	all, err := whileUnchanged(k, func() ([]netlink.Addr, error) { return k.h.AddrList(nil, netlink.FAMILY_ALL) })
	return listAddrs(all), err
}

// listRules returns edgespan's policy rules by network instance number.
func (k *Kernel) listRules() (map[int][]netlink.Rule, error) {
	all, err := whileUnchanged(k, func() ([]netlink.Rule, error) { return k.h.RuleList(netlink.FAMILY_ALL) })
	return byNumber(all, func(r netlink.Rule) (int, bool) {
		n, own := PriorityNumber(r.Priority)
		return n, own && r.Protocol == netstate.RouteProtocol
	}), err
}
