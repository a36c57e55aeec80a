package scenario

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
)

// The maximum of each in a random config. There are fewer ports, names and addresses than apps could use: they change
// hands.
const (
	maxNets, maxApps, maxAdapters = 6, 7, 3
	lateNS                        = "late" // a namespace that appears and disappears
)

var (
	drawnSubnets = []string{
		"10.50.0.0/24", "10.50.1.0/24", "10.50.0.0/23", "10.50.2.0/24", "10.50.2.128/25",
		"10.50.3.0/28", "10.50.3.16/28", "10.50.4.0/24", "10.50.5.0/24", "10.50.6.0/24",
	}
	localPorts  = []string{"wan", "uplink", ""}
	switchPorts = []string{"", "lan", "lan2"}
	drawnNS     = []string{"a", "b", "c", "d", lateNS}
	drawnTaps   = []string{"", "vm1", "vm2"}
	drawnLinks  = []string{"ext1", "ext2"} // foreign links that always exist
	drawnACLs   = []string{
		"", allowAll, acl("allow egress"), acl("drop both ip: 198.51.100.80", "allow both"),
		acl("allow egress ip: 198.51.100.80, protocol: tcp, port: 80-90", "allow ingress protocol: udp, localPort: 53"),
	}
)

// randomConfig is a random config in plain values, so that a copy is a snapshot. scene resolves its conflicts.
type randomConfig struct {
	nets [maxNets]randomNet
	apps [maxApps]randomApp
}

type randomNet struct {
	on, off, sw, narrow, otherGW, unguarded, routed, probed, shared, logged bool
	port, subnet, domain, mtu                                               int
}

type randomApp struct {
	on, off  bool
	name     int
	adapters [maxAdapters]randomAdapter
}

type randomAdapter struct {
	on                                     bool
	net, kind, ns, dev, mac, host, ip, acl int
}

// draw changes a config in one way.
func (w *randomConfig) draw(r *rand.Rand) {
	n, m := &w.nets[r.IntN(maxNets)], &w.nets[r.IntN(maxNets)]
	a, b := &w.apps[r.IntN(maxApps)], &w.apps[r.IntN(maxApps)]
	x, y := &a.adapters[r.IntN(maxAdapters)], &b.adapters[r.IntN(maxAdapters)]
	switch r.IntN(27) {
	case 0, 1:
		n.on = !n.on
	case 2:
		n.off = !n.off
	case 3:
		n.sw = !n.sw
	case 4:
		n.subnet, m.subnet = m.subnet, n.subnet
	case 5:
		n.subnet = r.IntN(len(drawnSubnets))
	case 6:
		*n, *m = *m, *n // except for its UUID, each becomes the other
	case 7:
		n.port = r.IntN(3)
	case 8:
		n.narrow = !n.narrow
	case 9:
		n.otherGW, n.mtu, n.domain = r.IntN(2) == 0, 100*r.IntN(2), r.IntN(3)
	case 10:
		n.unguarded, n.routed, n.logged = r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0
	case 11:
		a.on = !a.on
	case 12:
		a.off = !a.off
	case 13:
		a.name, b.name = b.name, a.name
	case 14:
		a.adapters, b.adapters = b.adapters, a.adapters // one app replaces the other
	case 15, 16, 17:
		x.on, x.net = true, r.IntN(maxNets)
	case 18:
		x.on = false
	case 19:
		x.net, y.net = y.net, x.net
	case 20:
		x.ns, x.dev, y.ns, y.dev = y.ns, y.dev, x.ns, x.dev
	case 21:
		x.kind, x.ns, x.host = r.IntN(4), r.IntN(len(drawnNS)), r.IntN(6)
	case 22:
		x.mac, y.mac, x.ip = y.mac, r.IntN(5), r.IntN(6)
	case 23:
		x.acl, y.ip = r.IntN(len(drawnACLs)), r.IntN(6)
	case 24:
		n.probed = !n.probed
	case 25:
		n.shared = !n.shared
	case 26:
		n.subnet, n.shared = m.subnet, true
	}
}

