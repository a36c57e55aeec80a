package netinst

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"edgespan/netinst/netstate"
)

// edgespan assigns the generated addresses: dnsmasq gets only the subnet, and leases only what a file in dhcp-hosts/
// names.
func TestDnsmasqServesSubnetsOfAnySize(t *testing.T) {
	for subnet, want := range map[string]string{
		"10.0.0.0/8":       "10.0.0.0,static,255.0.0.0,1h",
		"10.50.0.0/23":     "10.50.0.0,static,255.255.254.0,1h",
		"10.50.2.128/25":   "10.50.2.128,static,255.255.255.128,1h",
		"192.168.7.240/28": "192.168.7.240,static,255.255.255.240,1h",
		"172.16.0.4/30":    "172.16.0.4,static,255.255.255.252,1h",
	} {
		p := netip.MustParsePrefix(subnet)
		gw := p.Addr().Next()
		for name, pool := range map[string][2]netip.Addr{
			"a range of one": {gw.Next(), gw.Next()},
			"the rest":       {gw.Next(), lastAddress(p).Prev()},
		} {
			in := input()
			in.Config.IPv4 = IPv4Config{Subnet: p, Gateway: gw, DHCPFirst: pool[0], DHCPLast: pool[1]}
			nw, _ := newNetwork(in)
			conf := strings.Split(nw.dnsmasqConf(), "\n")
			for _, line := range []string{"dhcp-range=" + want, "host-record=gateway,gateway.edge.test," + gw.String()} {
				if !slices.Contains(conf, line) {
					t.Errorf("%s of %s: %q is missing in\n%s", name, subnet, line, nw.dnsmasqConf())
				}
			}
		}
	}
}

// An option without a value is withheld.
func TestDnsmasqGivesNoRouterWhereThereIsNoWayOut(t *testing.T) {
	lan := func(change func(*PortStatus)) func(*Input) {
		return func(in *Input) {
			p := uplink()
			p.Label, p.Uplink, p.DefaultRoutes = "lan", false, nil
			change(&p)
			in.Config.Port, in.Ports = "lan", append(in.Ports, p)
		}
	}
	for what, x := range map[string]struct {
		change func(*Input)
		out    bool
	}{
		"an uplink":                           {func(*Input) {}, true},
		"an uplink without its default route": {func(in *Input) { in.Ports[0].DefaultRoutes = nil }, true},
		"air-gapped":                          {func(in *Input) { in.Config.Port = "" }, false},
		"air-gapped with a default route": {func(in *Input) {
			in.Config.Port = ""
			in.Config.Routes = []StaticRoute{{Name: "a", Destination: anywhere, Gateway: ip("10.1.0.7")}}
		}, false},
		"no port yet":                          {func(in *Input) { in.Ports = nil }, true},
		"no uplink, without default route":     {lan(func(*PortStatus) {}), false},
		"no uplink, with a default route":      {lan(func(p *PortStatus) { p.DefaultRoutes = uplink().DefaultRoutes }), true},
		"no uplink, with a gateway of its own": {lan(func(p *PortStatus) { p.Gateway = ip("192.0.2.1") }), true},
		"no uplink, with a static default route": {func(in *Input) {
			lan(func(*PortStatus) {})(in)
			in.Config.Routes = []StaticRoute{{Name: "a", Destination: anywhere, Port: "eth", Gateway: ip("192.0.2.1")}}
		}, true},
	} {
		in := input()
		x.change(&in)
		nw, _ := newNetwork(in)
		want := map[bool]string{true: "option:router,10.1.0.1", false: "option:router"}[x.out]
		got := strings.Split(nw.dhcpOptions(), "\n")
		words, _ := nw.classlessRoutes(netip.Addr{}, 0)
		i := slices.Index(words, "0.0.0.0/0")
		if byNode := i >= 0 && words[i+1] == "10.1.0.1"; !slices.Contains(got, want) || byNode != x.out {
			t.Errorf("%s: the options are %q, want %q", what, got, want)
		}
	}
}

