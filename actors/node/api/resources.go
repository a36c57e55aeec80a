package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"edgespan/appnet"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/netinst"
	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
)

// List returns every resource of a kind, by id.
func (n *Reader) List(ctx context.Context, kind string) ([]nodeapi.Resource, error) {
	var rs []nodeapi.Resource
	switch kind {
	case "ni":
		rs = n.networks()
	case "app":
		rs = n.apps()
	case "adapter":
		rs = n.adapters()
	case "port":
		rs = n.ports()
	case "param":
		for _, e := range n.Topics.Reported.All() {
			rs = append(rs, nodeapi.Resource{ID: e.Key, Kind: kind,
				Spec: nodeapi.ParamSpec{Kind: e.Value.Kind, Target: e.Value.Target}, Status: nodeapi.ParamStatus(e.Value)})
		}
	case "tunnel":
		rs = n.tunnels()
	case "lease":
		rs = n.leases()
	case "dns":
		rs = n.dnsAnswers()
	case "config":
		rs = n.source()
	case "pending":
		p, err := n.Pending(ctx)
		if err != nil {
			return nil, err
		}
		rs = []nodeapi.Resource{{ID: "node", Kind: kind, Spec: map[string]any{}, Status: p}}
	case "actor":
		for _, a := range n.Actors.List() {
			rs = append(rs, nodeapi.Resource{ID: a.ID, Kind: kind, Spec: map[string]any{}, Status: a})
		}
	default:
		return nil, fmt.Errorf("list %q: %w: must be one of %s", kind, rest.ErrNotFound, strings.Join(nodeapi.Kinds(), ", "))
	}
	slices.SortFunc(rs, func(a, b nodeapi.Resource) int { return cmp.Compare(a.ID, b.ID) })
	return rs, nil
}

func partsOf(s netinst.NetworkInstanceStatus) []nodeapi.PartStatus {
	var out []nodeapi.PartStatus
	for _, p := range s.Parts {
		out = append(out, nodeapi.PartStatus{Kind: p.Kind, Name: p.Name, State: string(p.State), Error: p.Error})
	}
	return out
}

func (n *Reader) networks() []nodeapi.Resource {
	t := n.Topics
	configs, statuses := t.NetworkConfig.List(""), t.NetworkStatus.List("")
	fault, notYet := n.hostFault(), ""
	var rs []nodeapi.Resource
	for id := range union(configs, statuses) {
		r := nodeapi.Resource{ID: id, Kind: "ni", Spec: map[string]any{}}
		if c, ok := configs[id]; ok {
			r.Spec = networkSpec(c)
		}
		s, ok := statuses[id]
		st := nodeapi.NetworkStatus{State: string(s.State), DisplayName: s.DisplayName, Bridge: string(s.Bridge),
			Number: s.Number, Port: s.Port, Generation: s.Generation, Error: s.Error, Warning: s.Warning, Parts: partsOf(s)}
		if !ok {
			if notYet == "" { // the same for all
				notYet = n.noManagerReason()
			}
			st.State, st.DisplayName, st.Error = string(netinst.WaitingForDependencies), configs[id].DisplayName, notYet
		}
		if fault != "" && s.State == netinst.Present {
			st.State, st.Error = string(netinst.CheckPresentFailed), fault
		}
		if crash := n.networkCrashed(id); crash != "" {
			st.Error = crash
		}
		r.Status = st
		rs = append(rs, r)
	}
	return rs
}

// noManagerReason returns what a network without a manager waits for.
func (n *Reader) noManagerReason() string {
	if fault := n.hostFault(); fault != "" {
		return "waits for the " + fault
	}
	return "waits for the host"
}

// networkCrashed reports that one of a network's actors waits for its restart, and why.
func (n *Reader) networkCrashed(id string) string {
	if why := n.crashed("bridge manager", "router/ni/"+id); why != "" {
		return why
	}
	return n.crashed("applier", "router/ni/"+id+"/applier")
}

