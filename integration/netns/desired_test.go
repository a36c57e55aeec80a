package netns_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"edgespan/config/nodeconf"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/platform/kernel"
)

// desiredStates are the desired states of one node config, computed as the daemon does: the state of each network, and
// the networks that host's chains must know.
type desiredStates struct {
	nets       map[int]netstate.State
	foundation map[int]netinst.HostNetwork
	held       map[int]map[netinst.AdapterKey]netinst.Lease
}

// desiredStates reads a node config and computes its desired states. The last group of a network's UUID is its number.
// Adapters keep the leases of the config before.
func (l *lab) desiredStates(doc string, before desiredStates) desiredStates {
	l.t.Helper()
	_, cfg, err := nodeconf.Read([]byte(doc))
	if err != nil {
		l.t.Fatalf("%v in\n%s", err, doc)
	}
	ports := netinst.PortStatuses(slices.Collect(maps.Values(cfg.Ports)), l.interfaces())
	w := desiredStates{map[int]netstate.State{}, map[int]netinst.HostNetwork{},
		map[int]map[netinst.AdapterKey]netinst.Lease{}}
	for id, ni := range cfg.Networks {
		n, err := strconv.Atoi(strings.TrimLeft(id.String()[24:], "0"))
		if err != nil {
			l.t.Fatal(err)
		}
		var adapters []netinst.AppAdapterConfig
		for _, app := range cfg.Apps {
			for i, u := range app.Adapters {
				if u.NetworkInstance == id && app.Activate {
					adapters = append(adapters, netinst.AppAdapterConfig{AppUUID: app.UUID,
						Index: i, TargetVersion: 1, Activate: true, Spec: u})
				}
			}
		}
		given := netinst.Allocate(ni, adapters, before.held[n])
		if len(given.Errors) > 0 {
			l.t.Fatal(given.Errors)
		}
		in := netinst.Input{Owner: netstate.Owner{Name: id.String(), Number: n}, Config: ni, Ports: ports, RunDir: l.dir}
		for _, a := range adapters {
			in.Adapters = append(in.Adapters, netinst.Adapter{Config: a, Lease: given.Leases[a.Key()]})
		}
		d := netinst.DesiredState(in)
		if d.PortError != "" {
			l.t.Fatal(d.PortError)
		}
		w.nets[n], w.held[n] = d.State, given.Leases
		w.foundation[n] = netinst.HostNetwork{Number: n, Subnet: ni.IPv4.Subnet, Ports: eth0(),
			Subnet6: ni.IPv6.Subnet, Gateway6: ni.IPv6.Gateway, Closed6: true, Flows: netinst.MarksFlows(ni), Flows6: netinst.MarksFlows6(ni),
			MayOverlap: ni.IPv4.MayOverlap, Returns: netinst.NeedsReturns(ni)}
	}
	return w
}

func (l *lab) interfaces() []netstate.Interface {
	l.t.Helper()
	k, err := kernel.Open(l.ns.Path)
	if err != nil {
		l.t.Fatal(err)
	}
	defer k.Close()
	seen, err := k.Interfaces()
	if err != nil {
		l.t.Fatal(err)
	}
	return seen
}

// eth0 returns the port of every network, which the host forwards for edgespan only.
func eth0() []netinst.HostPort { return []netinst.HostPort{{IfName: "eth0", Opened: true}} }

// root returns host's state for networks 1 and 2.
func root() netstate.State {
	w := desiredStates{foundation: map[int]netinst.HostNetwork{}}
	for n := 1; n <= 2; n++ {
		w.foundation[n] = netinst.HostNetwork{Number: n, Subnet: subnetOf(n), Ports: eth0()}
	}
	return w.host()
}

// host returns the desired state of host.
func (w desiredStates) host() netstate.State {
	return netinst.HostState(slices.Collect(maps.Values(w.foundation)))
}

// turn is one owner's desired state at its place in a change of config.
type turn struct {
	owner netstate.Owner
	want  netstate.State
}

