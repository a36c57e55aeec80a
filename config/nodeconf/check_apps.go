package nodeconf

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/config"
	"edgespan/netinst"
)

// firstPaths maps each value to the first path with it.
type firstPaths[K comparable] map[K][]string

// firstUse returns the earlier path with the value v, or records path as the first.
func (s firstPaths[K]) firstUse(v K, path []string) ([]string, bool) {
	first, again := s[v]
	if !again {
		s[v] = path
	}
	return first, again
}

type onNetwork[T comparable] struct {
	network uuid.UUID
	value   T
}

type attachPoint struct {
	netns  string
	ifName netinst.IfName
}

// uniques are the values that adapters of the node must not share.
type uniques struct {
	ips  firstPaths[onNetwork[netip.Addr]]
	macs firstPaths[string]
	at   firstPaths[attachPoint]
	host firstPaths[netinst.IfName]
	made map[string]string // generated MACs of links, with their owners
}

func (c *checker) checkApps() {
	u := uniques{firstPaths[onNetwork[netip.Addr]]{}, firstPaths[string]{}, firstPaths[attachPoint]{},
		firstPaths[netinst.IfName]{},
		map[string]string{}}
	for id := range c.cfg.Networks {
		u.made[netinst.BridgeMAC(id)] = "the bridge of networkInstances." + id.String()
	}
	for _, key := range c.apps.keys() {
		o := c.apps.objectOrEmpty(key)
		app := appnet.AppNetworkConfig{
			UUID:        uuid.MustParse(key),
			DisplayName: value[string](o, "displayName"),
			Activate:    value[bool](o, "activate"),
			Adapters:    map[int]netinst.AdapterSpec{},
		}
		name := hostname(app)
		adapters := o.objectOrEmpty("adapters")
		for _, index := range adapters.keys() {
			i, _ := strconv.Atoi(index) // the walk has validated the index
			a := c.readAdapter(adapters.objectOrEmpty(index), index)
			a.Hostname = name
			app.Adapters[i] = a
			c.checkAdapter(adapters.objectOrEmpty(index), a, u)
			k := netinst.AdapterKey{AppUUID: app.UUID, Index: i}
			generated, host := netinst.LinkMACs(k, a.NetworkInstance)
			u.made[host] = "the host's side of " + config.FormatPath(adapters.objectOrEmpty(index).path)
			if a.MAC == "" {
				u.made[generated] = config.FormatPath(adapters.objectOrEmpty(index).path) + ", which has none configured"
			}
		}
		c.cfg.Apps[app.UUID] = app
	}
	c.checkMadeMACs(u)
	c.checkNames()
	c.checkLimits()
}

// checkMadeMACs refuses a configured MAC that another link generates: generated MACs never change, even if a config
// uses one of them.
func (c *checker) checkMadeMACs(u uniques) {
	for mac, path := range u.macs {
		if whose, ok := u.made[mac]; ok {
			c.addFault(path, fmt.Sprintf("invalid value %s, the generated MAC address of %s", mac, whose),
				"must be unique")
		}
	}
}

// hostname returns the app's name in DNS: its display name if that is a valid host name, else its UUID.
func hostname(app appnet.AppNetworkConfig) netinst.Hostname {
	if h, err := netinst.ParseHostname(app.DisplayName); err == nil {
		return h
	}
	return netinst.Hostname(app.UUID.String())
}