func (n *Reader) appCrashed(id string) string { return n.crashed("app network", "router/app/"+id) }

func (n *Reader) crashed(what, id string) string {
	if a, down := n.Actors.Down(id); down {
		return fmt.Sprintf("%s crashed (%d in a row): %s; restarts within %s", what, a.Crashes, a.Last, a.Next)
	}
	return ""
}

func tunnelSpecs(ts []netinst.Tunnel) []nodeapi.TunnelSpec {
	out := make([]nodeapi.TunnelSpec, len(ts))
	for i, t := range ts {
		out[i] = nodeapi.TunnelSpec{To: t.Name, VNI: t.VNI, Local: t.Local, Remote: t.Remote, Port: t.Port, MTU: t.MTU,
			Isolated: t.Isolated}
	}
	return out
}

func networkSpec(c netinst.NetworkInstanceConfig) nodeapi.NetworkSpec {
	spec := nodeapi.NetworkSpec{DisplayName: c.DisplayName, Type: string(c.Type), Activate: !c.Inactive, Port: c.Port,
		MTU: c.MTU, SpoofGuard: c.SpoofGuard, FlowLog: c.FlowLog, ForwardLLDP: c.ForwardLLDP, Generation: c.Generation}
	if c.HasIPv6() || c.BridgesIPv6() {
		spec.IPv6 = &nodeapi.IPv6Spec{Mode: string(c.IPv6.Mode), NAT: c.IPv6.NAT, Subnet: c.IPv6.Subnet}
	}
	if c.Type == netinst.Switch { // the other fields are not for a switch
		if len(c.Tunnels)+len(c.Members) > 0 {
			spec.Tunnels, spec.Members = tunnelSpecs(c.Tunnels), make([]string, len(c.Members))
			for i, m := range c.Members {
				spec.Members[i] = string(m)
			}
		}
		for _, p := range c.AccessPorts {
			if spec.VLANAccessPorts == nil {
				spec.VLANAccessPorts = map[string]int{}
			}
			spec.VLANAccessPorts[p.Label] = p.VLAN
		}
		return spec
	}
	spec.Flows, spec.Share, spec.VPN = string(c.Flows), c.Share, vpnSpec(c.VPN)
	hosts := map[string]string{}
	for h, ips := range c.DNS.Hosts {
		hosts[string(h)] = Joined(ips)
	}
	spec.IPv4 = &nodeapi.IPv4Spec{Subnet: c.IPv4.Subnet, Gateway: c.IPv4.Gateway,
		DHCPRange: c.IPv4.DHCPFirst.String() + "-" + c.IPv4.DHCPLast.String(), MayOverlap: c.IPv4.MayOverlap}
	spec.DNS = &nodeapi.DNSSpec{Domain: string(c.DNS.Domain), Servers: Joined(c.DNS.Servers), Hosts: hosts}
	spec.NTPServers, spec.Routes = new(Joined(c.NTPServers)), routeSpecs(c.Routes)
	if p := probeSpec(c.Probe); p != probeSpec(probe.Config{}) {
		spec.Probe = &p
	}
	return spec
}

// probeSpec fills in the defaults.
func probeSpec(c probe.Config) nodeapi.ProbeSpec {
	return nodeapi.ProbeSpec{Method: string(c.Method), Target: strings.Join(c.Targets, ","), Body: c.Body,
		IntervalMs:   cmp.Or(c.Interval, probe.DefaultInterval).Milliseconds(),
		TimeoutMs:    cmp.Or(c.Timeout, probe.DefaultTimeout).Milliseconds(),
		FailAfter:    cmp.Or(c.FailAfter, probe.DefaultFailAfter),
		HoldMs:       cmp.Or(c.Hold, probe.DefaultHold).Milliseconds(),
		RecoverAfter: cmp.Or(c.RecoverAfter, probe.DefaultRecoverAfter), Quorum: max(c.Quorum, 1),
		MaxLoss: c.MaxLoss, MaxLatencyMs: c.MaxLatency.Milliseconds()}
}

