package kernel

import (
	"errors"
	"fmt"
	"net/netip"

	"edgespan/netinst/netstate"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// route is one route as the kernel reports it; oif 0 means none.
type route struct {
	family, table, protocol, kind int
	dst                           netip.Prefix
	gw, src                       netip.Addr // gw may be an IPv6 address (RFC 5549)
	oif, metric, flags            int        // flags are RTNH_F_*
	more                          []nexthop  // nexthops of a multipath route
}

type nexthop struct {
	oif   int
	gw    netip.Addr
	flags int // RTNH_F_*
}

// listRoutes dumps the routes of a protocol and of a table; 0 matches any. The kernel filters, so a large foreign table
// costs nothing.
func (k *Kernel) listRoutes(family, protocol, table int) ([]route, error) {
	return whileUnchanged(k, func() ([]route, error) {
		msg := &nl.RtMsg{}
		msg.Family, msg.Protocol = uint8(family), uint8(protocol)
		data := []nl.NetlinkRequestData{msg}
		if table != 0 {
			data = append(data, nl.NewRtAttr(unix.RTA_TABLE, nl.Uint32Attr(uint32(table))))
		}
		msgs, err := k.rt.request(unix.RTM_GETROUTE, unix.NLM_F_DUMP, data...).Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
		if errors.Is(err, unix.ENOENT) { // no such table yet
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		var routes []route
		for _, m := range msgs {
			r, err := parseRoute(m)
			if err != nil {
				return nil, err
			}
			routes = append(routes, r)
		}
		return routes, nil
	})
}

func parseRoute(m []byte) (route, error) {
	if len(m) < unix.SizeofRtMsg {
		return route{}, errors.New("short route message")
	}
	msg := nl.DeserializeRtMsg(m)
	attrs, err := nl.ParseRouteAttr(m[msg.Len():])
	if err != nil {
		return route{}, fmt.Errorf("parse route: %w", err)
	}
	r := route{
		family: int(msg.Family), table: int(msg.Table), protocol: int(msg.Protocol), kind: int(msg.Type),
		flags: int(msg.Flags),
	}
	any4or6 := netip.IPv4Unspecified()
	if msg.Family == unix.AF_INET6 {
		any4or6 = netip.IPv6Unspecified()
	}
	r.dst = netip.PrefixFrom(any4or6, int(msg.Dst_len))
	for _, a := range attrs {
		switch a.Attr.Type {
		case unix.RTA_DST:
			r.dst = netip.PrefixFrom(addr(a.Value), int(msg.Dst_len))
		case unix.RTA_GATEWAY:
			r.gw = addr(a.Value)
		case unix.RTA_VIA:
			r.gw = viaAddr(a.Value)
		case unix.RTA_PREFSRC:
			r.src = addr(a.Value)
		case unix.RTA_OIF:
			r.oif = int(u32(a.Value))
		case unix.RTA_PRIORITY:
			r.metric = int(u32(a.Value))
		case unix.RTA_TABLE:
			r.table = int(u32(a.Value))
		case unix.RTA_MULTIPATH:
			r.more = parseNexthops(a.Value)
		}
	}
	return r, nil
}

func parseNexthops(b []byte) []nexthop {
	var hops []nexthop
	for len(b) >= unix.SizeofRtNexthop {
		nh := nl.DeserializeRtNexthop(b)
		n := int(nh.RtNexthop.Len)
		if n < unix.SizeofRtNexthop || n > len(b) {
			break
		}
		hop := nexthop{oif: int(nh.RtNexthop.Ifindex), flags: int(nh.RtNexthop.Flags)}
		attrs, err := nl.ParseRouteAttr(b[unix.SizeofRtNexthop:n])
		for _, a := range attrs {
			switch {
			case err != nil:
			case a.Attr.Type == unix.RTA_GATEWAY:
				hop.gw = addr(a.Value)
			case a.Attr.Type == unix.RTA_VIA:
				hop.gw = viaAddr(a.Value)
			}
		}
		hops = append(hops, hop)
		b = b[min((n+3)&^3, len(b)):]
	}
	return hops
}

func addr(b []byte) netip.Addr { a, _ := netip.AddrFromSlice(b); return a }

// viaAddr returns the gateway of an RTA_VIA, whose family differs from the route's: two octets of family, then the
// address (struct rtvia).
func viaAddr(b []byte) netip.Addr {
	if len(b) < 2 {
		return netip.Addr{}
	}
	return addr(b[2:])
}

func u32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return nl.NativeEndian().Uint32(b)
}

// object converts the route to netstate; dev is the name of its interface.
func (r route) object(dev string) netstate.Route {
	o := netstate.Route{Table: r.table, Dst: r.dst.String(), Type: netstate.Unicast, Dev: dev, Metric: r.metric}
	switch r.kind {
	case unix.RTN_UNICAST:
	case unix.RTN_UNREACHABLE:
		o.Type, o.Dev = netstate.Unreachable, "" // IPv6 reports lo
	default:
		o.Type = netstate.RouteType(fmt.Sprintf("type-%d", r.kind))
	}
	if r.gw.IsValid() {
		o.Via, o.OnLink = r.gw.String(), r.flags&unix.RTNH_F_ONLINK != 0
	}
	if r.src.IsValid() {
		o.Src = r.src.String()
	}
	return o
}

// PutRoute adds a route, or replaces edgespan's own route with the same destination, table and metric. A foreign route
// in its place is an error; a missing foreign interface is an error that wraps netstate.ErrWaiting.
func (k *Kernel) PutRoute(r netstate.Route) error {
	attrs, err := k.routeMessage(r)
	if err != nil {
		return fmt.Errorf("add route %s: %w", r.Dst, err)
	}
	err = k.do(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, attrs...)
	if errors.Is(err, unix.EEXIST) { // the kernel would replace any existing route
		if err = k.routeIsOwn(r); err == nil {
			err = k.do(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, attrs...)
		}
	}
	if err != nil {
		return fmt.Errorf("add route %s: %w", r.Dst, err)
	}
	return nil
}

// routeIsOwn returns an error if a foreign route has the same destination, table and metric.
func (k *Kernel) routeIsOwn(r netstate.Route) error {
	dst, err := netip.ParsePrefix(r.Dst)
	if err != nil {
		return err
	}
	there, err := k.listRoutes(int(family(dst.Addr())), 0, r.Table)
	if err != nil {
		return fmt.Errorf("list table %d: %w", r.Table, err)
	}
	for _, o := range there {
		if o.dst == dst.Masked() && o.metric == r.Metric && o.protocol != netstate.RouteProtocol {
			return fmt.Errorf("table %d: foreign route to %s of protocol %d: must have routes of protocol %d only",
				r.Table, r.Dst, o.protocol, netstate.RouteProtocol)
		}
	}
	return nil
}

// RemoveRoute deletes edgespan's route with this destination, table and metric. A missing route is no error.
func (k *Kernel) RemoveRoute(r netstate.Route) error {
	// Send only the identifying fields: the others may have changed since they were observed.
	key := netstate.Route{Table: r.Table, Dst: r.Dst, Metric: r.Metric, Type: r.Type}
	attrs, err := k.routeMessage(key)
	if err != nil {
		return fmt.Errorf("remove route %s: %w", r.Dst, err)
	}
	msg := attrs[0].(*nl.RtMsg)
	msg.Type, msg.Scope = unix.RTN_UNSPEC, unix.RT_SCOPE_NOWHERE // match any
	err = k.do(unix.RTM_DELROUTE, 0, attrs...)
	if err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove route %s: %w", r.Dst, err)
	}
	return nil
}