// routesGiven returns option 121 as dnsmasq gives it to a client whose reservation sets tags.
func routesGiven(t interface{ Fatalf(string, ...any) }, opts string, tags ...string) string {
	found := ""
	for line := range strings.Lines(opts) {
		conditions, routes, is := strings.Cut(strings.TrimSpace(line), classlessOption+",")
		if len(line) > 1024 {
			t.Fatalf("dnsmasq would read a line of %d octets in two: %s", len(line), line)
		}
		for _, c := range strings.Split(strings.TrimSuffix(conditions, ","), ",") {
			tag, no := strings.CutPrefix(strings.TrimPrefix(c, "tag:"), "!")
			is = is && (c == "" || slices.Contains(tags, tag) != no)
		}
		if is && found != "" {
			t.Fatalf("two lines for a client with the tags %q: %s and %s", tags, found, routes)
		} else if is {
			found = routes
		}
	}
	return found
}

// tagsAt are the tags that dnsmasq gives a client that leases an address.
func tagsAt(nw network, address string) (tags []string) {
	for line := range strings.Lines(nw.dnsmasqConf()) {
		if words := strings.Split(line, ","); words[0] == "dhcp-range=tag:known" && words[2] == address {
			tags = append(tags, strings.TrimPrefix(words[1], "set:"))
		}
	}
	return tags
}

// An app that is the gateway of routes gets those of others, and not its own. The options are the same without it.
func TestAGatewayGetsNoRouteToItself(t *testing.T) {
	route := func(to, via string) StaticRoute {
		return StaticRoute{Name: to, Destination: prefix(to), Gateway: ip(via)}
	}
	for name, x := range map[string]struct {
		port        string
		routes      []StaticRoute
		all, itself string // for any app, and for that at 10.1.0.7
	}{
		"none":       {"", nil, "", ""},
		"air-gapped": {"", []StaticRoute{route("10.9.0.0/16", "10.1.0.7")}, "10.9.0.0/16,10.1.0.7", ""},
		"two apps": {"", []StaticRoute{route("10.8.0.0/16", "10.1.0.9"), route("10.9.0.0/16", "10.1.0.7")},
			"10.8.0.0/16,10.1.0.9,10.9.0.0/16,10.1.0.7", "10.8.0.0/16,10.1.0.9"},
		"a default route": {"", []StaticRoute{route("0.0.0.0/0", "10.1.0.7")}, "0.0.0.0/0,10.1.0.7", ""},
		"beside an uplink": {"uplink", []StaticRoute{route("10.9.0.0/16", "10.1.0.7")},
			"10.9.0.0/16,10.1.0.7,0.0.0.0/0,10.1.0.1,192.0.2.0/24,10.1.0.1", "0.0.0.0/0,10.1.0.1,192.0.2.0/24,10.1.0.1"},
	} {
		in := input(web(), adapter(appB, 0, 2, "10.1.0.7", "db"))
		in.Config.Port, in.Config.Routes = x.port, x.routes
		nw, _ := newNetwork(in)
		opts := nw.dhcpOptions()
		if got := routesGiven(t, opts, tagsAt(nw, "10.1.0.128")...); got != x.all {
			t.Errorf("%s: web gets %q, want %q", name, got, x.all)
		}
		if got := routesGiven(t, opts, tagsAt(nw, "10.1.0.7")...); got != x.itself {
			t.Errorf("%s: the app at 10.1.0.7 gets %q, want %q", name, got, x.itself)
		}
		if strings.Contains(opts, classlessOption+",\n") {
			t.Errorf("%s: an option without routes in\n%s", name, opts)
		}
		digest := nw.dnsmasqDigest()
		in.Adapters = nil
		if nw, _ := newNetwork(in); nw.dhcpOptions() != opts || nw.dnsmasqDigest() != digest {
			t.Errorf("%s: the options without apps are\n%s, and were\n%s; the digest is %s, and was %s", name,
				nw.dhcpOptions(), opts, nw.dnsmasqDigest(), digest)
		}
	}
}

