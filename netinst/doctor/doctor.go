package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
)

// The severities of a Finding.
const (
	Fine    = "ok"
	Warning = "warning"
	Problem = "problem"
)

// Finding is the result of one check.
type Finding struct {
	Check string
	Level string
	Text  string
	Fix   string // a command, "" if there is no problem
}

// Node has what the node's config requires, and the state of its config. The zero value is a node without a daemon.
type Node struct {
	Networks   []netinst.NetworkInstanceConfig
	Ports      []netinst.PortStatus
	Host       []overlap.HostPrefix // the host's own prefixes
	Drained    []string             // labels of ports that are drained without an end
	PortFaults []PortFault
	Unfiltered []netinst.NetworkInstanceConfig // switches whose VLANs the kernel can't keep apart
	Closed     []string                        // interfaces of ports that networks need and that do not forward
	Source     string                          // of the running config; "" if none runs
	File       string                          // of --config, "" for none
	Differs    bool                            // the file is not the running config
	Refused    string                          // why the newest file was refused
	Rules      []AdapterRule
	Tunnels    []Tunnel
	State      State
}

// check is one check: it returns nothing if there is no problem.
type check struct {
	name string
	fine string // text if there is no problem
	find func(f netstate.Facts, n Node) []Finding
}

var checks = []check{
	{"commands", "every helper program is there", commands},
	{"iptables", "a daemon asks it what it can do", iptables},
	{"kernel", "every kernel feature is there", features},
	{"guard", "no flush by others opens anything", guard},
	{"port-53", "no other program answers DNS on an address that edgespan needs", port53},
	{"port-maps", "no port map takes the port of a program of the node", takenPorts},
	{"networkd", "systemd-networkd leaves our rules and routes alone", networkd},
	{"rp-filter", "no uplink drops replies by strict reverse path filtering", rpFilter},
	{"ip-forward", "forwarding is on as far as networks need it", forwarding},
	{"flows", "the machine tracks flows enough for every adapter", flows},
	{"dns", "every network with a port has a DNS server to ask", dns},
	{"ports", "every port is set up as the config says", portFaults},
	{"tunnels", "every tunnel is up, and carried by the kernel", tunnels},
	{"vlans", "the kernel keeps the VLANs of every switch apart", unfiltered},
	{"port-subnets", "no two ports are in one subnet", sharedSubnets},
	{"drains", "no port is drained without an end", drains},
	{"outdated", "every dnsmasq runs the program that is installed", outdated},
	{"subnets", "no subnets overlap", subnets},
	{"daemons", "no two daemons meet", daemons},
	{"config", "the config file is the running config", configFile},
	{"state", "all that must last is on the disk", stateFolder},
	{"lock", "the daemon's lock is its own", lock},
	{"limits", "the kernel can limit what the helpers of a network take", limits},
	{"dnsmasq", "every dnsmasq has a user of its own and no rights to spare", helpers},
}

// Examine runs every check, in a fixed order, and returns at least one finding of each.
func Examine(f netstate.Facts, n Node) []Finding {
	var out []Finding
	for _, c := range checks {
		found := c.find(f, n)
		if len(found) == 0 {
			found = []Finding{{Level: Fine, Text: c.fine}}
		}
		for _, x := range found {
			x.Check = c.name
			out = append(out, x)
		}
	}
	for _, u := range f.Unknown {
		out = append(out, Finding{Check: "facts", Level: Warning, Text: "could not be looked at: " + u,
			Fix: "edgespan doctor, as root"})
	}
	return out
}

// packages are the Debian packages of the helper programs.
var packages = map[string]string{"dnsmasq": "dnsmasq-base", "nft": "nftables", "modprobe": "kmod"}

func commands(f netstate.Facts, _ Node) []Finding {
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(f.Commands)) {
		if !f.Commands[name] {
			pkg := packages[name]
			if pkg == "" {
				pkg = "iptables"
			}
			out = append(out, Finding{Level: Problem, Text: "command " + name + " is not found through PATH",
				Fix: "apt-get install " + pkg})
		}
	}
	return out
}

