package netinst

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/google/uuid"

	"edgespan/netinst/netstate"
)

// On a node, a cluster's network is a switch network whose bridge has more open ports: tunnels to the other nodes,
// which are links that edgespan creates, and members, which are links of the host that edgespan enslaves and releases.
// Together with the bridges of the other nodes it is one layer-2 network: any frame that enters by one open port may
// leave by another, including IPv6 and tagged frames.
//
// The rules of apps still apply: only frames that the rules can match pass from an open port to an app. The node is not
// a station of that network: no frame is delivered to it.

// FirstClusterPort and LastClusterPort are the UDP ports of encrypted clusters (config/stateloop/peer).
const (
	FirstClusterPort = 21821
	LastClusterPort  = 25820
)

// Tunnel is this node's end of a VXLAN tunnel (RFC 7348) that is a port of its network's bridge.
type Tunnel struct {
	Name     string     // shown to people and in reports: the node at its other end
	VNI      uint32     // 24 bits
	Local    netip.Addr // invalid: unknown, the tunnel waits
	Remote   netip.Addr // invalid: unknown, the tunnel waits
	Port     uint16     // UDP
	MTU      int        // octets of payload
	Isolated bool       // frames of other isolated ports do not leave by it
	// Encrypted is the WireGuard peer through which the tunnel's packets go; nil: they go in the clear. Local and Remote
	// are then addresses inside WireGuard.
	Encrypted *TunnelKey `json:",omitempty"`
}

// TunnelKey is the WireGuard peer at the other end of a tunnel.
type TunnelKey struct {
	PublicKey string         // base64; "": unknown, the tunnel waits
	NextKey   string         `json:",omitempty"` // the one that the node will have instead; "" for none
	Endpoint  netip.AddrPort // invalid: unknown, the other end begins
}

// TunnelIfName is the link of the tunnel with a number on network n.
func TunnelIfName(n int, vni uint32) IfName {
	return IfName(fmt.Sprintf("%s%dv%d", linkPrefix, n, vni))
}

// ownName matches the names reserved for edgespan's own links.
var ownName = regexp.MustCompile(`^(` + linkPrefix + `[0-9]+([av][0-9]+)?|evpn[0-9]+)$`)

// The packets of an encrypted cluster's tunnels go through WireGuard: one interface (evpn<n>) for each cluster, with
// one peer for each other node, whose only address is the one inside (TunnelKey, Tunnel.Remote). WireGuard's own
// packets are routed like others of the host. The VXLAN of each cluster has a UDP port of its own, and the guard
// (sealed) lets the node take packets for it only from that interface, and from the interface nothing else but ICMPv6:
// so neither a neighbour on the underlay nor a member of another cluster can send frames into a cluster, and being a
// member gives access to no service of the node.

// If the underlay is a network of type vpn of the node, WireGuard's packets have its overMark, by which a rule of that
// network leads them into its tunnel. While it has none, they meet the cluster's own rule, behind it, and are
// unreachable: an address of such an underlay often has no subnet, so the host would send them to any provider.

// clusterKeepalive is how often, in seconds, something is sent to each peer: a node behind NAT stays reachable.
const clusterKeepalive = 25

// insideBits is the length of the prefix that the addresses inside a cluster's WireGuard have in common.
const insideBits = 64

// vxlanOverhead is what VXLAN over IPv6 adds to a packet (RFC 7348 §5), in octets.
const vxlanOverhead = 40 + 8 + 8 + 14

// IsEncrypted reports whether tunnels of a cluster's network go through WireGuard.
func (c NetworkInstanceConfig) IsEncrypted() bool {
	return slices.ContainsFunc(c.Tunnels, func(t Tunnel) bool { return t.Encrypted != nil })
}

// SealedPort is the UDP port of an encrypted cluster's VXLAN, 0 for another network.
func (c NetworkInstanceConfig) SealedPort() uint16 {
	for _, t := range c.Tunnels {
		if t.Encrypted != nil {
			return t.Port
		}
	}
	return 0
}