func (c *checker) readAdapter(o *object, index string) netinst.AdapterSpec {
	attach := o.objectOrEmpty("attach")
	a := netinst.AdapterSpec{
		NetworkInstance: value[uuid.UUID](o, "networkInstance"),
		MAC:             value[string](o, "mac"),
		IP:              value[netip.Addr](o, "ip"),
		IP6:             value[netip.Addr](o, "ip6"),
		Kind:            netinst.AttachKind(value[string](attach, "kind")),
		Netns:           value[string](attach, "netns"),
		IfName:          value[netinst.IfName](attach, "ifName"),
		HostIfName:      value[netinst.IfName](attach, "hostIfName"),
		ACL:             c.readACL(o.objectOrEmpty("acl"), value[uuid.UUID](o, "networkInstance")),
		VLAN:            unlessDefault(value[int](o, "vlan"), netinst.NativeVLAN),
		Trunk:           items[int](o, "trunk"),
		DHCPServer:      value[bool](o, "dhcpServer"),
		MaxFlows:        value[int](o, "maxFlows"),
		MaxFragments:    unlessDefault(value[int](o, "maxFragments"), netinst.DefaultMaxFragments),
		MaxNeighbours:   unlessDefault(value[int](o, "maxNeighbours"), netinst.DefaultMaxNeighbours),
		Observe:         value[bool](o, "observe"),
	}
	if a.MaxFlows == netinst.DefaultMaxFlows {
		a.MaxFlows = 0 // the default, written or not, is the same limit
	}
	slices.Sort(a.Trunk)
	if a.Kind == netinst.Veth && !attach.isGiven("ifName") {
		a.IfName = netinst.IfName("eth" + index)
	}
	return a
}

func (c *checker) checkAdapter(o *object, a netinst.AdapterSpec, u uniques) {
	ni, found := c.cfg.Networks[a.NetworkInstance]
	if a.NetworkInstance != uuid.Nil && !found && !c.networks.isGiven(a.NetworkInstance.String()) {
		c.cfg.Warnings = append(c.cfg.Warnings, config.Fault{
			Path: o.pathOf("networkInstance"), Problem: config.InvalidValue(a.NetworkInstance.String()) +
				", which has no config",
			Expectation: "the app waits for it",
		})
	}
	if a.IP.IsValid() && ni.Type == netinst.Switch {
		c.addFault(o.pathOf("ip"), "invalid on a switch network",
			"the app chooses its addresses there, and they are reported")
	} else if a.IP.IsValid() {
		c.checkIP(o, a, ni.IPv4, u)
	}
	if a.IP6.IsValid() {
		c.checkIP6(o, a, ni, found, u)
	}
	if a.MAC != "" {
		if first, again := u.macs.firstUse(a.MAC, o.pathOf("mac")); again {
			c.addFault(o.pathOf("mac"), duplicateText(a.MAC, first), "must be unique")
		}
	}
	c.checkDHCPServer(o, a, ni)
	c.checkAdapterVLANs(o, a, ni)
	c.checkAttach(o.objectOrEmpty("attach"), a, u)
	if a.Netns == "" || a.IfName == "" {
		return
	}
	attach := o.objectOrEmpty("attach")
	if strings.HasPrefix(a.Netns, "/proc/") { // no fault: existing configs may have it
		c.cfg.Warnings = append(c.cfg.Warnings, config.Fault{
			Path: attach.pathOf("netns"), Problem: "invalid value " + config.Quote(a.Netns) + ", which another process can get",
			Expectation: "the adapter fails until it is a name below /run/netns (ip netns attach NAME PID)",
		})
	}
	at := attachPoint{sameNetns(a.Netns), a.IfName}
	if first, again := u.at.firstUse(at, attach.path); again {
		path := attach.pathOf("netns")
		if attach.isGiven("ifName") {
			path = attach.pathOf("ifName")
		}
		what := fmt.Sprintf("duplicate value %s in %s, also at %s", a.IfName, config.Quote(a.Netns), config.FormatPath(first))
		c.addFault(path, what, "must be unique in its network namespace")
	}
}

