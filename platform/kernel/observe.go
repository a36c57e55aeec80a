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

// replaced marks the alias of a veth whose peer is no longer in the namespace
// that is now at the path where it was made, so that it differs from the wish.
const replaced = " (namespace replaced)"

// Observe lists links, ports, addresses, routes and rules of network instance n.
// Dumps are shared among callers.
func (k *Kernel) Observe(ctx context.Context, n int) (netstate.State, error) {
	s := netstate.State{}
	links, err := k.links.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
	}
	ours := map[int]string{}
	under := underlay{k: k}
	for _, l := range links {
		a := l.Attrs()
		switch num, ok := linkOwner(a.Name, a.Alias); {
		case ok && num == n:
			ours[a.Index] = a.Name
			if err := k.addLinkObjects(ctx, s, l, names, &under); err != nil {
				return nil, err
			}
		case !ok && a.MasterIndex != 0 && names[a.MasterIndex] == bridgeName(n):
			s.Add(netstate.Port{Link: a.Name, Master: bridgeName(n), Foreign: true, Down: a.Flags&net.FlagUp == 0})
		}
	}
	if err := k.observeAddresses(ctx, s, ours); err != nil {
		return nil, err
	}
	if err := k.observeRoutes(ctx, s, n, names); err != nil {
		return nil, err
	}
	return s, k.observeRules(ctx, s, n)
}

func (k *Kernel) addLinkObjects(ctx context.Context, s netstate.State, l netlink.Link, names map[int]string, under *underlay) error {
	a := l.Attrs()
	o := netstate.Link{Name: a.Name, Type: linkType(l), MAC: a.HardwareAddr.String(), MTU: a.MTU, Alias: a.Alias}
	if name, ok := aliasNetns(a.Alias); ok && o.Type == netstate.Veth && !k.peerIn(name, a.NetNsID) {
		o.Alias += replaced
	}
	var isolated map[int]bool
	if v, ok := l.(*netlink.Vxlan); ok {
		if err := under.look(ctx); err != nil {
			return err
		}
		o.Vxlan, isolated = k.tunnelOf(v, under.addrs), under.isolated
	}
	s.Add(o)
	if a.Flags&net.FlagUp == 0 {
		return nil
	}
	s.Add(netstate.Port{Link: a.Name, Master: names[a.MasterIndex], Isolated: isolated[a.Index]})
	return nil
}

// peerIn says whether a veth's peer, by the id that our namespace has for its
// namespace, is in the namespace now at name's path. While there is none the
// peer's own namespace may live on unnamed, so the link stays as it is.
func (k *Kernel) peerIn(name string, id int) bool {
	ns, err := k.openNetns(name)
	if err != nil {
		return true
	}
	defer ns.Close()
	now, err := k.h.GetNetNsIdByFd(int(ns.Fd()))
	return err != nil || now == id
}

func (k *Kernel) observeAddresses(ctx context.Context, s netstate.State, ours map[int]string) error {
	if len(ours) == 0 {
		return nil
	}
	addrs, err := k.addrs.Get(ctx)
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addrs {
		link, ok := ours[a.LinkIndex]
		p, valid := prefix(a.IPNet)
		// An address that the kernel gives a link by itself is no wish of anyone.
		if !ok || !valid || p.Addr().IsLinkLocalUnicast() && p.Addr().Is6() {
			continue
		}
		if a.Flags&unix.IFA_F_NOPREFIXROUTE == 0 {
			continue // not as we make them: absent, so that it is added anew
		}
		s.Add(netstate.Address{Link: link, Prefix: p.String()})
	}
	return nil
}

func (k *Kernel) observeRoutes(ctx context.Context, s netstate.State, n int, names map[int]string) error {
	routes, err := k.routes.Get(ctx)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if num, ok := TableNumber(r.table); !ok || num != n {
			continue
		}
		dev := names[r.oif]
		if dev == "" && r.oif != 0 {
			dev = fmt.Sprintf("index-%d", r.oif) // came after the links were listed
		}
		s.Add(r.object(dev))
	}
	return nil
}

func (k *Kernel) observeRules(ctx context.Context, s netstate.State, n int) error {
	rules, err := k.rules.Get(ctx)
	if err != nil {
		return fmt.Errorf("list rules: %w", err)
	}
	for _, r := range rules {
		if num, ok := PriorityNumber(r.Priority); !ok || num != n || r.Protocol != netstate.RouteProtocol {
			continue
		}
		o := ruleObject(r)
		if other, twice := s[o.ID()].(netstate.Rule); twice {
			// A crash in the middle of a change left two: neither is as wanted.
			o.From = strings.TrimSpace(o.From + " beside " + other.Text())
		}
		s.Add(o)
	}
	return nil
}

// Numbers lists the network instance numbers of which a link, route or rule
// exists, with the name that the bridge's alias gives, "" if none does.
func (k *Kernel) Numbers(ctx context.Context) (map[int]string, error) {
	found := map[int]string{}
	links, err := k.links.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	for _, l := range links {
		n, ok := linkOwner(l.Attrs().Name, l.Attrs().Alias)
		if !ok {
			continue
		}
		name, marked := strings.CutPrefix(l.Attrs().Alias, aliasMark+"ni ")
		if !marked || l.Attrs().Name != bridgeName(n) {
			name = found[n]
		}
		found[n] = name
	}
	routes, err := k.routes.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes {
		if n, ok := TableNumber(r.table); ok {
			found[n] += ""
		}
	}
	rules, err := k.rules.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list rules: %w", err)
	}
	for _, r := range rules {
		if n, ok := PriorityNumber(r.Priority); ok && r.Protocol == netstate.RouteProtocol {
			found[n] += ""
		}
	}
	return found, nil
}

func bridgeName(n int) string { return fmt.Sprintf("es%d", n) }
