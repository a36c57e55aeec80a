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

// The configuration of dnsmasq is split by how a change reaches it (facts of 2.90):
//
//	dnsmasq.conf       read at start only: a change of its parameters replaces the process
//	servers, opts      read again on SIGHUP
//	hosts, dhcp-hosts  folders, each file of which is read again on SIGHUP
//
// so apps, ports and static names come and go without a restart. With hostsdir and dhcp-hostsdir it would notice a
// changed file itself, at the cost of an inotify instance for each: root has 128 of them by default for the whole
// machine, and SIGHUP is sent anyway (ADR 0029).

// dnsmasqConf is the part that changes only with the network's own configuration.
//
// It uses bind-dynamic and not bind-interfaces: the latter also answers requests that reach the gateway's address
// through another interface, and stops working when the address is removed.
func (nw network) dnsmasqConf() string {
	c := nw.Config.IPv4
	dir := nw.RunDir + "/" + RunFolder(nw.n)
	lines := []string{
		"no-resolv", "no-hosts", "no-ping", "pid-file=", "log-facility=-", "quiet-dhcp",
		"bind-dynamic", "interface=" + string(nw.bridge), "except-interface=lo",
		"cache-size=" + nw.cacheSize(), "dns-forward-max=" + fmt.Sprint(forwardMax), "neg-ttl=5", "domain-needed",
		"local=/" + nw.domain() + "/",
		"host-record=gateway," + nw.gatewayName() + "," + c.Gateway.String() + nw.gatewayWord6(),
		"servers-file=" + dir + "/conf/servers",
		"addn-hosts=" + dir + "/conf/hosts",
		"dhcp-authoritative",
		"dhcp-range=" + c.Subnet.Masked().Addr().String() + ",static," + netmask(c.Subnet) + leaseTime,
		"dhcp-lease-max=" + fmt.Sprint(maxAdapterNums),
		"dhcp-leasefile=" + nw.RunDir + "/" + LeaseFile(nw.n),
		"dhcp-hostsfile=" + dir + "/conf/dhcp-hosts",
		"dhcp-optsfile=" + dir + "/conf/opts",
		"dhcp-ignore-names", "dhcp-fqdn", "domain=" + leaseDomain, "local=/" + leaseDomain + "/",
	}
	return strings.Join(slices.Concat(lines, nw.gatewayRanges(), nw.dnsmasq6(), nw.ipsetOptions()), "\n") + "\n"
}

const leaseTime = ",1h"

// forwardMax is the limit of open queries in dnsmasq, for all apps together. With its default of 150, one app that
// queries names that no server answers makes dnsmasq refuse the queries of all others. The value is higher than what an
// app with the default maxFlows can have open (dnsFrames), and takes 4 MB of memory.
const forwardMax = 8192

// dnsmasqForm is raised when a process started by a former release must not continue under this one: each raise
// replaces every dnsmasq of a node in the first minute after the upgrade, and costs every network some answers. A
// different wording of dnsmasq.conf is no reason: it takes effect at the next start.
const dnsmasqForm = 1