func routeSpecs(rs []netinst.StaticRoute) map[string]nodeapi.RouteSpec {
	out := map[string]nodeapi.RouteSpec{}
	for _, r := range rs {
		out[r.Name] = nodeapi.RouteSpec{Destination: r.Destination, Gateway: r.Gateway, Port: r.Port, Cost: r.Cost}
	}
	return out
}

func (n *Reader) apps() []nodeapi.Resource {
	t := n.Topics
	configs, statuses := t.AppConfig.List(""), t.AppStatus.List("")
	var rs []nodeapi.Resource
	for id := range union(configs, statuses) {
		r := nodeapi.Resource{ID: id, Kind: "app", Spec: map[string]any{}}
		if c, ok := configs[id]; ok {
			r.Spec = appSpec(c)
		}
		st := nodeapi.AppStatus{Pending: true, DisplayName: configs[id].DisplayName, Adapters: []nodeapi.AdapterStatus{}}
		if s, ok := statuses[id]; ok {
			st = nodeapi.AppStatus{DisplayName: s.DisplayName, Pending: s.Pending, Activated: s.Activated,
				TargetVersion: s.TargetVersion, Error: s.Error, Adapters: n.adaptersOf(s, configs[id])}
		}
		if crash := n.appCrashed(id); crash != "" {
			st.Error = crash
		}
		r.Status = st
		rs = append(rs, r)
	}
	return rs
}

func (n *Reader) adaptersOf(s appnet.AppNetworkStatus, c appnet.AppNetworkConfig) []nodeapi.AdapterStatus {
	as := make([]nodeapi.AdapterStatus, 0, len(s.Adapters))
	for _, a := range s.Adapters {
		u := a.Link
		st := nodeapi.AdapterStatus{
			Index: a.Index, NetworkInstance: a.NetworkInstance.String(), TargetVersion: a.TargetVersion, Activated: a.Activated,
			Addresses: u.Addresses, MAC: u.MAC, IfName: string(u.IfName), HostIfName: string(u.HostIfName),
			State: string(a.State(true)), Error: a.Error, Warning: u.DroppedText(), Lease: u.Lease,
		}
		if u.IP.IsValid() {
			st.IP = u.IP.String()
		}
		if spec, has := c.Adapters[a.Index]; has {
			st.Hits, st.HitsRead = n.lastHits(c.UUID, a.Index, spec)
		}
		as = append(as, st)
	}
	return as
}

func appSpec(c appnet.AppNetworkConfig) nodeapi.AppSpec {
	adapters := map[string]nodeapi.AdapterSpec{}
	for i, u := range c.Adapters {
		adapters[strconv.Itoa(i)] = adapterSpec(u)
	}
	return nodeapi.AppSpec{DisplayName: c.DisplayName, Activate: c.Activate, Adapters: adapters}
}

func adapterSpec(u netinst.AdapterSpec) nodeapi.AdapterSpec {
	return nodeapi.AdapterSpec{NetworkInstance: u.NetworkInstance.String(), MAC: u.MAC, IP: u.IP, IP6: u.IP6,
		ACL: aclSpecs(u.ACL), Attach: attachSpec(u), Observe: u.Observe, VLAN: u.VLAN, Trunk: numbers(u.Trunk)}
}

// numbers joins numbers with commas.
func numbers(ns []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(ns), "[]"), " ", ",")
}

func attachSpec(u netinst.AdapterSpec) nodeapi.AttachSpec {
	if u.Kind == netinst.Veth {
		return nodeapi.AttachSpec{Kind: string(u.Kind), Netns: &u.Netns, IfName: new(string(u.IfName))}
	}
	return nodeapi.AttachSpec{Kind: string(u.Kind), HostIfName: new(string(u.HostIfName))}
}

