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

// Observe lists links, ports, addresses, routes and rules of network instance n.
// Dumps are shared among callers.
func (k *Kernel) Observe(ctx context.Context, n int) (netstate.State, error) {
	s := netstate.State{}
	links, err := k.links.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	names := links.names
	ours := map[int]string{}
	under := underlay{k: k}
	for _, l := range links.own[n] {
		ours[l.Attrs().Index] = l.Attrs().Name
		if err := k.addLinkObjects(ctx, s, l, names, &under); err != nil {
			return nil, err
		}
	}
	for _, l := range links.foreign[n] {
		s.Add(netstate.Port{Link: l.Attrs().Name, Master: bridgeName(n), Foreign: true, Down: l.Attrs().Flags&net.FlagUp == 0})
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
	switch o.Type {
	case netstate.Veth:
		if m, ok := netstate.ParseVethMark(a.Alias); ok && !m.Unknown {
			o.Replaced = !k.peerIn(ctx, m.Netns, a.NetNsID)
		}
	case netstate.Bridge:
		bridges, err := k.bridges.Get(ctx)
		if err != nil {
			return fmt.Errorf("list bridges: %w", err)
		}
		o.Attrs = bridges[a.Index]
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
func (k *Kernel) peerIn(ctx context.Context, name string, id int) bool {
	ns, err := k.openNetns(ctx, name)
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
	for index, link := range ours {
		for _, a := range addrs.byLink[index] {
			p, valid := prefix(a.IPNet)
			// An address that the kernel gives a link by itself is desired by none.
			if !valid || p.Addr().IsLinkLocalUnicast() && p.Addr().Is6() {
				continue
			}
			if a.Flags&unix.IFA_F_NOPREFIXROUTE == 0 {
				continue // not as we make them: absent, so that it is added anew
			}
			s.Add(netstate.Address{Link: link, Prefix: p.String()})
		}
	}
	return nil
}

func (k *Kernel) observeRoutes(ctx context.Context, s netstate.State, n int, names map[int]string) error {
	routes, err := k.routes.Get(ctx)
	if err != nil {
		return fmt.Errorf("list routes: %w", err)
	}
	for _, r := range routes[n] {
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
	for _, r := range rules[n] {
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
	for n, own := range links.own {
		for _, l := range own {
			name, marked := strings.CutPrefix(l.Attrs().Alias, aliasMark+"ni ")
			if !marked || l.Attrs().Name != bridgeName(n) {
				name = found[n]
			}
			found[n] = name
		}
	}
	routes, err := k.routes.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	for n := range routes {
		found[n] += ""
	}
	rules, err := k.rules.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list rules: %w", err)
	}
	for n := range rules {
		found[n] += ""
	}
	return found, nil
}

func bridgeName(n int) string { return fmt.Sprintf("es%d", n) }