// checkDHCPServer refuses a server on a local network, where the node is the server. It warns of rules on a switch
// network that let an app serve DHCP, since its answers are dropped without dhcpServer.
func (c *checker) checkDHCPServer(o *object, a netinst.AdapterSpec, ni netinst.NetworkInstanceConfig) {
	if a.DHCPServer && ni.Type == netinst.Local {
		c.addFault(o.pathOf("dhcpServer"), "invalid value true on a local network",
			"only an adapter of a switch network can serve DHCP; on a local network the node does")
	}
	if a.DHCPServer || ni.Type != netinst.Switch {
		return
	}
	names := func(ports []netinst.PortRange, port uint16) bool {
		return slices.Contains(ports, netinst.PortRange{First: port, Last: port})
	}
	for _, r := range a.ACL {
		if r.Action == netinst.Allow && r.Protocol == "udp" && (names(r.LocalPort, 67) || names(r.Ports, 68)) {
			c.cfg.Warnings = append(c.cfg.Warnings, config.Fault{
				Path:        o.objectOrEmpty("acl").objectOrEmpty(r.Name).path,
				Problem:     "names the ports of a DHCP server, and dhcpServer is false: what the app answers is dropped",
				Expectation: "write dhcpServer: true where it serves DHCP",
			})
		}
	}
}

// sameNetns shortens a path in one of iproute2's two folders of named namespaces to the name, so that all spellings
// compare equal.
func sameNetns(s string) string {
	for _, dir := range []string{"/run/netns/", "/var/run/netns/"} {
		if name, ok := strings.CutPrefix(s, dir); ok {
			return name
		}
	}
	return s
}

func (c *checker) checkIP(o *object, a netinst.AdapterSpec, v4 netinst.IPv4Config, u uniques) {
	path := o.pathOf("ip")
	pool := ipRange{v4.DHCPFirst, v4.DHCPLast}
	switch {
	case v4.Subnet.IsValid() && !isHost(v4.Subnet, a.IP):
		c.addFault(path, config.Invalid(a.IP.String()),
			fmt.Sprintf("must be a host address of the network's subnet %s", v4.Subnet))
		return
	case v4.Gateway == a.IP:
		c.addFault(path, fmt.Sprintf("invalid value %s, the network's gateway", a.IP), "must be unique")
		return
	case pool.first.IsValid() && pool.contains(a.IP):
		c.addFault(path, fmt.Sprintf("invalid value %s, in the network's dhcpRange %s", a.IP, pool),
			"must be an address outside dhcpRange")
		return
	case a.NetworkInstance == uuid.Nil:
		return
	}
	if first, again := u.ips.firstUse(onNetwork[netip.Addr]{a.NetworkInstance, a.IP}, path); again {
		c.addFault(path, duplicateText(a.IP, first), "must be unique")
	}
}

// checkNames refuses apps with the same DNS name on one network. It reports one fault for two apps that share several
// networks.
func (c *checker) checkNames() {
	names := firstPaths[onNetwork[netinst.Hostname]]{}
	for _, key := range c.apps.keys() {
		o := c.apps.objectOrEmpty(key)
		app := c.cfg.Apps[uuid.MustParse(key)]
		owned := map[uuid.UUID]netinst.Hostname{}
		for _, a := range app.Adapters {
			owned[a.NetworkInstance] = a.Hostname
		}
		delete(owned, uuid.Nil)
		if o.isInvalid("displayName") {
			continue
		}
		for _, ni := range slices.SortedFunc(maps.Keys(owned),
			func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }) {
			first, again := names.firstUse(onNetwork[netinst.Hostname]{ni, owned[ni]}, o.path)
			if again {
				what := fmt.Sprintf("invalid value %s, the name of %s on network %s too", owned[ni], config.FormatPath(first), ni)
				c.addFault(o.pathOf("displayName"), what, "must be unique on each network")
				break
			}
		}
	}
}

