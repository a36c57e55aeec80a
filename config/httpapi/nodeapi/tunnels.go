package nodeapi

import (
	"net/netip"
	"time"
)

// VPNSpec is the tunnel of a network, without its secrets.
type VPNSpec struct {
	Method     string         `json:"method"`
	Address    []netip.Prefix `json:"address,omitempty"`
	MTU        int            `json:"mtu,omitempty"`
	NAT        bool           `json:"nat"`
	DNSOutside bool           `json:"dnsOutside"`
	ListenPort int            `json:"listenPort,omitempty"` // of wireguard
	// Peers are those of wireguard, or the other end of ipsec.
	Peers []PeerSpec `json:"peers"`
}

// PeerSpec is one peer of a tunnel.
type PeerSpec struct {
	Name     string         `json:"name,omitempty"`
	Identity string         `json:"identity,omitempty"` // public key, or IKE identity
	Endpoint string         `json:"endpoint,omitempty"`
	Networks []netip.Prefix `json:"networks,omitempty"` // behind it
}

// The states of a tunnel.
const (
	TunnelUp   = "up"   // a peer can be reached
	TunnelDown = "down" // none can
)

// TunnelStatus is the state of a network's tunnel. The id of its Resource is that of the network.
type TunnelStatus struct {
	DisplayName string         `json:"displayName"` // of the network
	Method      string         `json:"method"`      // wireguard or ipsec
	By          string         `json:"by"`          // what carries the packets: kernel or process
	Link        string         `json:"link"`
	Uplink      string         `json:"uplink"` // label of the port by which it leaves
	State       string         `json:"state"`
	PublicKey   string         `json:"publicKey,omitempty"` // this node's, of wireguard
	Addresses   []netip.Prefix `json:"addresses,omitempty"` // assigned by the other end
	DNS         []netip.Addr   `json:"dns,omitempty"`       // assigned by the other end
	Peers       []PeerStatus   `json:"peers"`
	Error       string         `json:"error,omitempty"` // why it is down
}

// PeerStatus is the state of one peer of a tunnel.
type PeerStatus struct {
	Name          string    `json:"name"`
	Identity      string    `json:"identity"`           // public key, or IKE identity
	Endpoint      string    `json:"endpoint,omitempty"` // where it was last heard
	Up            bool      `json:"up"`
	LastHandshake time.Time `json:"lastHandshake,omitzero"`
	SPIs          string    `json:"spis,omitempty"`
	Received      uint64    `json:"received"` // octets
	Sent          uint64    `json:"sent"`
	Rekeys        int       `json:"rekeys"`
	Error         string    `json:"error,omitempty"`
}
