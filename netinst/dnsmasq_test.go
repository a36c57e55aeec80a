package netinst

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

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
	for port, want := range map[string]string{"uplink": "option:router,10.1.0.1", "": "option:router"} {
		in := input()
		in.Config.Port = port
		nw, _ := newNetwork(in)
		if got := strings.Split(nw.dhcpOptions(), "\n"); !slices.Contains(got, want) {
			t.Errorf("with port %q the options are %q, want %q", port, got, want)
		}
	}
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
