package kernel

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"edgespan/netinst/netstate"

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
	spans := func(l link) bool { return l.odd["stp_state"] != 0 }
	vlans, err := k.vlansOf(ctx, links.own[n])
	if err != nil {
		return nil, err
	}
	under := underlay{k: k, vlans: vlans, spanning: slices.ContainsFunc(links.own[n], spans)}
	peers := k.peers.of(k, n)
	defer peers.keep()
	for _, l := range links.own[n] {
		own[l.index] = l.name
		if _, tunnel := netstate.VPNNumber(l.name); tunnel { // not a link by itself: see netstate.VPN
			continue
		}
		if err := k.addLinkObjects(ctx, s, l, names, &under, peers); err != nil {
			return nil, err
		}
	}
	if len(links.foreign[n]) > 0 && under.spanning {
		if err := under.observe(ctx); err != nil {
			return nil, err
		}
	}
	for _, l := range links.foreign[n] {
		s.Add(netstate.Port{Link: l.name, Master: bridgeName(n), Foreign: true, Down: !l.up, VLANs: vlans[l.index],
			Guarded: under.ports[l.index].guarded, Cut: under.ports[l.index].cut, Station: l.station})
	}
	observeAddresses(s, own, w.addrs)
	observeRoutes(s, w.routes[n], names)
	observeRules(s, w.rules[n])
	return s, nil
}

func (k *Kernel) addLinkObjects(ctx context.Context, s netstate.State, l link, names map[int]string,
	under *underlay, peers *peerSearch) error {
	o := netstate.Link{Name: l.name, Type: l.kind, MAC: l.mac, MTU: l.mtu, Alias: l.alias, Attrs: l.odd}
	if m, ok := netstate.ParseVethMark(l.alias); ok && l.kind == netstate.Veth && !m.Unknown {
		o.Replaced = !peers.isIn(ctx, m.Netns, l)
	}
	var ports map[int]portFlags
	if l.vxlan != nil || l.master != 0 && under.spanning {
		if err := under.observe(ctx); err != nil {
			return err
		}
		ports = under.ports
	}
	if l.vxlan != nil {
		o.Vxlan = k.tunnelOf(l.vxlan, under.addrs)
	}
	s.Add(o)
	if f := ports[l.index]; l.up {
		s.Add(netstate.Port{Link: l.name, Master: names[l.master], Isolated: f.isolated, Guarded: f.guarded,
			Cut: f.cut, VLANs: under.vlans[l.index], Station: l.station})
	}
	return nil
}

func observeAddresses(s netstate.State, own map[int]string, addrs addrList) {
	for index, link := range own {
		for _, a := range addrs.byLink[index] {
			p, valid := prefix(a.IPNet)
			if !valid || a.Flags&unix.IFA_F_NOPREFIXROUTE == 0 {
				continue // differs from edgespan's addresses: report it absent, so that it is added again
			}
			o := netstate.Address{Link: link, Prefix: p.String()}
			if a.Label != link { // of IPv6 there is none
				o.Label = a.Label
			}
			s.Add(o)
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

// ObserveRules lists only the policy rules of network instance n, 0 for host.
func (k *Kernel) ObserveRules(ctx context.Context, n int) (netstate.State, error) {
	rules, err := k.observed.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("list rules: %w", err)
	}
	s := netstate.State{}
	observeRules(s, rules[n])
	return s, nil
}

func observeRules(s netstate.State, rules []netstate.Rule) {
	for _, o := range rules {
		if other, twice := s[o.ID()].(netstate.Rule); twice {
			// A crash in the middle of a change left two: neither equals the desired rule.
			if o.Goto != 0 { // whose ID has the selector
				o.Goto = -1
			} else {
				o.From = strings.TrimSpace(o.From + " beside " + other.Text())
			}
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
			name, marked := strings.CutPrefix(l.alias, aliasMark+"ni ")
			if !marked || l.name != bridgeName(n) {
				name = found[n]
			}
			found[n] = name
		}
	}
	for n := range w.routes {
		found[n] += ""
	}
	for n := range w.rules {
		if n > 0 { // otherwise host's
			found[n] += ""
		}
	}
	return found, nil
}

func bridgeName(n int) string { return fmt.Sprintf("es%d", n) }
