package api

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"edgespan/appnet"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/httpapi/rest"
	"edgespan/netinst"
)

// List answers every resource of a kind, by id.
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
				Spec: map[string]any{"kind": e.Value.Kind, "target": e.Value.Target}, Status: e.Value})
		}
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
		return nil, fmt.Errorf("list %q: %w: ni, app, adapter, port, param, actor, config and pending are allowed", kind,
			rest.ErrNotFound)
	}
	slices.SortFunc(rs, func(a, b nodeapi.Resource) int { return cmp.Compare(a.ID, b.ID) })
	return rs, nil
}

// NetworkStatus is what `get ni` shows of a network.
type NetworkStatus struct {
	State       string `json:"state"`
	DisplayName string `json:"displayName"`
	Bridge      string `json:"bridge"`
	Number      int    `json:"number"`
	Port        string `json:"port"`
	Generation  uint64 `json:"generation"`
	Error       string `json:"error"`
	Warning     string `json:"warning"`
	Parts       []part `json:"parts,omitempty"`
}

// part is the bridge, a tunnel or a member of a cluster's network.
type part struct {
	Kind  string `json:"kind"`
	Name  string `json:"name,omitempty"`
	State string `json:"state"`
	Error string `json:"error,omitempty"`
}

func partsOf(s netinst.NetworkInstanceStatus) []part {
	var out []part
	for _, p := range s.Parts {
		out = append(out, part{p.Kind, p.Name, string(p.State), p.Error})
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
		st := NetworkStatus{string(s.State), s.DisplayName, string(s.Bridge), s.Number, s.Port, s.Generation, s.Error,
			s.Warning, partsOf(s)}
		if !ok {
			if notYet == "" { // the same for all
				notYet = n.whyNotYet()
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

// whyNotYet says what a network waits for that has no manager yet.
func (n *Reader) whyNotYet() string {
	if fault := n.hostFault(); fault != "" {
		return "waits for the " + fault
	}
	for _, a := range n.Actors.List() { // it can't even see what is there
		if a.ID == "router/ground" && a.Last != "" {
			return "waits for the host: " + a.Last
		}
	}
	return "waits for the host"
}

// networkCrashed says that one of a network's actors is down for its back-off, and why.
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

func tunnelSpecs(ts []netinst.Tunnel) []map[string]any {
	out := make([]map[string]any, len(ts))
	for i, t := range ts {
		out[i] = map[string]any{
			"to": t.Name, "vni": t.VNI, "local": known(t.Local), "remote": known(t.Remote), "port": t.Port, "mtu": t.MTU,
			"isolated": t.Isolated,
		}
	}
	return out
}

// known spells an address, "" while it is not known.
func known(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func networkSpec(c netinst.NetworkInstanceConfig) map[string]any {
	spec := map[string]any{
		"displayName": c.DisplayName, "type": c.Type, "activate": !c.Inactive, "port": c.Port, "mtu": c.MTU,
		"spoofGuard": c.SpoofGuard,
		"generation": c.Generation,
	}
	if c.Type == netinst.Switch { // it has nothing of what follows
		if len(c.Tunnels)+len(c.Members) > 0 {
			spec["tunnels"], spec["members"] = tunnelSpecs(c.Tunnels), c.Members
		}
		return spec
	}
	hosts := map[string]string{}
	for h, ips := range c.DNS.Hosts {
		hosts[string(h)] = Joined(ips)
	}
	spec["ipv4"] = map[string]any{"subnet": c.IPv4.Subnet, "gateway": c.IPv4.Gateway,
		"dhcpRange": c.IPv4.DHCPFirst.String() + "-" + c.IPv4.DHCPLast.String()}
	spec["dns"] = map[string]any{"domain": c.DNS.Domain, "servers": Joined(c.DNS.Servers), "hosts": hosts}
	spec["ntpServers"], spec["routes"] = Joined(c.NTPServers), routeSpecs(c.Routes)
	return spec
}

func routeSpecs(rs []netinst.StaticRoute) map[string]any {
	out := map[string]any{}
	for _, r := range rs {
		gateway := ""
		if r.Gateway.IsValid() {
			gateway = r.Gateway.String()
		}
		out[r.Name] = map[string]any{"destination": r.Destination, "gateway": gateway, "port": r.Port}
	}
	return out
}

// AdapterStatus is what `get adapter` shows of an adapter.
type AdapterStatus struct {
	Index           int    `json:"index"`
	NetworkInstance string `json:"networkInstance"`
	TargetVersion   uint64 `json:"targetVersion"`
	Activated       bool   `json:"activated"`
	IP              string `json:"ip"`
	Addresses       string `json:"addresses,omitempty"`
	MAC             string `json:"mac"`
	IfName          string `json:"ifName"`
	HostIfName      string `json:"hostIfName"`
	State           string `json:"state"` // as that of its parameter
	Error           string `json:"error"`
	Warning         string `json:"warning,omitempty"`
}

// AppStatus is what `get app` shows of an app.
type AppStatus struct {
	DisplayName   string          `json:"displayName"`
	Pending       bool            `json:"pending"`
	Activated     bool            `json:"activated"`
	TargetVersion uint64          `json:"targetVersion"`
	Error         string          `json:"error"`
	Adapters      []AdapterStatus `json:"adapters"`
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
		st := AppStatus{Pending: true, DisplayName: configs[id].DisplayName, Adapters: []AdapterStatus{}}
		if s, ok := statuses[id]; ok {
			st = AppStatus{s.DisplayName, s.Pending, s.Activated, s.TargetVersion, s.Error, adaptersOf(s)}
		}
		if crash := n.appCrashed(id); crash != "" {
			st.Error = crash
		}
		r.Status = st
		rs = append(rs, r)
	}
	return rs
}

func adaptersOf(s appnet.AppNetworkStatus) []AdapterStatus {
	as := make([]AdapterStatus, 0, len(s.Adapters))
	for _, a := range s.Adapters {
		u := a.UnderlayStatus
		st := AdapterStatus{
			Index: a.Index, NetworkInstance: a.NetworkInstance.String(), TargetVersion: a.TargetVersion, Activated: a.Activated,
			Addresses: u.Addresses, MAC: u.MAC, IfName: string(u.IfName), HostIfName: string(u.HostIfName),
			State: string(a.State(true)), Error: a.Error, Warning: u.DroppedText(),
		}
		if u.IP.IsValid() {
			st.IP = u.IP.String()
		}
		as = append(as, st)
	}
	return as
}

func appSpec(c appnet.AppNetworkConfig) map[string]any {
	adapters := map[string]any{}
	for i, u := range c.Adapters {
		adapters[strconv.Itoa(i)] = adapterSpec(u)
	}
	return map[string]any{"displayName": c.DisplayName, "activate": c.Activate, "adapters": adapters}
}

func adapterSpec(u netinst.UnderlayNetworkConfig) map[string]any {
	ip := ""
	if u.IP.IsValid() {
		ip = u.IP.String()
	}
	return map[string]any{
		"networkInstance": u.NetworkInstance, "mac": u.MAC, "ip": ip, "acl": aclSpecs(u.ACL),
		"attach": attachSpec(u),
	}
}

func attachSpec(u netinst.UnderlayNetworkConfig) map[string]any {
	if u.Kind == netinst.Veth {
		return map[string]any{"kind": u.Kind, "netns": u.Netns, "ifName": u.IfName}
	}
	return map[string]any{"kind": u.Kind, "hostIfName": u.HostIfName}
}

// aclSpecs are the rules in the order in which they are tried.
func aclSpecs(rules []netinst.ACLRule) []map[string]any {
	out := make([]map[string]any, 0, len(rules))
	for _, r := range rules {
		m := map[string]any{"protocol": r.Protocol, "port": Joined(r.Ports), "localPort": Joined(r.LocalPort),
			"portLabel": r.PortLabel, "ip": ""}
		if r.IP.IsValid() {
			m["ip"] = r.IP.String()
		}
		out = append(out, map[string]any{"name": r.Name, "direction": r.Direction, "action": r.Action, "match": m})
	}
	return out
}

// AdapterID is the id of an adapter: its app and its place in it.
func AdapterID(app string, index int) string { return app + "/" + strconv.Itoa(index) }

func (n *Reader) adapters() []nodeapi.Resource {
	configs := n.Topics.AppConfig.List("")
	var rs []nodeapi.Resource
	for id, s := range n.Topics.AppStatus.List("") {
		for _, a := range adaptersOf(s) {
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
	statuses := n.Topics.PortStatus.List("")
	for label, c := range n.Topics.PortConfig.List("") {
		s := statuses[label]
		addrs := make([]string, 0, len(s.Addresses))
		for _, a := range s.Addresses {
			addrs = append(addrs, a.String())
		}
		gateway := ""
		if c.Gateway.IsValid() {
			gateway = c.Gateway.String()
		}
		s.IfName = c.IfName // it may have no status yet
		why, route := s.Trouble(), ""
		servers, source := s.DNS()
		if r, out := s.DefaultRoute(); out {
			route = r.String()
		}
		rs = append(rs, nodeapi.Resource{
			ID: label, Kind: "port",
			Spec: map[string]any{
				"ifName": c.IfName, "uplink": c.Uplink, "cost": c.Cost, "labels": strings.Join(c.Labels, ","),
				"gateway": gateway, "dnsServers": Joined(c.DNSServers), "ntpServers": Joined(c.NTPServers), "mtu": c.MTU,
			},
			Status: map[string]any{
				"exists": s.Exists, "up": s.Up, "mtu": s.LinkMTU, "addresses": addrs, "gateways": Joined(s.Gateways()),
				"defaultRoute": route,
				"dnsServers":   Joined(servers), "dnsSource": source, "dnsSkipped": s.Learnt.Skipped, "error": why,
			},
		})
	}
	return rs
}

// Joined are values with a comma between them.
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
