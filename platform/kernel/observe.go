package kernel

import (
	"context"
	"fmt"
	"net"
	"strings"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Observe lists links, ports, addresses, routes and rules of network instance n. Concurrent callers share dumps.
func (k *Kernel) Observe(ctx context.Context, n int) (netstate.State, error) {
	s := netstate.State{}
	w, err := k.world.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the host's links, addresses, routes and rules: %w", err)
	}
	links, names := w.links, w.links.names
	own := map[int]string{}
	under := underlay{k: k}
	for _, l := range links.own[n] {
		own[l.Attrs().Index] = l.Attrs().Name
		if err := k.addLinkObjects(ctx, s, l, w, &under); err != nil {
			return nil, err
		}
	}
	for _, l := range links.foreign[n] {
		s.Add(netstate.Port{Link: l.Attrs().Name, Master: bridgeName(n), Foreign: true,
			Down: l.Attrs().Flags&net.FlagUp == 0})
	}
	observeAddresses(s, own, w.addrs)
	observeRoutes(s, w.routes[n], names)
	observeRules(s, w.rules[n])
	return s, nil
}

func (k *Kernel) addLinkObjects(ctx context.Context, s netstate.State, l netlink.Link, w world, under *underlay) error {
	a := l.Attrs()
	o := netstate.Link{Name: a.Name, Type: linkType(l), MAC: a.HardwareAddr.String(), MTU: a.MTU, Alias: a.Alias}
	switch o.Type {
	case netstate.Veth:
		if m, ok := netstate.ParseVethMark(a.Alias); ok && !m.Unknown {
			o.Replaced = !k.peerIn(ctx, m.Netns, a.NetNsID)
		}
	case netstate.Bridge:
		o.Attrs = w.bridges[a.Index]
	}
	var isolated map[int]bool
	if v, ok := l.(*netlink.Vxlan); ok {
		if err := under.observe(ctx); err != nil {
			return err
		}
		o.Vxlan, isolated = k.tunnelOf(v, under.addrs), under.isolated
	}
	s.Add(o)
	if a.Flags&net.FlagUp == 0 {
		return nil
	}
	s.Add(netstate.Port{Link: a.Name, Master: w.links.names[a.MasterIndex], Isolated: isolated[a.Index]})
	return nil
}

// peerIn reports whether a veth's peer is in the namespace currently at name's path; id is the kernel's ID for the
// peer's namespace. If no namespace is at the path, the peer's own may live on unnamed, so the link stays unchanged.
func (k *Kernel) peerIn(ctx context.Context, name string, id int) bool {
	ns, err := k.openNetns(ctx, name)
	if err != nil {
		return true
	}
	defer ns.Close()
	now, err := k.h.GetNetNsIdByFd(int(ns.Fd()))
	return err != nil || now == id
}

func observeAddresses(s netstate.State, own map[int]string, addrs addrList) {
	for index, link := range own {
		for _, a := range addrs.byLink[index] {
			p, valid := prefix(a.IPNet)
			// No config desires an address that the kernel assigns by itself.
			if !valid || p.Addr().IsLinkLocalUnicast() && p.Addr().Is6() {
				continue
			}
			if a.Flags&unix.IFA_F_NOPREFIXROUTE == 0 {
				continue // differs from edgespan's addresses: report it absent, so that it is added again
			}
			s.Add(netstate.Address{Link: link, Prefix: p.String()})
		}
	}
}

func observeRoutes(s netstate.State, routes []route, names map[int]string) {
	for _, r := range routes {
		dev := names[r.oif]
		if dev == "" && r.oif != 0 {
			dev = fmt.Sprintf("index-%d", r.oif) // created after the links were listed
		}
		s.Add(r.object(dev))
	}
}

func observeRules(s netstate.State, rules []netlink.Rule) {
	for _, r := range rules {
		o := ruleObject(r)
		if other, twice := s[o.ID()].(netstate.Rule); twice {
			// A crash in the middle of a change left two: neither equals the desired rule.
			o.From = strings.TrimSpace(o.From + " beside " + other.Text())
		}
		s.Add(o)
	}
}

// Numbers lists the network instance numbers that own a link, route or rule, with the name from the bridge's alias (""
// if it gives none).
func (k *Kernel) Numbers(ctx context.Context) (map[int]string, error) {
	found := map[int]string{}
	w, err := k.world.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the host's links, routes and rules: %w", err)
	}
	for n, own := range w.links.own {
		for _, l := range own {
			name, marked := strings.CutPrefix(l.Attrs().Alias, aliasMark+"ni ")
			if !marked || l.Attrs().Name != bridgeName(n) {
				name = found[n]
			}
			found[n] = name
		}
	}
	for n := range w.routes {
		found[n] += ""
	}
	for n := range w.rules {
		found[n] += ""
	}
	return found, nil
}

func bridgeName(n int) string { return fmt.Sprintf("es%d", n) }