func aclSpecs(rules []netinst.ACLRule) []nodeapi.ACLSpec {
	out := make([]nodeapi.ACLSpec, 0, len(rules))
	for _, r := range rules {
		match := nodeapi.MatchSpec{Protocol: r.Protocol, Port: Joined(r.Ports), LocalPort: Joined(r.LocalPort),
			PortLabel: r.PortLabel, IP: r.IP, Host: string(r.Host)}
		if r.Set != nil {
			match.Set = r.Set.Name
		}
		out = append(out, nodeapi.ACLSpec{Name: r.Name, Direction: string(r.Direction), Action: string(r.Action),
			Match: match})
	}
	return out
}

// AdapterID returns the id of an adapter: its app and its index.
func AdapterID(app string, index int) string { return app + "/" + strconv.Itoa(index) }

func (n *Reader) adapters() []nodeapi.Resource {
	configs := n.Topics.AppConfig.List("")
	var rs []nodeapi.Resource
	for id, s := range n.Topics.AppStatus.List("") {
		for _, a := range n.adaptersOf(s, configs[id]) {
			r := nodeapi.Resource{ID: AdapterID(id, a.Index), Kind: "adapter", Spec: map[string]any{}, Status: a}
			if u, ok := configs[id].Adapters[a.Index]; ok {
				r.Spec = adapterSpec(u)
			}
			rs = append(rs, r)
		}
	}
	return rs
}

func (n *Reader) ports() []nodeapi.Resource {
	var rs []nodeapi.Resource
	statuses, uses := n.Topics.PortStatus.List(""), n.portUses()
	for label, c := range n.Topics.PortConfig.List("") {
		s := statuses[label]
		addrs := make([]string, 0, len(s.Addresses))
		for _, a := range s.Addresses {
			addrs = append(addrs, a.String())
		}
		s.IfName = c.IfName // it may have no status yet
		why, route := s.Problem(), ""
		servers, source := s.DNS()
		if r, out := s.DefaultRoute(); out {
			route = r.String()
		}
		if fault := n.portFault(label); fault != "" && why != "" {
			why += "; " + fault
		} else {
			why += fault
		}
		st := nodeapi.PortStatus{Exists: s.Exists, Up: s.Up, MTU: s.LinkMTU, Addresses: addrs,
			Gateways: Joined(s.Gateways()), DefaultRoute: route, DNSServers: Joined(servers), DNSSource: source,
			DNSSkipped: s.Learnt.Skipped, Error: why}
		n.judged(&st, label, uses[label])
		rs = append(rs, nodeapi.Resource{
			ID: label, Kind: "port",
			Spec: nodeapi.PortSpec{IfName: string(c.IfName), Uplink: c.Uplink, Cost: c.Cost,
				Labels: strings.Join(c.Labels, ","), Gateway: c.Gateway, DNSServers: Joined(c.DNSServers),
				NTPServers: Joined(c.NTPServers), MTU: c.MTU, Metered: c.Metered, Addressing: string(c.Addressing),
				Address: Joined(c.Static), VLAN: vlanSpec(c.VLAN), ProbeBytes: c.ProbeBudget(), Weight: c.Weight},
			Status: st,
		})
	}
	return rs
}

// portFault returns why a port is not set up as the config says, "" if it is or another program sets it up.
func (n *Reader) portFault(label string) string {
	t, _ := n.Topics.Trouble.Get("", netstate.PortsOwner)
	for _, f := range t.Failing {
		if f.Adapter == label && !f.Blocked {
			return f.Op + ": " + f.Error
		}
	}
	return ""
}

func vlanSpec(v netinst.VLAN) *nodeapi.VLANSpec {
	if v == (netinst.VLAN{}) {
		return nil
	}
	return &nodeapi.VLANSpec{ID: v.ID, Parent: string(v.Parent)}
}

// Joined joins values with commas.
func Joined[T fmt.Stringer](xs []T) string {
	out := make([]string, len(xs))
	for i, x := range xs {
		out[i] = x.String()
	}
	return strings.Join(out, ",")
}

func union[A, B any](a map[string]A, b map[string]B) map[string]bool {
	u := map[string]bool{}
	for k := range a {
		u[k] = true
	}
	for k := range b {
		u[k] = true
	}
	return u
}