// dnsmasqDigest covers the parameters that require a new dnsmasq when they change. It is computed over the text that
// release 0.1.0 wrote for them, which must never change, so that a process started by that release is recognised. A
// later parameter is included when it differs from its default.
func (nw network) dnsmasqDigest() string {
	c := nw.Config.IPv4
	dir := nw.RunDir + "/" + RunFolder(nw.n)
	first := "no-resolv\nno-hosts\nno-ping\npid-file=\nlog-facility=-\nquiet-dhcp\nbind-dynamic\ninterface=" +
		string(nw.bridge) +
		"\nexcept-interface=lo\ncache-size=1000\nneg-ttl=5\ndomain-needed\nlocal=/" + nw.domain() +
		"/\nhost-record=gateway," + nw.gatewayName() + "," + c.Gateway.String() +
		"\nservers-file=" + dir + "/conf/servers\nhostsdir=" + dir + "/conf/hosts\ndhcp-authoritative\ndhcp-range=" +
		c.Subnet.Masked().Addr().String() +
		",static," + netmask(c.Subnet) + ",1h\ndhcp-lease-max=9999\ndhcp-leasefile=" + dir +
		"/dnsmasq/leases\ndhcp-hostsdir=" + dir +
		"/conf/dhcp-hosts\ndhcp-optsfile=" + dir +
		"/conf/opts\ndhcp-ignore-names\ndhcp-fqdn\ndomain=lease.invalid\nlocal=/lease.invalid/\n"
	if six := nw.dnsmasq6(); len(six) > 0 {
		first += nw.gatewayWord6() + strings.Join(six, "\n")
	}
	texts := slices.Concat([]string{first}, nw.gatewayRanges(), nw.ipsetOptions())
	if c.MayOverlap { // it must not hold the gateway's address (subnets.go)
		texts = append(texts, "listens on "+AnswerAddr(nw.n).String())
	}
	if dnsmasqForm != 1 {
		texts = append(texts, fmt.Sprint("form ", dnsmasqForm))
	}
	return digest(texts...)
}

const leaseFile = "leases"

// LeaseFile is the file in which the DHCP server of network n records its leases, relative to the run directory.
func LeaseFile(n int) string { return RunFolder(n) + "/dnsmasq/" + leaseFile }

// leaseDomain is the domain in which dnsmasq answers names from its leases. It is one that is never asked for (RFC 6761
// §6.4): a lease outlives its app, whose name must not, so the names that count come from hosts/ alone. Names that
// clients send are ignored.
const leaseDomain = "lease.invalid"

// domain is the domain of the names that the network's DNS answers; without a configured one it is a name that is never
// forwarded to other servers.
func (nw network) domain() string {
	if d := nw.Config.DNS.Domain; d != "" {
		return string(d)
	}
	return "edgespan"
}

func (nw network) gatewayName() string { return "gateway." + nw.domain() }

func netmask(p netip.Prefix) string {
	m := ^uint32(0) << (32 - p.Bits()) // a shift by 32 leaves 0 in Go
	return netip.AddrFrom4([4]byte{byte(m >> 24), byte(m >> 16), byte(m >> 8), byte(m)}).String()
}

// upstream lists the servers to ask, each through its port: those of the network's port, and of the ports that it
// shares with.
func (nw network) upstream() string {
	var b strings.Builder
	list := func(p PortStatus) {
		for _, s := range nw.serversOf(p) {
			fmt.Fprintf(&b, "server=%s@%s\n", s, p.IfName)
		}
	}
	if nw.port != nil {
		list(*nw.port)
	}
	if nw.asksOutside() {
		list(*nw.under.port())
	}
	for _, p := range nw.shares {
		if p.Label != nw.port.Label && !otherDefault(p.PortStatus) {
			list(p.PortStatus)
		}
	}
	return b.String()
}

// asksOutside reports whether the network's DNS server asks the servers of the underlay, outside of the tunnel.
func (nw network) asksOutside() bool {
	return nw.under != nil && nw.under.port() != nil && nw.Config.VPN.DNSOutside && nw.port != nil &&
		len(nw.serversOf(*nw.port)) == 0
}

// upstreamServers returns the network's own DNS servers, else its port's, configured or learnt.
func (nw network) upstreamServers() []netip.Addr {
	if nw.port == nil {
		return nil
	}
	return nw.serversOf(*nw.port)
}

func (nw network) serversOf(p PortStatus) []netip.Addr {
	if len(nw.Config.DNS.Servers) > 0 {
		return nw.Config.DNS.Servers
	}
	servers, _ := p.DNS()
	return servers
}