// encryption returns the WireGuard interface of an encrypted cluster and its address, once any peer is known.
func (nw network) encryption() []netstate.Object {
	w := netstate.WireGuard{Identity: netstate.ClustersIdentity, ListenPort: nw.Config.WireGuardPort,
		PublicKey: nw.Config.ClusterKey}
	var own netip.Addr
	mtu := 0
	for _, t := range nw.Config.Tunnels {
		if t.Encrypted == nil || nw.waits(t) != "" {
			continue
		}
		own, mtu = t.Local, max(mtu, cmp.Or(t.MTU, nw.mtu)+vxlanOverhead)
		p := netstate.WireGuardPeer{Name: t.Name, PublicKey: t.Encrypted.PublicKey, Keepalive: clusterKeepalive,
			AllowedIPs: []netip.Prefix{netip.PrefixFrom(t.Remote, t.Remote.BitLen())}}
		if t.Encrypted.Endpoint.IsValid() {
			p.Endpoint = t.Encrypted.Endpoint.String()
		}
		// A node may claim the key of another: then it shares the other's tunnel, whose owner must call, wherever that node
		// says that it is.
		same := func(q netstate.WireGuardPeer) bool { return q.PublicKey == p.PublicKey }
		if i := slices.IndexFunc(w.Peers, same); i >= 0 {
			w.Peers[i].AllowedIPs = append(w.Peers[i].AllowedIPs, p.AllowedIPs...)
			w.Peers[i].Endpoint = ""
			continue
		}
		w.Peers = append(w.Peers, p)
	}
	if len(w.Peers) == 0 {
		return nil
	}
	w.Peers = append(w.Peers, nw.successors(w.Peers)...)
	link, table, mark := netstate.VPNLink(nw.n), Table(nw.n), overMark(nw.Config.Over)
	end := netstate.Route{Table: table, Dst: anywhere6.String(), Type: netstate.Unreachable, Metric: unreachableMetric}
	return append([]netstate.Object{
		netstate.VPN{Name: netstate.VPNName(nw.n), Link: link, MTU: mtu, Mark: mark, Generation: nw.Config.Generation,
			WireGuard: &w, Limits: nw.Config.HelperLimits()},
		netstate.Address{Link: link, Prefix: netip.PrefixFrom(own, insideBits).String()},
		// What has the address as its source goes to the cluster, or nowhere.
		end, nw.unicast(netip.PrefixFrom(own, insideBits).Masked(), netstate.Route{Table: table, Dev: link}),
		netstate.Rule{Priority: ruleFromBase + nw.n, From: netip.PrefixFrom(own, own.BitLen()).String(), Table: table,
			IPv6: true, After: end.ID()},
	}, nw.nowhereElse(mark)...)
}

// overMark is the mark of packets that go through the tunnel of a network of type vpn, 0 for none. It has 22 bits of
// its UUID, since no cluster knows the numbers of others, and is like none of the marks of tunnels (TunnelMark).
func overMark(vpn uuid.UUID) uint32 {
	if vpn == uuid.Nil {
		return 0
	}
	sum := sha256.Sum256(vpn[:])
	return overBit | (binary.BigEndian.Uint32(sum[:]) & (overBit>>1 - 1))
}

const overBit = 0x00800000

// nowhereElse makes packets with a mark that no other rule leads unreachable.
func (nw network) nowhereElse(mark uint32) (objs []netstate.Object) {
	if mark == 0 {
		return nil
	}
	table := UnderlayTable(nw.n)
	for _, ipv6 := range []bool{false, true} {
		dst := anywhere
		if ipv6 {
			dst = anywhere6
		}
		end := netstate.Route{Table: table, Dst: dst.String(), Type: netstate.Unreachable, Metric: unreachableMetric}
		objs = append(objs, end, netstate.Rule{Priority: ruleBoundBase + nw.n, Mark: mark, Mask: TunnelMask, Table: table,
			IPv6: ipv6, After: end.ID()})
	}
	return objs
}

