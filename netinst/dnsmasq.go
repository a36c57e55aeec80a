package netinst

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"edgespan/netinst/netstate"
)

// dnsmasq adds the network's DHCP and DNS server. What concerns one app stands in
// files of its own that dnsmasq takes up while it runs, so that no app's coming or
// going restarts it; only what concerns the whole network is in its configuration.
func (b *builder) dnsmasq() {
	run := RunFolder(b.n)
	conf := run + "/conf"
	hosts, dhcp := b.hostFiles(conf+"/hosts"), b.dhcpFiles(conf+"/dhcp-hosts")
	main := netstate.File{Path: conf + "/dnsmasq.conf", Content: b.dnsmasqConf(run)}
	b.state.Add(
		netstate.File{Path: conf, Dir: true},
		netstate.File{Path: conf + "/hosts", Dir: true},
		netstate.File{Path: conf + "/dhcp-hosts", Dir: true},
		main,
	)
	after := []netstate.ID{main.ID(), {Kind: netstate.KindAddress, Name: b.br + " " + b.gateway().String()}, {Kind: netstate.KindPort, Name: b.br}}
	for _, f := range hosts {
		b.state.Add(f)
	}
	for _, f := range dhcp {
		b.state.Add(f)
	}
	b.state.Add(netstate.Process{
		Name:   run + "/dnsmasq",
		Argv:   []string{"dnsmasq", "--keep-in-foreground", "--conf-file=" + b.RunDir + "/" + main.Path},
		Digest: digest(main.Content),
		// dnsmasq takes up new dhcp-hosts files by itself, and forgets removed and
		// changed ones only on SIGHUP (dnsmasq(8), --dhcp-hostsdir). A SIGHUP loses no
		// question.
		Reload: filesDigest(dhcp),
		Probe:  netstate.Probe{Addr: netip.AddrPortFrom(b.Config.IPv4.Gateway, 53).String(), Name: b.gatewayName()},
		After:  after,
	})
}

func (b *builder) gatewayName() string {
	if b.Config.DNS.Domain != "" {
		return "gateway." + string(b.Config.DNS.Domain) + "."
	}
	return "gateway."
}

// dnsmasqConf is the configuration of the whole network: see dnsmasq(8).
func (b *builder) dnsmasqConf(run string) string {
	c, path := b.Config.IPv4, b.RunDir+"/"+run
	lines := []string{
		"# network instance " + b.Owner.Name + ", written by edgespan",
		"interface=" + b.br,
		"except-interface=lo",
		"listen-address=" + c.Gateway.String(),
		"bind-interfaces",
		"no-resolv", "no-hosts", "no-poll", "no-ping",
		"pid-file=",
		"log-facility=-",
		"quiet-dhcp",
		"cache-size=1000",
		"neg-ttl=10",
		"domain-needed",
		"hostsdir=" + path + "/conf/hosts",
		"dhcp-hostsdir=" + path + "/conf/dhcp-hosts",
		"dhcp-leasefile=" + path + "/dnsmasq/leases",
		"dhcp-authoritative",
		fmt.Sprintf("dhcp-range=%s,static,%s,1h", c.Subnet.Addr(), mask(c.Subnet)),
		"dhcp-option=option:router," + c.Gateway.String(),
		"dhcp-option=option:dns-server," + c.Gateway.String(),
		fmt.Sprintf("dhcp-option=option:mtu,%d", b.mtu),
		"dhcp-option=option:classless-static-route," + b.classlessRoutes(),
	}
	if ntp := b.ntpServers(); len(ntp) > 0 {
		lines = append(lines, "dhcp-option=option:ntp-server,"+strings.Join(ntp, ","))
	}
	if d := string(b.Config.DNS.Domain); d != "" {
		lines = append(lines, "domain="+d, "local=/"+d+"/")
	}
	if b.port.Label != "" {
		servers := b.Config.DNS.Servers
		if len(servers) == 0 {
			servers = b.port.DNSServers
		}
		for _, s := range servers {
			lines = append(lines, fmt.Sprintf("server=%s@%s", s, b.port.IfName))
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// classlessRoutes is DHCP option 121 (RFC 3442): the network itself on link, the
// static routes, and the default, all but the first over the gateway. A client
// that takes option 121 ignores option 3, so the default is in it too.
func (b *builder) classlessRoutes() string {
	gw := b.Config.IPv4.Gateway.String()
	routes := []string{b.Config.IPv4.Subnet.String(), "0.0.0.0"}
	for _, r := range b.Config.Routes {
		via := gw
		if r.Gateway.IsValid() && b.Config.IPv4.Subnet.Contains(r.Gateway) {
			via = r.Gateway.String()
		}
		if r.Destination.Bits() > 0 {
			routes = append(routes, r.Destination.Masked().String(), via)
		}
	}
	return strings.Join(append(routes, anywhere, gw), ",")
}

func (b *builder) ntpServers() []string {
	servers := b.Config.NTPServers
	if len(servers) == 0 {
		servers = b.port.NTPServers
	}
	out := make([]string, len(servers))
	for i, s := range servers {
		out[i] = s.String()
	}
	return out
}

// hostFiles are the names that the network's DNS answers by itself: one file a
// name, with every address that the name has.
func (b *builder) hostFiles(dir string) []netstate.File {
	names := map[string][]netip.Addr{"gateway": {b.Config.IPv4.Gateway}}
	for h, ips := range b.Config.DNS.Hosts {
		names[string(h)] = append(names[string(h)], ips...)
	}
	for _, a := range b.Adapters {
		h := string(a.Config.UnderlayConfig.Hostname)
		names[h] = append(names[h], a.Lease.IP)
	}
	var files []netstate.File
	for _, name := range slices.Sorted(maps.Keys(names)) {
		ips := slices.SortedFunc(slices.Values(names[name]), netip.Addr.Compare)
		all := name
		if d := string(b.Config.DNS.Domain); d != "" && !strings.HasSuffix(name, "."+d) {
			all += " " + name + "." + d
		}
		var lines strings.Builder
		for _, ip := range slices.Compact(ips) {
			fmt.Fprintf(&lines, "%s\t%s\n", ip, all)
		}
		files = append(files, netstate.File{Path: dir + "/" + name, Content: lines.String()})
	}
	return files
}

// dhcpFiles are the reservations: only a MAC of ours gets an address.
func (b *builder) dhcpFiles(dir string) []netstate.File {
	var files []netstate.File
	for _, a := range b.Adapters {
		k := a.Config.Key()
		f := netstate.File{
			Path:    fmt.Sprintf("%s/%s-%d", dir, k.AppUUID, k.UnderlayIndex),
			Content: fmt.Sprintf("%s,id:*,%s,%s\n", a.Lease.MAC, a.Lease.IP, a.Config.UnderlayConfig.Hostname),
		}
		b.by[k] = append(b.by[k], f.ID())
		files = append(files, f)
	}
	return files
}

func mask(p netip.Prefix) netip.Addr {
	var m [4]byte
	for i := range p.Bits() {
		m[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(m)
}

func digest(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:8])
}

func filesDigest(fs []netstate.File) string {
	var all []string
	for _, f := range fs {
		all = append(all, f.Path+"\n"+f.Content)
	}
	slices.Sort(all)
	return digest(strings.Join(all, "\n"))
}