// dhcpOptions returns the options for every app of the network, by dnsmasq's names for 3, 6, 15, 26, 42 and 121 (RFC
// 2132, RFC 3442); a name without a value suppresses dnsmasq's own choice.
func (nw network) dhcpOptions() string {
	gw := nw.Config.IPv4.Gateway.String()
	router := "option:router"
	if nw.offersDefault() {
		router += "," + gw
	}
	domain := "option:domain-name"
	if d := nw.Config.DNS.Domain; d != "" {
		domain += "," + string(d)
	}
	lines := []string{router, "option:dns-server," + gw, domain, fmt.Sprintf("option:mtu,%d", nw.mtu)}
	ntp := nw.Config.NTPServers
	if len(ntp) == 0 && nw.port != nil {
		ntp = nw.port.NTPServers
	}
	if words := ipv4Words(ntp, maxOptionAddresses); len(words) > 0 {
		lines = append(lines, "option:ntp-server,"+strings.Join(words, ","))
	}
	lines = append(lines, nw.classlessOptions()...)
	lines = append(lines, nw.dhcpOptions6()...)
	return strings.Join(lines, "\n") + "\n"
}

// A DHCP option holds 255 octets (RFC 2132 §2).
const (
	maxOption          = 255
	maxOptionAddresses = maxOption / 4
)

func ipv4Words(addrs []netip.Addr, limit int) []string {
	var words []string
	for _, a := range addrs {
		if a.Is4() && len(words) < limit {
			words = append(words, a.String())
		}
	}
	return words
}

// files returns all files that dnsmasq reads.
func (nw network) files() []netstate.Object {
	conf := RunFolder(nw.n) + "/conf"
	objs := []netstate.Object{
		netstate.File{Path: conf, Dir: true},
		netstate.File{Path: conf + "/hosts", Dir: true},
		netstate.File{Path: conf + "/dhcp-hosts", Dir: true},
		netstate.File{Path: conf + "/dnsmasq.conf", Content: nw.dnsmasqConf()},
		netstate.File{Path: conf + "/servers", Content: nw.upstream()},
		netstate.File{Path: conf + "/opts", Content: nw.dhcpOptions()},
	}
	names := nw.names()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		objs = append(objs, netstate.File{Path: nw.hostsPath(name), Content: nw.hostsFile(name, names[name])})
	}
	return append(objs, nw.dhcpHosts()...)
}

// names maps each name that the network's DNS answers to its addresses: static hosts first, then adapters, with all of
// an app's adapters under one name.
func (nw network) names() map[string][]netip.Addr {
	names := map[string][]netip.Addr{}
	add := func(name string, ip netip.Addr) {
		if !slices.Contains(names[name], ip) {
			names[name] = append(names[name], ip)
		}
	}
	for h, ips := range nw.Config.DNS.Hosts {
		for _, ip := range ips {
			add(string(h), ip)
		}
	}
	for _, a := range nw.Adapters {
		if h := a.Config.Spec.Hostname; h != "" {
			add(string(h), a.Lease.IP)
			if nw.hasIPv6() {
				add(string(h), nw.ip6(a))
			}
		}
	}
	for _, ips := range names {
		slices.SortFunc(ips, netip.Addr.Compare)
	}
	return names
}

func (nw network) hostsPath(name string) string { return RunFolder(nw.n) + "/conf/hosts/" + name }