// turns returns the order in which the daemon's owners apply a change of config: host learns of new networks first; an
// owner that gives up something (a removed network, an adapter that leaves) comes before the one that gets it; host
// forgets networks last.
func turns(from, to desiredStates) []turn {
	both := desiredStates{foundation: map[int]netinst.HostNetwork{}}
	maps.Copy(both.foundation, from.foundation)
	maps.Copy(both.foundation, to.foundation)
	out := []turn{{hostOwner, both.host()}}
	numbers := slices.Sorted(maps.Keys(both.foundation))
	slices.SortStableFunc(numbers,
		func(a, b int) int { return gives(from.nets[b], to.nets[b]) - gives(from.nets[a], to.nets[a]) })
	for _, n := range numbers {
		out = append(out, turn{owner(n), to.nets[n]})
	}
	return append(out, turn{hostOwner, to.host()})
}

// gives returns how many of its links a network gives up: 2 all, 1 some, 0 none.
func gives(from, to netstate.State) int {
	if to == nil {
		return 2
	}
	for id := range from {
		if id.Kind == netstate.KindLink && to[id] == nil {
			return 1
		}
	}
	return 0
}

// networkDoc returns a config with every kind of object: two adapters, access rules of each form, static names,
// options and a route through another gateway.
func (l *lab) networkDoc(n int) string {
	return "ports:\n" + wanDoc + "networkInstances:\n" + netDoc(n, 1400, fmt.Sprintf("10.%d.0.0/24", n), "edge") +
		"appNetworks:\n" + appDoc(n, webACL,
		fmt.Sprintf("{networkInstance: %s, attach: {kind: veth, netns: %s, ifName: eth%d}", owner(n).Name, l.app.Name, n))
}

const wanDoc = "  wan: {ifName: eth0, uplink: true, dnsServers: 192.0.2.53, ntpServers: 192.0.2.123}\n"

const webACL = "{order: 1, direction: ingress, match: {ip: 192.0.2.0/24, protocol: tcp, localPort: \"80,443\"}}"

func netDoc(n, mtu int, subnet, domain string) string {
	base, _, _ := strings.Cut(subnet, ".0/")
	return fmt.Sprintf(`  %[1]s:
    port: wan
    mtu: %[2]d
    ipv4: {subnet: %[3]s}
    dns: {domain: %[4]s, hosts: {printer.%[4]s: "%[5]s.8,%[5]s.9"}}
    routes: {lab: {destination: 203.0.113.0/24, gateway: 192.0.2.9}}
`, owner(n).Name, mtu, subnet, domain, base)
}

// sharedDoc returns an air-gapped network whose subnet others may have.
func sharedDoc(n int, subnet string) string {
	return fmt.Sprintf("  %s:\n    port: \"\"\n    mtu: 1400\n    ipv4: {subnet: %s, mayOverlap: true}\n", owner(n).Name, subnet)
}

// natDoc returns a network behind NAT whose subnet others may have.
func natDoc(n int, subnet string) string {
	return strings.Replace(sharedDoc(n, subnet), `port: ""`, "port: wan", 1)
}

// appDoc returns an app whose adapters differ only in their attachments.
func appDoc(n int, acl string, adapters ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  a0000000-0000-4000-8000-%012d:\n    displayName: app%d\n    adapters:\n", n, n)
	for i, a := range adapters {
		fmt.Fprintf(&b, "      %d: %s, acl: {one: %s, mail: {order: 9, action: drop, match: {protocol: tcp, port: "+
			"\"25,465\"}}, "+
			"ping: {order: 10, match: {protocol: icmp, ip: 192.0.2.0/24}}, rest: {order: 11, direction: egress}}}\n", i, a, acl)
	}
	return b.String()
}

// network returns the desired state of one network instance with every kind of object.
func (l *lab) network(n int) netstate.State {
	l.t.Helper()
	return l.desiredStates(l.networkDoc(n), desiredStates{}).nets[n]
}
