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
	"edgespan/netinst"
)

// Ports is the value of the key with a node's ports.
type Ports struct {
	Ports []Port `json:"ports"`
}

// Port is one port of a node.
type Port struct {
	Label     string       `json:"label"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	MTU       int          `json:"mtu,omitempty"` // octets
	PublicKey string       `json:"publicKey,omitempty"`
}

// ByLabel returns the ports by label.
func (u Ports) ByLabel() map[string]peer.Port {
	out := make(map[string]peer.Port, len(u.Ports))
	for _, p := range u.Ports {
		out[p.Label] = peer.Port{Addresses: p.Addresses, MTU: p.MTU, PublicKey: p.PublicKey}
	}
	return out
}

// encodeByLabel returns the JSON of each port by label.
func (u Ports) encodeByLabel() map[string]string {
	out := make(map[string]string, len(u.Ports))
	for _, p := range u.Ports {
		out[p.Label] = string(encode(p))
	}
	return out
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain data
	}
	return text
}

// Bounds on the stored ports of one node, because every replica holds the key.
const (
	maxPorts     = 64
	maxAddresses = 8 // of one port
	maxLabel     = 64
)

// Keys returns the keys for encrypted clusters.
func (u Ports) Keys() (out []string) {
	for _, p := range u.Ports {
		if p.PublicKey != "" {
			out = append(out, p.PublicKey)
		}
	}
	return out
}

// FromReport returns the reported ports in the form that is stored. A port without a usable address, MTU or key keeps
// the stored one; a key that is another node's is not usable.
func FromReport(ports []nodeproto.Port, before Ports, ofAnother func(key string) bool) Ports {
	was := before.ByLabel()
	out := Ports{Ports: []Port{}}
	for _, p := range ports {
		if len(p.Label) > maxLabel || len(out.Ports) == maxPorts {
			continue
		}
		port := Port{Label: p.Label, MTU: cmp.Or(p.MTU, was[p.Label].MTU), PublicKey: was[p.Label].PublicKey}
		if port.PublicKey != "" && ofAnother(port.PublicKey) { // stored by a former release
			port.PublicKey = ""
		}
		if (p.Label == peer.KeyLabel || p.Label == peer.NextKeyLabel) && netinst.IsWireGuardKey(p.PublicKey) &&
			!ofAnother(p.PublicKey) {
			port.PublicKey = p.PublicKey
		}
		for _, text := range p.Addresses {
			a, err := netip.ParseAddr(text)
			if err == nil && len(port.Addresses) < maxAddresses && ReachableAddress(text) != "" && !a.IsMulticast() {
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

// rule limits how often the addresses or the MTU of a port may change: each change gives all nodes of its clusters a
// new config.
var rule = pace.DebounceRule{Still: 3 * time.Second, First: 15 * time.Second, Max: 10 * time.Minute, Quiet: time.Hour}

// Debouncers holds the effective value of each port of a node.
type Debouncers map[string]*pace.Debouncer[string]

// Effective returns the effective ports, given the reported and the stored ones, and how long until more of the
// reported values take effect; 0: none are waiting.
func (p *Debouncers) Effective(now time.Time, said, stored Ports) (counts Ports, wait time.Duration) {
	if *p == nil {
		*p = Debouncers{}
	}
	reported, was := said.encodeByLabel(), stored.encodeByLabel()
	replaced := said.hasReplaced(stored)
	maps.DeleteFunc(*p, func(label string, s *pace.Debouncer[string]) bool {
		return reported[label] == "" && was[label] == "" && s.Idle(now, rule)
	})
	counts = Ports{Ports: []Port{}}
	for _, label := range slices.Sorted(maps.Keys(maps.Collect(unionEntries(reported, was)))) {
		s := (*p)[label]
		if s == nil && was[label] == "" && len(*p) >= maxPorts {
			continue // the node keeps reporting new labels
		}
		if s == nil {
			s = &pace.Debouncer[string]{}
			(*p)[label] = s
			if was[label] != "" {
				s.Assume(was[label])
			}
		} else if was[label] != "" { // without a stored value, the effective one is not stored yet
			s.Assume(was[label]) // another replica may have stored it meanwhile
		}
		s.Set(now, reported[label])
		if replaced && (label == peer.KeyLabel || label == peer.NextKeyLabel) {
			s.Assume(reported[label])
		}
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

// hasReplaced reports whether a node uses the key that it has announced. That and the end of the announcement take
// effect at once and together: in between the key would be no node's.
func (u Ports) hasReplaced(stored Ports) bool {
	next := stored.ByLabel()[peer.NextKeyLabel].PublicKey
	return next != "" && u.ByLabel()[peer.KeyLabel].PublicKey == next
}

// unionEntries yields the entries of two maps.
func unionEntries(a, b map[string]string) iter.Seq2[string, string] {
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

// ReachableAddress returns an address if other nodes could reach it, "" for one that is local to a machine or a link.
func ReachableAddress(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() {
		return ""
	}
	return address
}
