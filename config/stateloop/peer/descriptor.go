package peer

import (
	"net/netip"

	"github.com/google/uuid"
)

// The kinds of documents.
const (
	KindPeer    = "PeerDescriptor"
	KindCluster = "ClusterDescriptor"
)

// Peer describes one node, under the node's name. The node need not have joined yet.
type Peer struct {
	Name       string    // of the node
	ID         uuid.UUID // of the node; nil if the document has none
	Interfaces map[string]Interface
	Executors  map[string]Executor
	Underlays  map[string]Underlay
}

// Interface is a link of the host that clusters may use.
type Interface struct {
	IfName string // of the kernel
	Kind   string // InterfaceEthernet
}

// InterfaceEthernet is the only supported kind of interface.
const InterfaceEthernet = "ethernet"

// Executor is a process or a systemd unit that runs while it is desired. Either Unit or Command is set.
type Executor struct {
	Unit    string            // a systemd unit to start and stop
	Command []string          // a program by its absolute path, and its arguments
	Env     map[string]string // of the command, in addition to PATH
	Dir     string            // of the command; "" for /
	Restart string            // of the command: RestartAlways ("" too) or RestartNever
}

// Restart policies of a command that has ended.
const (
	RestartAlways = "always" // with the back-off of a failed parameter
	RestartNever  = "never"  // Present once it has ended with status 0
)

// Underlay is the local end of a peer's tunnels. Exactly one of Port, Address and Network is set.
type Underlay struct {
	Port    string     // label of a port of the node: its first address, by config or report
	Address netip.Addr // a fixed address
	Network uuid.UUID  // a network of type vpn of the node: the first address of its tunnel, as reported
}

// PortLabel is the label under which the node reports the underlay's addresses, "" for a fixed address.
func (u Underlay) PortLabel() string {
	if u.Network != uuid.Nil {
		return TunnelLabel(u.Network)
	}
	return u.Port
}

// TunnelLabel is the label under which a node reports the address and the MTU of the tunnel of a network of type vpn.
// No port of a config has a label with '/'.
func TunnelLabel(network uuid.UUID) string { return "vpn/" + network.String() }

// KeyLabel is the label under which a node reports its public key for encrypted clusters.
const KeyLabel = "key/clusters"

// NextKeyLabel is the label under which a node reports the key that will replace that one.
const NextKeyLabel = KeyLabel + "/next"

// Topology selects the pairs of members that have a tunnel.
type Topology string

// The topologies. In a mesh no frame passes from tunnel to tunnel, so that there is no loop.
const (
	Star Topology = "star" // between each member and the leader
	Mesh Topology = "mesh" // between each two members
)

// The kinds of encryption of a cluster.
const (
	EncryptionNone      = ""
	EncryptionWireGuard = "wireguard"
)

// Cluster describes a layer-2 network of peers.
type Cluster struct {
	Name     string
	ID       uuid.UUID // v5 of the name if the document has none
	Leader   string    // name of a member; in a mesh it only appears in the status
	Topology Topology  // Star if the document has none
	// Encryption protects the tunnels: EncryptionNone ("") or EncryptionWireGuard.
	Encryption string
	Members    map[string]MemberDescriptor
}

// MemberDescriptor is one peer of a cluster.
type MemberDescriptor struct {
	Interfaces []string // names of the peer's interfaces, sorted; may be empty
	Underlay   string   // name of one of the peer's underlays
}

// Deployment records that a cluster is deployed, and the numbers allocated for it. It is a document of its own, so that
// an edit of the cluster changes neither the allocated numbers nor the deployment.
type Deployment struct {
	Cluster string            // name
	VNIs    map[string]uint32 // of each tunnel, by Pair: 24 bits, used by no other tunnel of the fleet
	// WireGuardPort is the UDP port at which members of an encrypted cluster listen, used by no other cluster of the
	// fleet; 0 for a cluster without encryption.
	WireGuardPort int
}

// TunnelName returns the name of the tunnel between two peers, the same from either side.
func TunnelName(a, b string) string {
	if b < a {
		a, b = b, a
	}
	return a + " " + b
}