// newRandomConfig draws a first config.
func newRandomConfig(r *rand.Rand) randomConfig {
	var w randomConfig
	for i := range w.nets {
		w.nets[i] = randomNet{on: r.IntN(3) > 0, sw: r.IntN(3) == 0, port: r.IntN(3), subnet: r.IntN(len(drawnSubnets)),
			shared: r.IntN(4) == 0}
	}
	for i := range w.apps {
		w.apps[i] = randomApp{on: r.IntN(4) > 0, name: i + 1}
		for j := range w.apps[i].adapters {
			w.apps[i].adapters[j] = randomAdapter{
				on: j == 0 || r.IntN(4) == 0, net: r.IntN(maxNets), kind: r.IntN(4),
				ns: r.IntN(len(drawnNS)), dev: j, host: r.IntN(6), acl: r.IntN(len(drawnACLs)),
			}
		}
	}
	return w
}

// scene is a valid config and the state of the host that it must lead to.
type scene struct {
	doc  string
	nets map[int]sceneNet
	apps map[int]sceneApp
}

type sceneNet struct {
	local, off     bool
	shared         bool // others may have its subnet
	port           string
	gateway        netip.Prefix // local only
	free, hopeful  int          // addresses of the range, and adapters that request one
	subnet, domain string
}

type sceneApp struct {
	name     string // in DNS
	adapters map[int]*sceneAdapter
}

type sceneAdapter struct {
	net              int
	kind             string
	ns, ifName, host string
	mac, ip          string
	acl              string
	off              bool   // it must not be up
	down             string // why it can't be as in the config; "" if it can
	pooled           bool   // it gets an address of its network's range
}

// scene resolves conflicts in the order of networks and apps.
func (w randomConfig) scene(late bool) scene {
	s := scene{nets: map[int]sceneNet{}, apps: map[int]sceneApp{}}
	d := drawing{scene: &s, late: late, taken: map[string]bool{}}
	var b strings.Builder
	b.WriteString("ports:\n  wan: {ifName: uplink0, uplink: true, dnsServers: 198.51.100.53}\n  lan: {ifName: lan0}\n  " +
		"lan2: {ifName: lan1}\n")
	b.WriteString("networkInstances:\n")
	for i, n := range w.nets {
		if n.on {
			b.WriteString(d.net(i+1, n))
		}
	}
	if len(s.nets) == 0 {
		b.WriteString("  {}\n")
	}
	b.WriteString("appNetworks:\n")
	for i, a := range w.apps {
		if a.on {
			b.WriteString(d.app(i+1, a))
		}
	}
	if len(s.apps) == 0 {
		b.WriteString("  {}\n")
	}
	s.doc = b.String()
	return s
}

// drawing is a scene under construction.
type drawing struct {
	*scene
	late    bool
	subnets []drawnSubnet
	taken   map[string]bool
}

// take gives a thing to the first that asks for it.
func (d *drawing) take(what string) bool {
	free := !d.taken[what]
	d.taken[what] = true
	return free
}

func (d *drawing) net(i int, n randomNet) string {
	text := fmt.Sprintf("  %s:\n    displayName: net%d\n    activate: %v\n    spoofGuard: %v\n    mtu: %d\n    flowLog: %v\n",
		ni(i), i, !n.off, !n.unguarded, 1500-n.mtu, n.logged)
	if n.sw {
		port := switchPorts[n.port]
		if port != "" && !d.take("port "+port) {
			port = ""
		}
		d.nets[i] = sceneNet{off: n.off, port: port}
		return text + fmt.Sprintf("    type: switch\n    port: %q\n", port)
	}
	port := localPorts[n.port]
	if n.shared {
		port = ""
	}
	subnet, gw := d.subnet(n)
	first, free := subnet.Addr(), 100
	if subnet.Bits() == 28 {
		free = 7
	}
	text += fmt.Sprintf("    type: local\n    port: %q\n    dns: {domain: d%d.edge}\n", port, n.domain)
	v4 := fmt.Sprintf("subnet: %s, gateway: %s", subnet, gw)
	if n.narrow {
		free = 2
		v4 += fmt.Sprintf(", dhcpRange: %s-%s", plus(first, 9), plus(first, 10))
	}
	if n.shared {
		v4 += ", mayOverlap: true"
	}
	text += "    ipv4: {" + v4 + "}\n"
	if n.routed && port != "" {
		text += "    routes: {far: {destination: 203.0.113.0/24, gateway: 192.0.2.1}}\n"
	}
	if n.probed && port != "" {
		text += "    probe: {method: icmp, target: 198.51.100.80, intervalMs: 200, timeoutMs: 150, maxLoss: 50}\n"
	}
	d.nets[i] = sceneNet{local: true, domain: fmt.Sprintf("d%d.edge", n.domain), off: n.off, port: port, shared: n.shared,
		gateway: netip.PrefixFrom(gw, subnet.Bits()), free: free, subnet: subnet.String()}
	return text
}