// successors returns peers for the keys that other nodes have announced. They have no addresses until they show
// themselves: a node that replaces its key is then followed at once, also while this one does not hear its controller.
// A key that two nodes claim, or that is in use, succeeds nothing: no node can take another's place by announcing.
func (nw network) successors(peers []netstate.WireGuardPeer) (out []netstate.WireGuardPeer) {
	claims := map[string]int{nw.Config.ClusterKey: 1}
	for _, p := range peers {
		claims[p.PublicKey]++
	}
	for _, t := range nw.Config.Tunnels {
		if t.Encrypted != nil {
			claims[t.Encrypted.NextKey]++
		}
	}
	for _, t := range nw.Config.Tunnels {
		if t.Encrypted == nil || t.Encrypted.NextKey == "" || claims[t.Encrypted.NextKey] > 1 {
			continue
		}
		alone := func(p netstate.WireGuardPeer) bool {
			return p.PublicKey == t.Encrypted.PublicKey && len(p.AllowedIPs) == 1
		}
		if slices.ContainsFunc(peers, alone) {
			out = append(out, netstate.WireGuardPeer{Name: t.Name, PublicKey: t.Encrypted.NextKey,
				Succeeds: t.Encrypted.PublicKey})
		}
	}
	return out
}

// sealed are the networks of encrypted clusters, by number.
func sealed(ns []HostNetwork) []HostNetwork {
	return slices.DeleteFunc(slices.Clone(ns), func(n HostNetwork) bool { return n.Sealed == 0 })
}

// sealedChains are the guard's part for encrypted clusters: the map from each one's interface to a chain for what
// arrives by it, and the chain for packets that arrive elsewhere for the ports of their VXLAN.
func sealedChains(ns []HostNetwork) (rules []string) {
	var elements, ports []string
	for _, n := range sealed(ns) {
		chain := fmt.Sprintf("unseal-%d", n.Number)
		port := fmt.Sprintf("meta nfproto ipv6 udp dport %d ", n.Sealed)
		elements = append(elements, fmt.Sprintf("%q : goto %s", netstate.VPNLink(n.Number), chain))
		ports = append(ports, port+"drop")
		rules = append(rules, "chain "+chain+" {", "meta l4proto 58 accept", port+"accept", "drop", "}")
	}
	if elements == nil {
		return nil
	}
	return slices.Concat([]string{"map seals {", "type ifname : verdict;", mapSize,
		"elements = { " + strings.Join(elements, ", ") + " }", "}"}, rules,
		[]string{"chain sealed {"}, ports, []string{"}"})
}

// sealedRules are those of the guard for packets to the node. All but those of the ports' range leave after two.
func sealedRules(ns []HostNetwork) []string {
	all := sealed(ns)
	if len(all) == 0 {
		return nil
	}
	byPort := func(a, b HostNetwork) int { return cmp.Compare(a.Sealed, b.Sealed) }
	first, last := slices.MinFunc(all, byPort).Sealed, slices.MaxFunc(all, byPort).Sealed
	return []string{"iifname vmap @seals",
		fmt.Sprintf("meta nfproto ipv6 udp dport >= %d udp dport < %d jump sealed", first, last+1)}
}

// Part is one tunnel or member of a network.
type Part struct {
	Kind, Name string
	IDs        []netstate.ID // its objects on the host
	Waits      string        // why no object can be desired yet; IDs are then empty
	Desired    string        // differs when the part's config differs
}

func (nw network) isCluster() bool {
	return nw.isSwitch() && len(nw.Config.Tunnels)+len(nw.Config.Members) > 0
}

// foreignPorts returns the host's links in a switch network's bridge that lead to no app.
func (nw network) foreignPorts() []string {
	ps := nw.enslaved()
	if !nw.isSwitch() {
		return nil
	}
	for _, m := range nw.Config.Members {
		if nw.mayJoin(m) == "" && !slices.Contains(ps, string(m)) {
			ps = append(ps, string(m))
		}
	}
	return ps
}

// openPorts returns the ports of a switch network's bridge that lead to no app; whatever replaces the variable part of
// a name.
func (nw network) openPorts(whatever string) []string {
	ps := nw.foreignPorts()
	if nw.isSwitch() && len(nw.Config.Tunnels) > 0 {
		ps = append(ps, string(nw.bridge)+"v"+whatever)
	}
	return ps
}

// tunnelLinks returns the links of a network's tunnels that wait for nothing.
func (nw network) tunnelLinks() []IfName {
	var links []IfName
	for _, t := range nw.Config.Tunnels {
		if l := TunnelIfName(nw.n, t.VNI); nw.waits(t) == "" && !slices.Contains(links, l) {
			links = append(links, l)
		}
	}
	return links
}

