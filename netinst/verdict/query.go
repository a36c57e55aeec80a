package verdict

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst"
)

// Query asks about the packets between an adapter and a remote end.
type Query struct {
	Adapter          netinst.AdapterKey
	Remote           string // an address, or a name that the network's DNS answers by itself
	Incoming         bool   // the remote end sends
	Port             string // of Incoming: the label of the port; "": the one by which the network reaches the remote end
	Proto            uint8
	SrcPort, DstPort uint16
}

// Packets returns the packets that a query is about: one for each address of the remote end and, if it sends, one more
// for each port map of the adapter that takes it. Its error says that
// nothing has the name or the label.
func (w *World) Packets(q Query) ([]Packet, error) {
	n := w.members[q.Adapter]
	name := netinst.Hostname(strings.ToLower(strings.TrimSuffix(q.Remote, ".")))
	addrs, err := n.resolve(q.Remote)
	if err != nil && !q.Incoming && n != nil && n.namesHost(q.Adapter, name) {
		addrs, err = []netip.Addr{{}}, nil // up to DNS
	}
	if err != nil {
		return nil, err
	}
	if _, bad := netip.ParseAddr(q.Remote); bad == nil {
		name = ""
	}
	if q.Port != "" && w.ports[q.Port] == nil {
		return nil, fmt.Errorf("port %s: must be the label of a port", q.Port)
	}
	var out []Packet
	for _, a := range addrs {
		p := Packet{From: App, Adapter: q.Adapter, Src: w.AddressOf(q.Adapter), Dst: a, Proto: q.Proto, SrcPort: q.SrcPort,
			DstPort: q.DstPort, Name: name}
		if a.Is6() {
			p.Src = w.Address6Of(q.Adapter)
		}
		switch {
		case q.Proto == ICMP && a.Is6():
			p.Proto, p.ICMPType = ICMP6, EchoRequest6
		case q.Proto == ICMP:
			p.ICMPType = EchoRequest
		case q.Proto == ICMP6:
			p.ICMPType = EchoRequest6
		}
		if q.Incoming {
			p.Src, p.Dst = a, p.Src
			if p.From, p.Adapter, p.Port = w.sender(n, a, q.Port); p.From != App && n != nil && n.mayOverlap() {
				p.Adapter = q.Adapter
			}
		}
		out = append(out, p)
		if q.Incoming {
			out = append(out, w.toMaps(p, q.Adapter)...)
		}
	}
	return out, nil
}

// toMaps returns a packet as it may be sent to an adapter by port maps.
func (w *World) toMaps(p Packet, to netinst.AdapterKey) (list []Packet) {
	for _, m := range w.mapsTo(to) {
		if sent := p; m.takes(sent) {
			sent.Dst = m.addr
			if !slices.Contains(list, sent) {
				list = append(list, sent)
			}
		}
	}
	return list
}

// resolve returns the addresses of a remote end as the apps of a network would look it up. It knows the names of apps
// and the static ones.
func (n *network) resolve(remote string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(remote); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	var found []netip.Addr
	if n != nil {
		name := netinst.Hostname(strings.ToLower(strings.TrimSuffix(remote, ".")))
		short := name
		if domain := string(n.Config.DNS.Domain); domain != "" {
			short = netinst.Hostname(strings.TrimSuffix(string(name), "."+domain))
		}
		for h, addrs := range n.Config.DNS.Hosts {
			if h == name || h == short {
				found = append(found, addrs...)
			}
		}
		for _, a := range n.Adapters {
			if a.Config.Spec.Hostname != short || short == "" {
				continue
			}
			found = append(found, n.addressOf(&a))
			if n.passes6() {
				found = append(found, n.address6Of(&a))
			}
		}
	}
	found = slices.DeleteFunc(found, func(a netip.Addr) bool { return !a.IsValid() || a.Is6() && !n.passes6() })
	if len(found) == 0 {
		return nil, fmt.Errorf("%q: must be an IP address, a name of an app or of dns.hosts on the adapter's network, "+
			"or with --to one under a host of the adapter's rules",
			remote)
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found), nil
}

// hides reports whether apps of another network reach their own one at all addresses of a network.
func hides(n, other *network) bool {
	return n != nil && n.Config.IPv4.Subnet.IsValid() && n.Config.IPv4.Subnet.Overlaps(other.Config.IPv4.Subnet)
}

// sender returns who sends from an address to an adapter of a network, and by which port.
func (w *World) sender(n *network, a netip.Addr, port string) (Place, netinst.AdapterKey, string) {
	if port == "" && w.isNode(a) {
		return Node, netinst.AdapterKey{}, ""
	}
	if port == "" && n != nil && n.byIP[a] != nil {
		return App, n.byIP[a].Config.Key(), ""
	}
	if port == "" {
		for _, other := range w.networks {
			if x := other.byIP[a]; x != nil && !other.isSwitch() && !hides(n, other) {
				return App, x.Config.Key(), ""
			}
		}
	}
	if port == "" && n != nil {
		if r := n.wayTo(a); r != nil && r.port != nil {
			port = r.port.Label
		} else if ports := slices.Sorted(maps.Keys(n.uses)); n.isSwitch() && len(ports) > 0 {
			port = ports[0] // no table says behind which one it is
		}
	}
	return Outside, netinst.AdapterKey{}, port
}

// FirstPacket returns the first packet of a tracked flow of an adapter: the one that the adapter sends, or with
// incoming the one that it receives, as its sender sent it. The port by which it came in is not known of a flow, only
// by which one the network reaches the sender, or at whose address a port map stands.
func (w *World) FirstPacket(key netinst.AdapterKey, proto uint8, src, dst netip.AddrPort, incoming bool) Packet {
	p := Packet{From: App, Adapter: key, Src: src.Addr(), Dst: dst.Addr(), Proto: proto, SrcPort: src.Port(),
		DstPort: dst.Port()}
	switch proto {
	case ICMP:
		p.SrcPort, p.DstPort, p.ICMPType = 0, 0, EchoRequest
	case ICMP6:
		p.SrcPort, p.DstPort, p.ICMPType = 0, 0, EchoRequest6
	}
	if !incoming {
		return p
	}
	n := w.members[key]
	if p.From, p.Adapter, p.Port = w.sender(n, p.Src, ""); p.From == Node && n != nil && n.mayOverlap() {
		p.Adapter = key
	}
	if p.From != Outside {
		return p
	}
	for _, m := range w.maps[p.Dst] {
		if p.Port = m.port; m.takes(p) {
			break
		}
	}
	return p
}
