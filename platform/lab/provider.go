package lab

import (
	"context"
	"net/netip"
	"strconv"
)

// provider is one uplink of the node and the network behind it.
type provider struct {
	short         string // of its namespace
	dev, peer     string // the node's end of the link and the provider's
	node, gateway string // their addresses, of one /24
	mtu           int
	metric        string // metric of the node's default route
}

func providers(o Options) []provider {
	ps := []provider{{"isp", Uplink, "node0", NodeAt, Gateway, o.MTU, "0"}}
	if o.Second {
		ps = append(ps, provider{isp2Short, Uplink2, "node1", NodeAt2, Gateway2, o.MTU2, "100"})
	}
	return ps
}

// addProvider links the node to a provider and starts the provider's servers.
func (l *Lab) addProvider(ctx context.Context, p provider) error {
	node, isp, mtu := l.NS("node"), l.NS(p.short), "1500"
	if p.mtu != 0 {
		mtu = strconv.Itoa(p.mtu)
	}
	for _, argv := range [][]string{
		{"ip", "-n", node, "link", "add", p.dev, "mtu", mtu, "type", "veth", "peer", "name", p.peer, "mtu", mtu, "netns",
			isp},
		// Turn off duplicate address detection: a second later its end would change the host.
		{"ip", "netns", "exec", node, "sh", "-c", "f=/proc/sys/net/ipv6/conf/" + p.dev +
			"/accept_dad; [ ! -e $f ] || echo 0 >$f"},
		{"ip", "-n", node, "addr", "add", p.node + "/24", "dev", p.dev},
		{"ip", "-n", node, "link", "set", p.dev, "up"},
		{"ip", "-n", isp, "addr", "add", p.gateway + "/24", "dev", p.peer},
		{"ip", "-n", isp, "link", "set", p.peer, "up"},
		{"ip", "-n", isp, "addr", "add", DNSAddr + "/32", "dev", "lo"},
		{"ip", "-n", isp, "addr", "add", WebAddr + "/32", "dev", "lo"},
		{"ip", "-n", node, "route", "add", "default", "via", p.gateway, "dev", p.dev, "metric", p.metric},
	} {
		if err := command(ctx, argv...); err != nil {
			return err
		}
	}
	return l.startServers(ctx, p.short, ServerOptions{
		DNS: DNSAddr + ":53",
		Names: map[string]netip.Addr{
			WebName: netip.MustParseAddr(WebAddr), ProviderName: netip.MustParseAddr(p.gateway),
		},
		HTTP: []string{WebAddr + ":80", WebAddr + ":443"},
		Text: webText,
	})
}