// iptables checks iptables: edgespan's commands wait for the lock of the tables with -w.
func iptables(f netstate.Facts, _ Node) []Finding {
	tables := f.Iptables
	version := fmt.Sprintf("iptables %s (%s)", tables.Version, tables.Mode)
	switch {
	case tables.Fault != "":
		return []Finding{{Level: Problem, Text: tables.Fault, Fix: "iptables --version # has to answer"}}
	case tables.Version == "":
		return nil
	case !tables.Wait:
		return []Finding{{Level: Problem, Text: version + " can't wait for the lock of its tables (-w)",
			Fix: "apt-get install iptables # 1.4.20 or later"}}
	case !tables.RandomFully:
		version += ", without --random-fully, which no rule of edgespan needs,"
	}
	return []Finding{{Level: Fine, Text: version + " has what rules need"}}
}

func features(f netstate.Facts, n Node) []Finding {
	var out []Finding
	for _, name := range slices.Sorted(maps.Keys(f.Features)) {
		if !f.Features[name] && !n.needless(name) {
			out = append(out, Finding{Level: Problem, Text: "the kernel has no " + name, Fix: "modprobe " + name})
		}
	}
	return out
}

// guard checks for tables with an owner: without them, only the repair closes what other programs flush.
func guard(f netstate.Facts, _ Node) []Finding {
	if !f.Flushable {
		return nil
	}
	return []Finding{{
		Level: Warning,
		Text: "the kernel is older than Linux 6.9 and keeps no table of nftables for us alone: a flush of the whole " +
			"ruleset by others takes access rules, spoof guards and the guard behind them away " +
			"until they are repaired, up to 2 s later, and while no daemon runs for good; iptables -F opens nothing",
		Fix: "grep -n 'flush ruleset' /etc/nftables.conf # and name the tables that it may flush instead, or run Linux 6.9 " +
			"or later",
	}}
}

func port53(f netstate.Facts, n Node) []Finding {
	var out []Finding
	for _, l := range f.Listeners {
		for _, ni := range n.Networks {
			if l.Own || l.Port != 53 || !l.Addr.IsUnspecified() &&
				(l.Addr != ni.IPv4.Gateway || ni.IPv4.MayOverlap) {
				continue
			}
			out = append(out, Finding{
				Level: Problem, Text: fmt.Sprintf("%s listens on %s port 53 of %s, where network %s has its DNS", who(l), l.Proto,
					l.Addr, name(ni)),
				Fix: fmt.Sprintf("ss -lnp 'sport = :53' # and configure it to listen on other addresses than %s, or stop it",
					ni.IPv4.Gateway),
			})
		}
	}
	return out
}

func networkd(f netstate.Facts, _ Node) []Finding {
	var on []string
	for _, s := range []string{"ManageForeignRoutingPolicyRules", "ManageForeignRoutes"} {
		if v, set := f.Foreign[s]; !set || v {
			on = append(on, s)
		}
	}
	if !f.Networkd || len(on) == 0 {
		return nil
	}
	return []Finding{{
		Level: Problem, Text: "systemd-networkd deletes rules and routes that it did not make: " + strings.Join(on, " and ") +
			" is on",
		Fix: `mkdir -p /etc/systemd/networkd.conf.d && printf '[Network]\n` + strings.Join(on, `=no\n`) +
			`=no\n' > /etc/systemd/networkd.conf.d/10-edgespan.conf && systemctl restart systemd-networkd`,
	}}
}

// rpFilter checks rp_filter: with one uplink the main table leads replies back the way they came; with more, replies of
// the other uplinks are dropped.
func rpFilter(f netstate.Facts, n Node) []Finding {
	var uplinks []string
	for _, p := range n.Ports {
		if p.Uplink {
			uplinks = append(uplinks, string(p.IfName))
		}
	}
	var out []Finding
	for _, name := range uplinks {
		if v, known := f.RPFilter[name]; known && max(v, f.RPFilter["all"]) == 1 {
			level := Warning
			if len(uplinks) > 1 {
				level = Problem
			}
			out = append(out, Finding{
				Level: level, Text: "uplink " + name + " drops packets whose way back is another one: rp_filter is strict",
				Fix: "sysctl -w net.ipv4.conf." + strings.ReplaceAll(name, ".", "/") + ".rp_filter=2",
			})
		}
	}
	return out
}

// forwarding checks the ports of networks: the daemon opens them, so another program keeps turning off one that stays
// closed.
func forwarding(_ netstate.Facts, n Node) []Finding {
	var out []Finding
	for _, name := range n.Closed {
		out = append(out, Finding{
			Level: Problem, Text: "what comes in by port " + name +
				" is not forwarded, so no app has an answer: somebody turned it off",
			Fix: "sysctl -w net.ipv4.conf." + strings.ReplaceAll(name, ".", "/") +
				".forwarding=1 && grep -rE 'ip_forward|forwarding' /etc/sysctl.conf /etc/sysctl.d /run/sysctl.d /usr/lib/sysctl.d",
		})
	}
	return out
}

