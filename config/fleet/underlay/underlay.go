package underlay

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/pace"
	"edgespan/config/stateloop/peer"
)

// Ports is what the key of a node's ports holds.
type Ports struct {
	Ports []Port `json:"ports"`
}

// Port is one of them.
type Port struct {
	Label     string       `json:"label"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	MTU       int          `json:"mtu,omitempty"` // octets
}

// ByLabel are the ports by their labels.
func (u Ports) ByLabel() map[string]peer.Port {
	out := make(map[string]peer.Port, len(u.Ports))
	for _, p := range u.Ports {
		out[p.Label] = peer.Port{Addresses: p.Addresses, MTU: p.MTU}
	}
	return out
}

// texts are the ports by their labels, each as its JSON.
func (u Ports) texts() map[string]string {
	out := make(map[string]string, len(u.Ports))
	for _, p := range u.Ports {
		out[p.Label] = string(encoded(p))
	}
	return out
}

func encoded(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data
	}
	return text
}

// What is kept of one node's ports at most: it is a key that all replicas hold.
const (
	maxPorts     = 64
	maxAddresses = 8 // of one port
	maxLabel     = 64
)

// Of are ports as they are kept, by those that were.
func Of(ports []nodeproto.Port, before Ports) Ports {
	was := before.ByLabel()
	out := Ports{Ports: []Port{}}
	for _, p := range ports {
		if len(p.Label) > maxLabel || len(out.Ports) == maxPorts {
			continue
		}
		port := Port{Label: p.Label, MTU: cmp.Or(p.MTU, was[p.Label].MTU)}
		for _, text := range p.Addresses {
			a, err := netip.ParseAddr(text)
			if err == nil && len(port.Addresses) < maxAddresses && Reachable(text) != "" && !a.IsMulticast() {
				port.Addresses = append(port.Addresses, a.Unmap())
			}
		}
		if port.Addresses == nil {
			port.Addresses = was[p.Label].Addresses
		}
		out.Ports = append(out.Ports, port)
	}
	slices.SortStableFunc(out.Ports, func(a, b Port) int { return cmp.Compare(a.Label, b.Label) })
	out.Ports = slices.CompactFunc(out.Ports, func(a, b Port) bool { return a.Label == b.Label })
	return out
}

// rule is how often a port may have other addresses, or another MTU: each time all nodes of its
// clusters get another config.
var rule = pace.Rule{Still: 3 * time.Second, First: 15 * time.Second, Max: 10 * time.Minute, Quiet: time.Hour}

// Paces are the ports of a node: what counts of each.
type Paces map[string]*pace.Steady[string]

// Of is what counts of the ports as they are said to be, by what is stored of them, and how long it
// takes until more of it does; 0: all of it does.
func (p *Paces) Of(now time.Time, said, stored Ports) (counts Ports, wait time.Duration) {
	if *p == nil {
		*p = Paces{}
	}
	is, was := said.texts(), stored.texts()
	maps.DeleteFunc(*p, func(label string, s *pace.Steady[string]) bool {
		return is[label] == "" && was[label] == "" && s.Idle(now, rule)
	})
	counts = Ports{Ports: []Port{}}
	for _, label := range slices.Sorted(maps.Keys(maps.Collect(both(is, was)))) {
		s := (*p)[label]
		if s == nil && was[label] == "" && len(*p) >= maxPorts {
			continue // it goes on bringing new ones
		}
		if s == nil {
			s = &pace.Steady[string]{}
			(*p)[label] = s
			if was[label] != "" {
				s.Assume(was[label])
			}
		} else if was[label] != "" { // none is that what counts here is not stored yet
			s.Assume(was[label]) // another replica may have stored it meanwhile
		}
		s.Say(now, is[label])
		text, late := s.Value(now, rule)
		if late > 0 && (wait == 0 || late < wait) {
			wait = late
		}
		var port Port
		if text != "" && len(counts.Ports) < maxPorts && json.Unmarshal([]byte(text), &port) == nil {
			counts.Ports = append(counts.Ports, port)
		}
	}
	return counts, wait
}

// both are the entries of two maps.
func both(a, b map[string]string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, m := range []map[string]string{a, b} {
			for k, v := range m {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// Reachable is an address if others could reach a node there: not one that means this machine
// to whoever has it.
func Reachable(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() {
		return ""
	}
	return address
}