func (nw network) hostsFile(name string, ips []netip.Addr) string {
	var b strings.Builder
	for _, ip := range ips {
		fmt.Fprintf(&b, "%s\t%s", ip, name)
		if d := nw.Config.DNS.Domain; d != "" {
			fmt.Fprintf(&b, " %s.%s", name, d)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func (nw network) dhcpHostPath(k AdapterKey) string {
	return fmt.Sprintf("%s/conf/dhcp-hosts/%s-%d", RunFolder(nw.n), k.AppUUID, k.Index)
}

// dhcpHosts reserves each adapter's address, for any client id.
func (nw network) dhcpHosts() []netstate.Object {
	var objs []netstate.Object
	for _, a := range nw.Adapters {
		line := a.Lease.MAC + ",id:*," + a.Lease.IP.String()
		if nw.hasIPv6() && nw.Config.IPv6.Mode == DHCPv6 {
			line += ",[" + nw.ip6(a).String() + "]"
		}
		if h := reservedName(a); h != "" {
			line += "," + h
		}
		objs = append(objs, netstate.File{Path: nw.dhcpHostPath(a.Config.Key()), Content: line + "\n"})
	}
	return objs
}

// reservedName returns the name in an adapter's reservation, "" for none.
func reservedName(a Adapter) string {
	if h := string(a.Config.Spec.Hostname); !isTimeLike(h) {
		return h
	}
	return ""
}

// isTimeLike reports whether dnsmasq would read a name in a reservation as a lease time or a keyword. Without the name
// it uses the one that its DNS has for the address, which is the same.
func isTimeLike(h string) bool {
	digits := strings.TrimRight(h, "smhdw")
	return h == "infinite" || h == "ignore" || digits == "" || only(digits, isDigit)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// dnsmasq is the network's DHCP and DNS server.
func (nw network) dnsmasq() netstate.Object {
	conf := RunFolder(nw.n) + "/conf"
	after := []netstate.ID{nw.address().ID(), {Kind: netstate.KindPort, Name: string(nw.bridge)}}
	for _, f := range []string{"", "/hosts", "/dhcp-hosts", "/dnsmasq.conf", "/servers", "/opts"} {
		after = append(after, netstate.ID{Kind: netstate.KindFile, Name: conf + f})
	}
	if nw.hasIPv6() {
		for _, o := range nw.addresses6() {
			after = append(after, o.ID())
		}
	}
	for _, s := range nw.hostSets() {
		after = append(after, s.ID())
	}
	reload := []string{nw.upstream(), nw.dhcpOptions()}
	names := nw.names()
	for _, name := range slices.Sorted(maps.Keys(nw.Config.DNS.Hosts)) {
		reload = append(reload, string(name), nw.hostsFile(string(name), names[string(name)]))
	}
	for _, o := range nw.dhcpHosts() { // an app's name is in its reservation
		reload = append(reload, o.ID().Name, o.Text())
	}
	for _, a := range nw.Adapters {
		h := string(a.Config.Spec.Hostname)
		if reservedName(a) != h {
			reload = append(reload, h)
		}
		if nw.hasIPv6() { // its reservation does not always have the address
			reload = append(reload, h, nw.ip6(a).String())
		}
	}
	leases := &netstate.Leases{
		File: leaseFile, Link: string(nw.bridge), Server: nw.Config.IPv4.Gateway.String(), Reserved: map[string]string{},
	}
	for _, a := range nw.Adapters {
		leases.Reserved[a.Lease.IP.String()] = a.Lease.MAC
		leases.Clients = append(leases.Clients, netstate.Client{
			Of:  netstate.ID{Kind: netstate.KindFile, Name: nw.dhcpHostPath(a.Config.Key())},
			MAC: a.Lease.MAC, Name: reservedName(a),
		})
	}
	return netstate.Process{
		Leases: leases,
		Name:   RunFolder(nw.n) + "/dnsmasq",
		Argv:   []string{"dnsmasq", "--keep-in-foreground", "--conf-file=" + nw.RunDir + "/" + conf + "/dnsmasq.conf"},
		Digest: nw.dnsmasqDigest(),
		Reload: digest(reload...),
		Probe: netstate.Probe{Addr: nw.Config.DNSAddr(nw.n).String() + ":53", Name: nw.gatewayName() + ".",
			IP: nw.Config.IPv4.Gateway.String()},
		After:  after,
		Limits: nw.Config.HelperLimits(),
	}
}

// digest returns a short digest: it distinguishes versions of one object and is no protection against forgery.
func digest(texts ...string) string {
	h := sha256.New()
	for _, t := range texts {
		fmt.Fprintf(h, "%d:%s", len(t), t)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}
