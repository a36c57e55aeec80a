package peer

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/uuid"

	"edgespan/config/stateloop"
)

// The kinds of parameters.
const (
	KindInterface = "device-interface"
	KindBridge    = "ethernet-bridge"
	KindTunnel    = "tunnel"
	KindJoined    = "joined-interface"
	KindNetwork   = stateloop.KindNetwork
	KindAdapter   = stateloop.KindAdapter
	KindExecutor  = "executor"
	KindCheck     = "peer-connection-check"
)

// DeclaredParameter is one object that a node should have, or should not have. Its ID names its kind and role, never
// its value: a parameter with another value is the same parameter. One value is set, by kind; networks of layers and
// adapters have none, as the effective config that travels with them describes them.
type DeclaredParameter struct {
	ID           string           `json:"id"`
	Kind         string           `json:"kind"`
	Target       stateloop.Target `json:"target"`
	Dependencies []string         `json:"dependencies,omitempty"` // ids, sorted

	Interface *InterfaceValue `json:"interface,omitempty"`
	Bridge    *BridgeValue    `json:"bridge,omitempty"`
	Tunnel    *TunnelValue    `json:"tunnel,omitempty"`
	Joined    *JoinedValue    `json:"joined,omitempty"`
	Executor  *ExecutorValue  `json:"executor,omitempty"`
	Check     *CheckValue     `json:"check,omitempty"`
}

// The IDs. A network is that of a cluster on one node, NetworkOf.
//
//	interface/<name>                device-interface
//	bridge/<network>                ethernet-bridge
//	tunnel/<network>/<peer's node>  tunnel
//	joined/<network>/<its id>       joined-interface: an interface or a tunnel in a bridge
//	ni/<network>                    network-instance
//	adapter/<app>/<index>           app-adapter
//	executor/<name>                 executor
//	check/<network>/<peer's node>   peer-connection-check

// InterfaceValue is a link of the host that must exist and be up.
type InterfaceValue struct {
	IfName string `json:"ifName"`
}

// BridgeValue is the bridge of a cluster: a switch network on the node.
type BridgeValue struct {
	Network     uuid.UUID `json:"network"`
	DisplayName string    `json:"displayName"` // of the cluster
	MTU         int       `json:"mtu"`         // octets, of the smallest tunnel of the cluster; 0: the port's
}

// TunnelValue is this node's end of a tunnel.
type TunnelValue struct {
	Network  uuid.UUID  `json:"network"`
	Peer     string     `json:"peer"` // name of the node at the other end
	Type     string     `json:"type"` // TunnelVXLAN
	VNI      uint32     `json:"vni"`
	Local    netip.Addr `json:"local"`
	Remote   netip.Addr `json:"remote"`
	Port     int        `json:"port"`     // UDP
	MTU      int        `json:"mtu"`      // octets of the inner packets
	Isolated bool       `json:"isolated"` // forwards no frame from another isolated port
	// Encrypted leads the tunnel's packets through WireGuard: Local and Remote are then addresses inside it.
	Encrypted *EncryptedValue `json:"encrypted,omitempty"`
}

// EncryptedValue is the WireGuard peer at the other end of a tunnel (https://www.wireguard.com/protocol). The node has
// one interface for each encrypted cluster. A node of a version without it builds a tunnel between addresses that lead
// nowhere: nothing leaves in the clear.
type EncryptedValue struct {
	ListenPort int    `json:"listenPort"` // UDP, of both ends
	PublicKey  string `json:"publicKey"`  // of the other node; "": not known yet
	// NextKey is the key that will replace it, known before so that the replacement interrupts nothing; "" for none.
	NextKey string `json:"nextKey,omitempty"`
	// Endpoint is the other node's address in the underlay; invalid: it is not known, so that node must begin.
	Endpoint netip.Addr `json:"endpoint"`
	// Over is the network of type vpn of this node through whose tunnel WireGuard's packets go; nil for none: they are
	// routed as others of the host.
	Over uuid.UUID `json:"over,omitzero"`
}

// TunnelVXLAN is VXLAN (RFC 7348), one VNI for each tunnel.
const (
	TunnelVXLAN = "vxlan"
	VXLANPort   = 4789
)

// JoinedValue puts an interface or a tunnel into a bridge.
type JoinedValue struct {
	Network uuid.UUID `json:"network"`
	Link    string    `json:"link"` // id of the interface or tunnel
}

// ExecutorValue is an Executor in the form sent to a node.
type ExecutorValue struct {
	Unit    string            `json:"unit,omitempty"`
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Dir     string            `json:"dir,omitempty"`
	Restart string            `json:"restart,omitempty"`
}

// CheckValue checks by ICMP echo whether the other end of a tunnel answers over the underlay.
type CheckValue struct {
	Network uuid.UUID  `json:"network"`
	Peer    string     `json:"peer"`
	Local   netip.Addr `json:"local"`
	Remote  netip.Addr `json:"remote"`
}

// Configuration is the PeerConfiguration of one node: the complete set of its parameters by ID, including those with
// the target absent.
type Configuration struct {
	// Sum is the Digest that the encoder computed. The node echoes it, even if it drops parameters of a later version.
	Sum        string              `json:"digest,omitempty"`
	Parameters []DeclaredParameter `json:"parameters"`
}

func (e *EncryptedValue) describe() string {
	switch {
	case e == nil:
		return ""
	case e.PublicKey == "":
		return ", by WireGuard, whose key at the other end is not known yet"
	case !e.Endpoint.IsValid():
		return ", by WireGuard, which the other end begins"
	}
	return ", by WireGuard to " + netip.AddrPortFrom(e.Endpoint, uint16(e.ListenPort)).String()
}

// Describe returns the value of the parameter for people.
func (p DeclaredParameter) Describe() string {
	switch {
	case p.Interface != nil:
		return p.Interface.IfName
	case p.Bridge != nil:
		return fmt.Sprintf("%s, MTU %d", p.Bridge.DisplayName, p.Bridge.MTU)
	case p.Tunnel != nil:
		t := p.Tunnel
		ends := "addresses are not known yet"
		if t.Local.IsValid() && t.Remote.IsValid() {
			ends = t.Local.String() + " > " + t.Remote.String()
		}
		return fmt.Sprintf("to %s: %s %d %s, MTU %d%s", t.Peer, t.Type, t.VNI, ends, t.MTU, t.Encrypted.describe())
	case p.Joined != nil:
		return p.Joined.Link + " in " + BridgeID(p.Joined.Network)
	case p.Executor != nil && p.Executor.Unit != "":
		return "unit " + p.Executor.Unit
	case p.Executor != nil:
		return strings.Join(p.Executor.Command, " ")
	case p.Check != nil:
		if !p.Check.Remote.IsValid() {
			return "to " + p.Check.Peer
		}
		return "to " + p.Check.Peer + " at " + p.Check.Remote.String()
	}
	return ""
}
