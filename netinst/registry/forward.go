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
	known   bool
	restTok uint64 // of the current rest; 0 for none
	again   bool   // a change arrived during the rest
}

// forwardingChanged applies the host state again if a port must be opened or closed.
func (r *Registry) forwardingChanged(e ForwardingChanged) []Effect {
	was := r.ports()
	r.forward.ForwardingChanged, r.forward.known = e, true
	if reflect.DeepEqual(was, r.ports()) && !r.shut() {
		return nil
	}
	if r.forward.restTok != 0 {
		r.forward.again = true
		return nil
	}
	r.dirty = true
	r.token++
	r.forward.restTok = r.token
	return append([]Effect{HostRetry{r.token, forwardRest, false}}, r.next()...)
}

// rested ends the rest after a change of forwarding.
func (r *Registry) rested() []Effect {
	r.forward.restTok = 0
	if !r.forward.again {
		return nil
	}
	r.forward.again, r.dirty = false, true
	return r.next()
}

// shut reports whether a port that networks need is off now.
func (r *Registry) shut() bool {
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

// ports returns the ports of every member, by its number.
func (r *Registry) ports() map[int][]netinst.HostPort {
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
			Ports: netinst.HostPorts(m.config, r.forward.Ports, r.forward.Forwarding), Gateway: m.config.IPv4.Gateway}
		if m.clash { // packets to it are for neighbours of the host, which may have the gateway's address
			n.Subnet, n.Gateway = netip.Prefix{}, netip.Addr{}
		}
		ns = append(ns, n)
	}
	slices.SortFunc(ns, func(a, b netinst.HostNetwork) int { return cmp.Compare(a.Number, b.Number) })
	return ns
}

// IsSettled reports whether the host state is as desired and nothing is under way.
func (r *Registry) IsSettled() bool {
	return r.found && !r.flying && !r.dirty && !r.forward.again && r.backoff == 0
}
