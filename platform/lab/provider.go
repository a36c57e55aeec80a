package lab

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
)

// MaxUplinks bounds Options.Uplinks.
const MaxUplinks = 4

// Provider is one uplink of the node and the network behind it.
type Provider struct {
	Short         string // of its namespace
	Dev, Peer     string // the node's end of the link and the provider's
	Node, Gateway string // their addresses, of one /24
	mtu, metric   int    // metric of the node's default route
	wired         bool   // a relay carries the frames
	wire          *wire
	faults        faults
}

// providers returns nil for too many uplinks.
func providers(o Options) []*Provider {
	ps := []*Provider{
		{Short: "isp", Dev: Uplink, Peer: "node0", Node: NodeAt, Gateway: Gateway, mtu: o.MTU},
		{Short: isp2Short, Dev: Uplink2, Peer: "node1", Node: NodeAt2, Gateway: Gateway2, mtu: o.MTU2, metric: 100},
		// RFC 5737 has no fourth network: these are of RFC 2544.
		{Short: "isp3", Dev: "uplink2", Peer: "node2", Node: "198.18.2.2", Gateway: "198.18.2.1", metric: 200},
		{Short: "isp4", Dev: "uplink3", Peer: "node3", Node: "198.18.3.2", Gateway: "198.18.3.1", metric: 300},
	}
	n := max(1, o.Uplinks)
	if o.Second {
		n = max(2, n)
	}
	if n > MaxUplinks {
		return nil
	}
	for _, p := range ps[:n] {
		p.wired = o.Wires
		if p.mtu == 0 {
			p.mtu = 1500
		}
	}
	return ps[:n]
}

// Provider returns the provider behind an uplink, counted from 0.
func (l *Lab) Provider(uplink int) *Provider { return l.providers[uplink] }

func (p *Provider) wireShort() string { return p.Short + "-wire" }

// addProvider links the node to a provider and starts the provider's servers.
func (l *Lab) addProvider(ctx context.Context, p *Provider) error {
	node, isp := l.NS("node"), l.NS(p.Short)
	if err := l.addLink(ctx, p); err != nil {
		return err
	}
	for _, argv := range [][]string{
		// Turn off duplicate address detection: a second later its end would change the host.
		{"ip", "netns", "exec", node, "sh", "-c", "f=/proc/sys/net/ipv6/conf/" + p.Dev +
			"/accept_dad; [ ! -e $f ] || echo 0 >$f"},
		{"ip", "-n", node, "addr", "add", p.Node + "/24", "dev", p.Dev},
		{"ip", "-n", node, "link", "set", p.Dev, "up"},
		{"ip", "-n", isp, "addr", "add", p.Gateway + "/24", "dev", p.Peer},
		{"ip", "-n", isp, "link", "set", p.Peer, "up"},
		{"ip", "-n", isp, "addr", "add", DNSAddr + "/32", "dev", "lo"},
		{"ip", "-n", isp, "addr", "add", WebAddr + "/32", "dev", "lo"},
		l.defaultRoute(p),
	} {
		if err := command(ctx, argv...); err != nil {
			return err
		}
	}
	return l.startServers(ctx, p.Short, ServerOptions{
		DNS: DNSAddr + ":53",
		Names: map[string]netip.Addr{
			WebName: netip.MustParseAddr(WebAddr), ProviderName: netip.MustParseAddr(p.Gateway),
		},
		HTTP: []string{WebAddr + ":80", WebAddr + ":443"},
		Text: webText,
	})
}

// addLink makes the link between the node and a provider: one veth, or two with a relay in a namespace between them.
func (l *Lab) addLink(ctx context.Context, p *Provider) error {
	node, isp := l.NS("node"), l.NS(p.Short)
	if !p.wired {
		return l.addVeth(ctx, p, node, p.Dev, isp, p.Peer)
	}
	between := l.NS(p.wireShort())
	if err := l.addVeth(ctx, p, node, p.Dev, between, wireNear); err != nil {
		return err
	}
	if err := l.addVeth(ctx, p, between, wireFar, isp, p.Peer); err != nil {
		return err
	}
	for _, dev := range []string{wireNear, wireFar} {
		// Without link-local addresses the relay's ends send nothing of their own.
		if err := command(ctx, "ip", "-n", between, "link", "set", dev, "addrgenmode", "none", "up"); err != nil {
			return err
		}
	}
	if err := l.openWire(p); err != nil {
		return fmt.Errorf("relay to %s: %w", p.Short, err)
	}
	return nil
}

// peerIndex is the interface index of the far end of an uplink. It differs from the near end's: if both are equal, the
// kernel takes the link for a physical one and reports its carrier at most once a second, counting all namespaces of
// the machine (net/core/link_watch.c, linkwatch_urgent_event).
const peerIndex = "1000"

func (l *Lab) addVeth(ctx context.Context, p *Provider, ns, dev, peerNS, peer string) error {
	mtu := strconv.Itoa(p.mtu)
	return command(ctx, "ip", "-n", peerNS, "link", "add", peer, "index", peerIndex, "mtu", mtu, "type", "veth", "peer",
		"name", dev, "mtu", mtu, "netns", ns)
}

func (l *Lab) defaultRoute(p *Provider) []string {
	return []string{"ip", "-n", l.NS("node"), "route", "add", "default", "via", p.Gateway, "dev", p.Dev, "metric",
		strconv.Itoa(p.metric)}
}