func (c *checker) readACL(all *object, ni uuid.UUID) []netinst.ACLRule {
	type placed struct {
		rule  netinst.ACLRule
		order int
	}
	names := all.keys()
	rules := make([]placed, 0, len(names))
	orders := make(map[int]*object, len(names))
	for _, name := range names {
		o := all.objectOrEmpty(name)
		match := o.objectOrEmpty("match")
		p := placed{
			rule: netinst.ACLRule{
				Name:      name,
				Direction: netinst.Direction(value[string](o, "direction")),
				Action:    netinst.Action(value[string](o, "action")),
				IP:        value[netip.Prefix](match, "ip"),
				Protocol:  value[string](match, "protocol"),
				Ports:     value[[]netinst.PortRange](match, "port"),
				LocalPort: value[[]netinst.PortRange](match, "localPort"),
				PortLabel: value[string](match, "portLabel"),
				Host:      c.hostOf(match, ni),
				Set:       c.setOf(match, ni),
				Limit:     c.readLimit(o),
			},
			order: 1 << 16, // after every explicit order
		}
		if n, given := lookup[int](o, "order"); given {
			p.order = n
			if first := orders[n]; first != nil {
				c.addFault(o.pathOf("order"), duplicateText(n, first.pathOf("order")), "must be unique")
			} else {
				orders[n] = o
			}
		}
		c.checkPortMatch(match, p.rule)
		p.rule = c.readPortmap(o, p.rule)
		c.narrowToEgress(o, &p.rule)
		c.checkLabel(match, "portLabel", p.rule.PortLabel)
		rules = append(rules, p)
	}
	slices.SortStableFunc(rules, func(a, b placed) int { // all.keys is sorted by name, and the sort is stable
		return cmp.Compare(a.order, b.order)
	})
	if len(rules) == 0 {
		return nil
	}
	out := make([]netinst.ACLRule, len(rules))
	for i, p := range rules {
		out[i] = p.rule
	}
	return out
}

// narrowToEgress restricts a rule that allows both directions by only the port of the remote end to egress. The
// remote end chooses its source port, so the rule would otherwise admit packets from anyone with that source port to
// every port of the app. A dropping rule is not narrowed, since that would let more pass (docs/adr/0027).
func (c *checker) narrowToEgress(o *object, r *netinst.ACLRule) {
	allows := r.Action == netinst.Allow || r.Action == netinst.Limit
	if !allows || r.Direction != netinst.Both || len(r.Ports) == 0 || len(r.LocalPort) > 0 {
		return
	}
	r.Direction = netinst.Egress
	if o.isGiven("direction") {
		c.cfg.Warnings = append(c.cfg.Warnings, config.Fault{
			Path:        o.pathOf("direction"),
			Problem:     "invalid value both with match.port, the port of the remote end: taken as egress",
			Expectation: "write egress, and a rule of ingress with match.localPort for incoming traffic",
		})
	}
}

// readLimit reads the rate of a rule with action limit, and refuses one of another rule, which would limit nothing.
func (c *checker) readLimit(o *object) netinst.RateLimit {
	limit := o.objectOrEmpty("limit")
	if value[string](o, "action") != string(netinst.Limit) {
		for _, key := range []string{"burst", "rate"} {
			if limit.isGiven(key) && !limit.isInvalid(key) && !o.isInvalid("action") {
				c.addFault(limit.pathOf(key), "limits nothing", "must be used with action limit")
			}
		}
		return netinst.RateLimit{}
	}
	l := value[netinst.RateLimit](limit, "rate")
	l.Burst = value[int](limit, "burst")
	if maximum := l.MaxBurst(); l.Packets > 0 && l.Burst > maximum {
		c.addFault(limit.pathOf("burst"), config.InvalidValue(strconv.Itoa(l.Burst)),
			fmt.Sprintf("must be at most %d, the packets of a day at this rate", maximum))
	}
	return l
}

// checkPortMatch refuses ports with a protocol that has none.
func (c *checker) checkPortMatch(match *object, r netinst.ACLRule) {
	if r.Protocol == "tcp" || r.Protocol == "udp" || match.isInvalid("protocol") {
		return
	}
	what := "needs a protocol that has ports"
	for _, key := range []string{"port", "localPort"} {
		if _, given := lookup[[]netinst.PortRange](match, key); given {
			c.addFault(match.pathOf(key), what, "must be used with protocol tcp or udp")
		}
	}
}
