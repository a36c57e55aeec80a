package registry

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst"
	"edgespan/netinst/netstate"
)

// forwardRest is the delay after a check of the ports' forwarding before the next one: a program that keeps rewriting
// it gets one answer a second.
const forwardRest = time.Second

// ForwardingChanged carries the links by which the host forwards, and all ports of the config.
type ForwardingChanged struct {
	Forwarding netstate.Forwarding
	Ports      []netinst.PortConfig
}

func (ForwardingChanged) registryEvent() {}

// forward is what a Registry knows of forwarding.
type forward struct {
	ForwardingChanged
	known         bool
	restTok       uint64 // of the current rest; 0 for none
	changedInRest bool   // a change arrived during the rest
}

// forwardingChanged applies the host state again if a port must be opened or closed.
func (r *Registry) forwardingChanged(e ForwardingChanged) []Effect {
	was, closed := r.memberPorts(), r.closes6()
	r.forward.ForwardingChanged, r.forward.known = e, true
	off := !e.Forwarding.All6 && r.hasIPv6()
	if reflect.DeepEqual(was, r.memberPorts()) && !r.hasClosedPorts() && !off && closed == r.closes6() {
		return nil
	}
	if r.forward.restTok != 0 {
		r.forward.changedInRest = true
		return nil
	}
	r.dirty = true
	r.token++
	r.forward.restTok = r.token
	return append([]Effect{HostRetry{r.token, forwardRest, false}}, r.next()...)
}

// endRest ends the rest after a change of forwarding.
func (r *Registry) endRest() []Effect {
	r.forward.restTok = 0
	if !r.forward.changedInRest {
		return nil
	}
	r.forward.changedInRest, r.dirty = false, true
	return r.next()
}

// closes6 reports whether the host forwards no IPv6 by itself, so that what is for no network is dropped.
func (r *Registry) closes6() bool { return !r.forward.Forwarding.All6 || r.forward.Forwarding.Opened6 }

func (r *Registry) hasIPv6() bool {
	for _, m := range r.members {
		if m.config.HasIPv6() {
			return true
		}
	}
	return false
}

// hasClosedPorts reports whether a port that networks need is off now.
func (r *Registry) hasClosedPorts() bool {
	var networks []netinst.NetworkInstanceConfig
	for _, m := range r.members {
		networks = append(networks, m.config)
	}
	return len(ClosedPorts(networks, r.forward.Ports, r.forward.Forwarding)) > 0
}

// ClosedPorts returns the interfaces that networks need and by which the host does not forward.
func ClosedPorts(networks []netinst.NetworkInstanceConfig, ports []netinst.PortConfig, f netstate.Forwarding) []string {
	var out []string
	for _, n := range networks {
		for _, p := range netinst.HostPorts(n, ports, f) {
			if slices.Contains(f.Off, p.IfName) && !slices.Contains(out, p.IfName) {
				out = append(out, p.IfName)
			}
		}
	}
	slices.Sort(out)
	return out
}

// memberPorts returns the ports of every member, by its number.
func (r *Registry) memberPorts() map[int][]netinst.HostPort {
	out := map[int][]netinst.HostPort{}
	for _, m := range r.members {
		if ps := netinst.HostPorts(m.config, r.forward.Ports, r.forward.Forwarding); len(ps) != 0 {
			out[m.number] = ps
		}
	}
	return out
}

// Networks returns what HostState needs to know of networks, by number.
func (r *Registry) Networks(ids []uuid.UUID) []netinst.HostNetwork {
	var ns []netinst.HostNetwork
	for _, id := range ids {
		m := r.members[id]
		if m == nil || m.number == 0 {
			continue
		}
		n := netinst.HostNetwork{Number: m.number, Subnet: m.subnet,
			Ports: netinst.HostPorts(m.config, r.forward.Ports, r.forward.Forwarding), Gateway: m.config.IPv4.Gateway,
			OldFrames: m.oldFrames, Flows: netinst.MarksFlows(m.config), Mapped: m.config.Mapped,
			MayOverlap: m.config.IPv4.MayOverlap, FlowLog: m.config.FlowLog,
			Returns: netinst.NeedsReturns(m.config)}
		if m.config.HasIPv6() && !r.forward.Forwarding.No6 { // without IPv6 only that network fails
			n.Subnet6, n.Gateway6, n.Closed6 = m.config.IPv6.Subnet, m.config.IPv6.Gateway, r.closes6()
			n.Flows6 = netinst.MarksFlows6(m.config)
		}
		n.VPN = m.config.HasVPN() && m.config.HasTunnel()
		n.Sealed = m.config.SealedPort()
		n.VPN6 = n.VPN && !r.forward.Forwarding.No6
		n.Switch = m.config.Type == netinst.Switch
		n.VLANs = n.Switch && len(m.config.VLANs) > 0
		n.Bridged6 = m.config.BridgesIPv6() && !r.forward.Forwarding.No6
		if m.clash { // packets to it are for neighbours of the host, which may have the gateway's address
			n.Subnet, n.Gateway, n.Subnet6 = netip.Prefix{}, netip.Addr{}, netip.Prefix{}
		}
		ns = append(ns, n)
	}
	slices.SortFunc(ns, func(a, b netinst.HostNetwork) int { return cmp.Compare(a.Number, b.Number) })
	return ns
}

// IsSettled reports whether the host state is as desired and nothing is under way.
func (r *Registry) IsSettled() bool {
	return r.found && !r.inFlight && !r.dirty && !r.forward.changedInRest && r.backoff == 0
}