// IsPortRoute reports whether a route is the default route of a port, the only kind that edgespan has in the main
// table.
func IsPortRoute(r netstate.Route) bool {
	return r.Table == unix.RT_TABLE_MAIN && r.Dst == "0.0.0.0/0" && r.Type == netstate.Unicast && r.Metric != 0
}

func (k *Kernel) routeMessage(r netstate.Route) ([]nl.NetlinkRequestData, error) {
	if _, ok := TableNumber(r.Table); !ok && !IsPortRoute(r) {
		return nil, fmt.Errorf("table %d: not an edgespan table", r.Table)
	}
	dst, err := netip.ParsePrefix(r.Dst)
	if err != nil {
		return nil, err
	}
	msg := nl.NewRtMsg()
	msg.Family, msg.Dst_len = family(dst.Addr()), uint8(dst.Bits())
	msg.Protocol, msg.Table = netstate.RouteProtocol, unix.RT_TABLE_UNSPEC
	msg.Scope, msg.Type = unix.RT_SCOPE_UNIVERSE, unix.RTN_UNICAST
	attrs := []nl.NetlinkRequestData{msg, nl.NewRtAttr(unix.RTA_TABLE, nl.Uint32Attr(uint32(r.Table)))}
	if dst.Bits() > 0 {
		attrs = append(attrs, nl.NewRtAttr(unix.RTA_DST, dst.Masked().Addr().AsSlice()))
	}
	if r.Metric != 0 {
		attrs = append(attrs, nl.NewRtAttr(unix.RTA_PRIORITY, nl.Uint32Attr(uint32(r.Metric))))
	}
	if r.Type == netstate.Unreachable {
		msg.Type = unix.RTN_UNREACHABLE
	} else if r.Via == "" {
		msg.Scope = unix.RT_SCOPE_LINK
	}
	if r.Dev != "" {
		l, err := k.find(r.Dev)
		if isNotFound(err) && isForeign(r.Dev) {
			return nil, fmt.Errorf("interface %s does not exist: %w", r.Dev, netstate.ErrWaiting)
		} else if err != nil {
			return nil, fmt.Errorf("find link %s: %w", r.Dev, err)
		}
		attrs = append(attrs, nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(l.index))))
	}
	if r.OnLink {
		msg.Flags |= unix.RTNH_F_ONLINK
	}
	for _, a := range []struct {
		attr int
		text string
	}{{unix.RTA_GATEWAY, r.Via}, {unix.RTA_PREFSRC, r.Src}} {
		if a.text == "" {
			continue
		}
		ip, err := netip.ParseAddr(a.text)
		if err != nil {
			return nil, err
		}
		if family(ip) != msg.Family {
			attrs = append(attrs, nl.NewRtAttr(unix.RTA_VIA, append(nl.Uint16Attr(uint16(family(ip))), ip.AsSlice()...)))
			continue
		}
		attrs = append(attrs, nl.NewRtAttr(a.attr, ip.AsSlice()))
	}
	return attrs, nil
}

func family(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
