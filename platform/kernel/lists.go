package kernel

import (
	"context"

	"edgespan/netinst/netstate"
	"edgespan/platform/dump"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A listing is sorted by network once, and not by each of the networks that share it: with a
// thousand of them it was that which took the time.

// linkList is all links.
type linkList struct {
	names   map[int]string // by index
	own     map[int][]netlink.Link
	foreign map[int][]netlink.Link // of others, by the network in whose bridge they are
}

func listLinks(all []netlink.Link) linkList {
	l := linkList{names: make(map[int]string, len(all)), own: map[int][]netlink.Link{}, foreign: map[int][]netlink.Link{}}
	for _, x := range all {
		l.names[x.Attrs().Index] = x.Attrs().Name
	}
	for _, x := range all {
		a := x.Attrs()
		if n, ours := linkOwner(a.Name, a.Alias); ours {
			l.own[n] = append(l.own[n], x)
		} else if n, is := LinkNumber(l.names[a.MasterIndex]); is && l.names[a.MasterIndex] == bridgeName(n) {
			l.foreign[n] = append(l.foreign[n], x)
		}
	}
	return l
}

// addrList is all addresses.
type addrList struct {
	all    []netlink.Addr
	byLink map[int][]netlink.Addr // by index
}

func listAddrs(all []netlink.Addr) addrList {
	l := addrList{all: all, byLink: map[int][]netlink.Addr{}}
	for _, a := range all {
		l.byLink[a.LinkIndex] = append(l.byLink[a.LinkIndex], a)
	}
	return l
}

// byNumber sorts what is ours by network.
func byNumber[T any](all []T, number func(T) (int, bool)) map[int][]T {
	found := map[int][]T{}
	for _, x := range all {
		if n, ours := number(x); ours {
			found[n] = append(found[n], x)
		}
	}
	return found
}

func (k *Kernel) share() {
	k.links = dump.New(requestTimeout, func(context.Context) (linkList, error) {
		all, err := retry(k.h.LinkList)
		return listLinks(all), err
	})
	k.addrs = dump.New(requestTimeout, func(context.Context) (addrList, error) {
		all, err := retry(func() ([]netlink.Addr, error) { return k.h.AddrList(nil, netlink.FAMILY_ALL) })
		return listAddrs(all), err
	})
	k.bridges = dump.New(requestTimeout, func(context.Context) (map[int]map[string]uint64, error) { return k.listBridges() })
	k.isolated = dump.New(requestTimeout, func(context.Context) (map[int]bool, error) { return k.listIsolated() })
	k.routes = dump.New(requestTimeout, func(context.Context) (map[int][]route, error) {
		all, err := k.listRoutes(unix.AF_UNSPEC, netstate.RouteProtocol, 0)
		return byNumber(all, func(r route) (int, bool) { return TableNumber(r.table) }), err
	})
	k.flows = dump.NewBatch(k.walk)
	k.rules = dump.New(requestTimeout, func(context.Context) (map[int][]netlink.Rule, error) {
		all, err := retry(func() ([]netlink.Rule, error) { return k.h.RuleList(netlink.FAMILY_ALL) })
		return byNumber(all, func(r netlink.Rule) (int, bool) {
			n, ours := PriorityNumber(r.Priority)
			return n, ours && r.Protocol == netstate.RouteProtocol
		}), err
	})
}