// dns warns of networks whose port has no DNS server, neither configured nor learnt.
func dns(_ netstate.Facts, n Node) []Finding {
	var out []Finding
	for _, ni := range n.Networks {
		p, _ := netinst.ChoosePort(ni.Port, n.Ports)
		servers, _ := p.DNS()
		if ni.Type == netinst.Switch || ni.HasVPN() || p.Label == "" || len(ni.DNS.Servers)+len(servers) > 0 ||
			p.UnusableReason() != "" {
			continue
		}
		out = append(out, Finding{
			Level: Warning, Text: fmt.Sprintf("network %s has no DNS server: none is configured, and none was learned from %s",
				name(ni), p.IfName),
			Fix: fmt.Sprintf("edgespan apply -f FILE # with ports.%s.dnsServers", p.Label),
		})
	}
	return out
}

func subnets(f netstate.Facts, n Node) []Finding {
	var out []Finding
	clash := func(ni netinst.NetworkInstanceConfig, level, with string) {
		out = append(out, Finding{
			Level: level, Text: fmt.Sprintf("subnet %s of network %s overlaps with %s", ni.IPv4.Subnet, name(ni), with),
			Fix: fmt.Sprintf("edgespan apply -f FILE # with another networkInstances.%s.ipv4.subnet", ni.UUID),
		})
	}
	for i, ni := range n.Networks {
		for _, other := range n.Networks[i+1:] {
			if !netinst.Apart(ni, other) {
				clash(ni, Problem, fmt.Sprintf("%s of network %s", other.IPv4.Subnet, name(other)))
			}
		}
		o := overlap.With(ni.IPv4.Subnet, n.Host)
		if o.Clash != "" {
			clash(ni, Problem, o.Clash+": it is withdrawn until that is over")
		}
		if o.Hidden != "" {
			clash(ni, Warning, o.Hidden)
		}
		if six := overlap.With(ni.IPv6.Subnet, n.Host); ni.HasIPv6() && six.Clash != "" {
			out = append(out, Finding{Level: Warning,
				Text: fmt.Sprintf("subnet %s of network %s hides %s", ni.IPv6.Subnet, name(ni), six.Clash),
				Fix:  fmt.Sprintf("edgespan apply -f FILE # with another networkInstances.%s.ipv6.subnet", ni.UUID)})
		}
	}
	return out
}

func name(ni netinst.NetworkInstanceConfig) string {
	if ni.DisplayName != "" {
		return ni.DisplayName
	}
	return ni.UUID.String()
}

func daemons(f netstate.Facts, _ Node) []Finding {
	var out []Finding
	for i, a := range f.Daemons {
		for _, b := range f.Daemons[i+1:] {
			switch {
			case a.Here && b.Here:
				out = append(out, Finding{Level: Problem, Text: fmt.Sprintf("two daemons run in this network namespace: %d and %d",
					a.PID, b.PID), Fix: fmt.Sprintf("kill %d", b.PID)})
			case (a.Here || b.Here) && a.RunDir == b.RunDir:
				out = append(out, Finding{
					Level: Problem, Text: fmt.Sprintf("the daemons %d and %d of two network namespaces share one run folder", a.PID,
						b.PID),
					Fix: fmt.Sprintf("kill %d # and start it with a --run-dir and a --state-dir of its own", b.PID),
				})
			}
		}
	}
	return out
}

func configFile(_ netstate.Facts, n Node) []Finding {
	switch {
	case n.Refused != "":
		return []Finding{{Level: Problem, Text: n.Refused, Fix: "edgespan plan -f " + n.File + " # says every fault"}}
	case n.Differs:
		return []Finding{{
			Level: Problem, Text: fmt.Sprintf("%s is not the running config, which came from %s", n.File, n.Source),
			Fix: "edgespan apply -f " + n.File,
		}}
	}
	return nil
}

// drains reports ports that stay free of networks until somebody remembers them.
func drains(_ netstate.Facts, n Node) []Finding {
	var out []Finding
	for _, label := range n.Drained {
		out = append(out, Finding{Level: Warning, Text: "port " + label + " is drained until it is undrained",
			Fix: "edgespan port undrain " + label})
	}
	return out
}