// Whatever routes a network has, dnsmasq reads each line as one and has one for each app, in which an option holds all
// routes; none leads an app to itself.
func TestRoutesOfAnyNumberFitTheOptions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := input()
		in.Config.IPv4 = IPv4Config{Subnet: prefix("100.64.0.0/10"), Gateway: ip("100.64.0.1")}
		in.Config.Port = rapid.SampledFrom([]string{"", "uplink"}).Draw(t, "port")
		gateways := rapid.IntRange(1, 60).Draw(t, "gateways")
		longest := rapid.SampledFrom([]int{8, 24, 32}).Draw(t, "longest")
		for i := range rapid.IntRange(0, 80).Draw(t, "routes") {
			bits := rapid.IntRange(8, longest).Draw(t, "bits")
			to := netip.AddrFrom4([4]byte{byte(120 + i), 200, 200, 200})
			via := netip.AddrFrom4([4]byte{100, 127, 255, byte(100 + rapid.IntRange(1, gateways).Draw(t, "gateway"))})
			in.Config.Routes = append(in.Config.Routes,
				StaticRoute{Name: fmt.Sprint(i), Destination: netip.PrefixFrom(to, bits), Gateway: via})
		}
		nw, _ := newNetwork(in)
		opts := nw.dhcpOptions()
		check := func(of netip.Addr, tags ...string) {
			words, octets := strings.Split(routesGiven(t, opts, tags...), ","), 0
			for i := 0; i+1 < len(words); i += 2 {
				octets += 5 + (prefix(words[i]).Bits()+7)/8
				if words[i+1] == of.String() {
					t.Fatalf("%s gets a route to itself: %q", of, words)
				}
			}
			if octets > 255 {
				t.Fatalf("%s gets an option of %d octets", of, octets)
			}
		}
		check(ip("100.64.0.2"))
		for _, r := range in.Config.Routes {
			check(r.Gateway, tagsAt(nw, r.Gateway.String())...)
		}
	})
}

// A running dnsmasq is replaced for a change of its network's parameters, not of a release's wording of dnsmasq.conf:
// the digest stays that of release 0.1.0.
func TestADnsmasqIsReplacedForItsParametersAlone(t *testing.T) {
	process := func(change func(*Input)) netstate.Process {
		in := input(web())
		change(&in)
		nw, _ := newNetwork(in)
		return nw.dnsmasq().(netstate.Process)
	}
	first := process(func(*Input) {})
	if want := "f558f62373abef6a"; first.Digest != want {
		t.Errorf("the digest is %s, and of release 0.1.0 %s: every dnsmasq would be replaced", first.Digest, want)
	}
	if got := strings.Join(first.Argv,
		" "); got != "dnsmasq --keep-in-foreground --conf-file=/run/edgespan/ni/1/conf/dnsmasq.conf" {
		t.Errorf("it is started by %q", got)
	}
	for name, c := range map[string]struct {
		change   func(*Input)
		replaced bool
	}{
		"subnet":  {func(in *Input) { in.Config.IPv4.Subnet = prefix("10.1.0.0/25") }, true},
		"gateway": {func(in *Input) { in.Config.IPv4.Gateway = ip("10.1.0.2") }, true},
		"domain":  {func(in *Input) { in.Config.DNS.Domain = "other" }, true},
		"number":  {func(in *Input) { in.Owner.Number = 2 }, true},
		"run dir": {func(in *Input) { in.RunDir = "/run/other" }, true},
		"port":    {func(in *Input) { in.Ports = nil }, false},
		"MTU":     {func(in *Input) { in.Config.MTU = 1400 }, false},
		"apps":    {func(in *Input) { in.Adapters = nil }, false},
		"servers": {func(in *Input) { in.Config.DNS.Servers = []netip.Addr{ip("192.0.2.99")} }, false},
		"options": {func(in *Input) { in.Config.NTPServers = []netip.Addr{ip("192.0.2.99")} }, false},
	} {
		if p := process(c.change); (p.Digest != first.Digest) != c.replaced {
			t.Errorf("%s: replaced is %v, want %v", name, !c.replaced, c.replaced)
		}
	}
}