// mayJoin returns why a link cannot be a member, "" if it can: the rules of an app that uses the link would no longer
// apply.
func (nw network) mayJoin(m IfName) string {
	if ownName.MatchString(string(m)) {
		return fmt.Sprintf("interface %s has a name that only links of edgespan have", m)
	}
	for _, a := range nw.Adapters {
		if nw.hostIfName(a) == m {
			return fmt.Sprintf("interface %s belongs to the adapter %s", m, a.Config.Key())
		}
	}
	return ""
}

// parts returns the tunnels and members, and their objects.
func (nw network) parts() ([]Part, []netstate.Object) {
	if !nw.isCluster() {
		return nil, nil
	}
	var parts []Part
	var objs []netstate.Object
	add := func(p Part, os ...netstate.Object) {
		p.Desired = p.Waits
		for _, o := range os {
			p.IDs = append(p.IDs, o.ID())
			p.Desired += o.Text() + "\n"
		}
		parts, objs = append(parts, p), append(objs, os...)
	}
	objs = nw.encryption()
	br := string(nw.bridge)
	taken := map[uint32]string{}
	for _, t := range nw.Config.Tunnels {
		p := Part{Kind: PartTunnel, Name: t.Name, Waits: nw.waits(t)}
		if other, twice := taken[t.VNI]; twice {
			p.Waits = fmt.Sprintf("its number %d is that of the tunnel to %s", t.VNI, other)
		}
		if p.Waits != "" {
			add(p)
			continue
		}
		taken[t.VNI] = t.Name
		l := nw.tunnelLink(t)
		add(p, l, netstate.Port{Link: l.Name, Master: br, Isolated: t.Isolated, After: nw.guardOf(l.Name)})
	}
	for _, m := range nw.Config.Members {
		p := Part{Kind: PartMember, Name: string(m), Waits: nw.mayJoin(m)}
		if p.Waits != "" || slices.Contains(nw.enslaved(), string(m)) {
			add(p)
			continue
		}
		add(p, netstate.Port{Link: string(m), Master: br, Foreign: true, After: nw.guardOf(string(m))})
	}
	return parts, objs
}

func (nw network) tunnelLink(t Tunnel) netstate.Link {
	mtu := t.MTU
	if mtu == 0 {
		mtu = nw.mtu
	}
	return netstate.Link{
		Name: string(TunnelIfName(nw.n, t.VNI)), Type: netstate.VXLAN, MTU: mtu,
		MAC:   generatedMAC(macHost, "tunnel", t.Name, nw.uuid()),
		Alias: nw.tunnelAlias(t.Name),
		Vxlan: &netstate.Tunnel{VNI: t.VNI, Local: t.Local, Remote: t.Remote, Port: t.Port},
	}
}

const tunnelWord = " tunnel "

// tunnelAlias is the mark of ownership on a tunnel, with the name of its remote node.
func (nw network) tunnelAlias(name string) string {
	if s := aliasPrefix + nw.uuid() + tunnelWord + name; len(s) <= maxAlias {
		return s
	}
	return aliasPrefix + nw.uuid() + tunnelWord + "sha256:" + digest(name)
}

// TunnelOf returns the remote node in a tunnel's mark of ownership.
func TunnelOf(alias string) (name string, is bool) {
	_, name, is = strings.Cut(alias, tunnelWord)
	return name, is
}

// waits returns what a tunnel of the network waits for. A member that reports this node's own key can be no peer, and
// without one its frames would leave in the clear.
func (nw network) waits(t Tunnel) string {
	why := t.waits()
	if why == "" && t.Encrypted != nil && t.Encrypted.PublicKey == nw.Config.ClusterKey {
		why = t.Name + " reports this node's own key"
	}
	return why
}

// waits returns which address of a tunnel is missing, "" if none is.
func (t Tunnel) waits() string {
	var not []string
	if !t.Local.IsValid() {
		not = append(not, "this node's own address in the underlay is not known yet")
	}
	if !t.Remote.IsValid() {
		not = append(not, fmt.Sprintf("the address of %s is not known yet", t.Name))
	}
	if t.Encrypted != nil && t.Encrypted.PublicKey == "" {
		not = append(not, fmt.Sprintf("the key of %s is not known yet", t.Name))
	}
	if not == nil && t.Local.Is4() != t.Remote.Is4() {
		not = append(not, fmt.Sprintf("the local address %s and the address %s of %s are of different families", t.Local,
			t.Remote, t.Name))
	}
	return strings.Join(not, ", and ")
}
