package nodes

import (
	"net/netip"

	"edgespan/actors/controller/storage"
	"edgespan/config/stateloop/peer"
)

// Underlay is what the key of a node's ports holds.
type Underlay struct {
	Ports []underlayPort `json:"ports"`
}

type underlayPort struct {
	Label     string       `json:"label"`
	Addresses []netip.Addr `json:"addresses,omitempty"`
	MTU       int          `json:"mtu,omitempty"` // octets
}

// ByLabel are the ports by their labels.
func (u Underlay) ByLabel() map[string]peer.Port {
	out := make(map[string]peer.Port, len(u.Ports))
	for _, p := range u.Ports {
		out[p.Label] = peer.Port{Addresses: p.Addresses, MTU: p.MTU}
	}
	return out
}

// texts are the ports by their labels, each as its JSON.
func (u Underlay) texts() map[string]string {
	out := make(map[string]string, len(u.Ports))
	for _, p := range u.Ports {
		out[p.Label] = string(storage.Encode(p))
	}
	return out
}