// dnsmasq watches no folder, since each watch takes one of the machine's few inotify instances: after any change of its
// files it is told to read them again.
func TestEachFileThatChangesIsReadAgain(t *testing.T) {
	of := func(change func(*Input)) (files string, p netstate.Process) {
		in := input(web())
		in.Config.DNS.Hosts = map[Hostname][]netip.Addr{"printer": {ip("192.0.2.7")}}
		change(&in)
		nw, _ := newNetwork(in)
		for _, o := range nw.files() {
			f := o.(netstate.File)
			files += f.Path + "\n" + f.Content
		}
		return files, nw.dnsmasq().(netstate.Process)
	}
	files, first := of(func(*Input) {})
	for _, word := range []string{"hostsdir=", "dhcp-hostsdir=", "dhcp-optsdir="} {
		if strings.Contains(files, "\n"+word) {
			t.Errorf("dnsmasq takes an inotify instance for %s", word)
		}
	}
	for name, change := range map[string]func(*Input){
		"a static name comes":        func(in *Input) { in.Config.DNS.Hosts["scanner"] = []netip.Addr{ip("192.0.2.8")} },
		"a static name goes":         func(in *Input) { in.Config.DNS.Hosts = nil },
		"a static name's address":    func(in *Input) { in.Config.DNS.Hosts["printer"] = []netip.Addr{ip("192.0.2.8")} },
		"an app goes":                func(in *Input) { in.Adapters = nil },
		"an app's name":              func(in *Input) { in.Adapters[0].Config.Spec.Hostname = "other" },
		"a name that looks as times": func(in *Input) { in.Adapters[0].Config.Spec.Hostname = "1h" },
		"the servers":                func(in *Input) { in.Config.DNS.Servers = []netip.Addr{ip("192.0.2.9")} },
		"the options":                func(in *Input) { in.Config.NTPServers = []netip.Addr{ip("192.0.2.9")} },
	} {
		if now, p := of(change); now == files || p.Reload == first.Reload || p.Digest != first.Digest {
			t.Errorf("%s: files differ %v, read again %v, replaced %v", name, now != files, p.Reload != first.Reload,
				p.Digest != first.Digest)
		}
	}
	_, one := of(func(in *Input) { in.Adapters[0].Config.Spec.Hostname = "1h" })
	if _, two := of(func(in *Input) { in.Adapters[0].Config.Spec.Hostname = "2h" }); one.Reload == two.Reload {
		t.Error("an app's name that is not in its reservation changes, and is not read again")
	}
}

// An option of DHCP holds 63 addresses.
func TestMoreServersThanAnOptionHolds(t *testing.T) {
	in := input()
	for i := range 70 {
		in.Config.NTPServers = append(in.Config.NTPServers, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}))
	}
	nw, _ := newNetwork(in)
	for line := range strings.Lines(nw.dhcpOptions()) {
		if list, is := strings.CutPrefix(line, "option:ntp-server,"); is {
			if n := len(strings.Split(list, ",")); n != 63 {
				t.Errorf("%d servers", n)
			}
			return
		}
	}
	t.Error("no servers")
}

// No more apps are gateways by DHCP than an option holds routes; those after them are reached by the network's gateway.
func TestMoreGatewaysThanAnOptionHolds(t *testing.T) {
	in := input()
	for i := range 43 {
		r := StaticRoute{Name: fmt.Sprintf("%02d", i), Destination: prefix("172.16.0.0/16"),
			Gateway: ip(fmt.Sprint("10.1.0.", i+10))}
		if i == 42 {
			r.Destination = prefix("172.17.0.0/16")
		}
		in.Config.Routes = append(in.Config.Routes, r)
	}
	nw, _ := newNetwork(in)
	if got := nw.appGateways(); len(got) != 42 || got[41] != ip("10.1.0.51") {
		t.Errorf("%d gateways: %v", len(got), got)
	}
	words, gateways := nw.classlessRoutes(netip.Addr{}, 0)
	if got, want := strings.Join(words, " "), "172.16.0.0/16 10.1.0.10 0.0.0.0/0 10.1.0.1 172.17.0.0/16 10.1.0.1 "+
		"192.0.2.0/24 10.1.0.1"; got != want || !slices.Equal(gateways, []netip.Addr{ip("10.1.0.10")}) {
		t.Errorf("%s by %v, want %s", got, gateways, want)
	}
}

// A line takes a route that just fits.
func TestALineOfDnsmasqTakesWhatJustFits(t *testing.T) {
	nw, _ := newNetwork(input())
	room := len(",0.0.0.0/0,10.1.0.1")
	for begins, want := range map[int]int{maxOptionLine - room: 2, maxOptionLine - room + 1: 0} {
		if words, _ := nw.classlessRoutes(netip.Addr{}, begins); len(words) != want {
			t.Errorf("behind %d octets: %q", begins, words)
		}
	}
}