// drawnSubnet is the subnet of a network.
type drawnSubnet struct {
	prefix  netip.Prefix
	gateway netip.Addr
	shared  bool
}

// beside reports whether two networks may have these subnets.
func (x drawnSubnet) beside(y drawnSubnet) bool {
	return !x.prefix.Overlaps(y.prefix) || (x.shared || y.shared) &&
		(x.gateway == y.gateway || !x.prefix.Contains(y.gateway) && !y.prefix.Contains(x.gateway))
}

// subnet returns the drawn subnet, or the next one that may be beside those of the other networks, and its gateway.
func (d *drawing) subnet(n randomNet) (netip.Prefix, netip.Addr) {
	for i := range drawnSubnets {
		p := netip.MustParsePrefix(drawnSubnets[(n.subnet+i)%len(drawnSubnets)])
		x := drawnSubnet{p, plus(p.Addr(), 1), n.shared}
		if n.otherGW {
			x.gateway = plus(p.Addr(), 7)
		}
		if !slices.ContainsFunc(d.subnets, func(y drawnSubnet) bool { return !x.beside(y) }) {
			d.subnets = append(d.subnets, x)
			return p, x.gateway
		}
	}
	panic("too few subnets are drawn from")
}

func plus(a netip.Addr, n int) netip.Addr {
	for range n {
		a = a.Next()
	}
	return a
}

func (d *drawing) app(i int, a randomApp) string {
	name := fmt.Sprintf("app%d", a.name)
	if !d.take("name " + name) {
		name = "" // its name in DNS is its UUID
	}
	text := fmt.Sprintf("  %s:\n    displayName: %q\n    activate: %v\n    adapters:\n", app(i), name, !a.off)
	s := sceneApp{name: cmp.Or(name, app(i)), adapters: map[int]*sceneAdapter{}}
	for j, x := range a.adapters {
		if !x.on {
			continue
		}
		c := d.adapter(x)
		s.adapters[j] = c
		attach := "kind: " + c.kind
		if c.kind == "veth" {
			attach += ", netns: " + c.ns + ", ifName: " + c.ifName
		} else if c.host != "" {
			attach += ", hostIfName: " + c.host
		}
		text += fmt.Sprintf("      %d: {networkInstance: %s, attach: {%s}, mac: %q, ip: %q, acl: {%s}}\n", j, ni(c.net),
			attach, c.mac, c.ip, c.acl)
		c.off = a.off
		d.predict(c)
	}
	if len(s.adapters) == 0 {
		text += "      {}\n"
	}
	d.apps[i] = s
	return strings.NewReplacer(`mac: "", `, "", `ip: "", `, "").Replace(text)
}

// adapter chooses how an adapter is attached.
func (d *drawing) adapter(x randomAdapter) *sceneAdapter {
	c := &sceneAdapter{net: x.net + 1, kind: "tap", acl: drawnACLs[x.acl]}
	n := d.nets[c.net]
	switch x.kind {
	case 0, 1:
		ns, ifName := drawnNS[x.ns], fmt.Sprintf("eth%d", x.dev)
		if d.take("place " + ns + " " + ifName) {
			c.kind, c.ns, c.ifName = "veth", ns, ifName
		}
	case 2:
		if host := drawnLinks[x.host%2]; d.take("link " + host) {
			c.kind, c.host = "external", host
		}
	default:
		if host := drawnTaps[x.host%3]; host != "" && d.take("link "+host) {
			c.host = host
		}
	}
	if mac := fmt.Sprintf("02:00:00:00:50:%02x", x.mac); x.mac > 0 && d.take("mac "+mac) {
		c.mac = mac
	}
	if x.ip > 0 && n.local {
		ip := plus(netip.MustParsePrefix(n.subnet).Addr(), 1+x.ip).String()
		if d.take(fmt.Sprint("ip ", ip, " on ", c.net)) {
			c.ip = ip
		}
	}
	return c
}

// predict predicts the state of an adapter.
func (d *drawing) predict(c *sceneAdapter) {
	n, ok := d.nets[c.net]
	switch {
	case !ok:
		c.down = "is not in the config"
	case c.off:
		return
	case n.off:
		c.down = "is not activated"
	case c.ns == lateNS && !d.late:
		c.down = "does not exist"
	}
	if c.pooled = ok && !c.off && !n.off && n.local && c.ip == ""; c.pooled {
		n.hopeful++
		d.nets[c.net] = n
	}
}
