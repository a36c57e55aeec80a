package peer

import (
	"net/netip"

	"github.com/google/uuid"
)

// The words of a document's kind.
const (
	KindPeer    = "PeerDescriptor"
	KindCluster = "ClusterDescriptor"
)

// Peer describes one node. It is there under the node's name, which need not have joined yet.
type Peer struct {
	Name       string    // of the node
	ID         uuid.UUID // of the node; nil where the document does not say
	Interfaces map[string]Interface
	Executors  map[string]Executor
	Underlays  map[string]Underlay
}

// Interface is a link of the host that clusters may use.
type Interface struct {
	IfName string // of the kernel
	Kind   string // InterfaceEthernet
}

// InterfaceEthernet is the only kind of interface that is built.
const InterfaceEthernet = "ethernet"

// Executor is a process or a systemd unit that runs as long as it is wanted. Either Unit or
// Command is set.
type Executor struct {
	Unit    string            // a unit of systemd, which is started and stopped
	Command []string          // a program by its absolute path, and its arguments
	Env     map[string]string // of the command, beside PATH
	Dir     string            // of the command; "" for /
	Restart string            // of the command: RestartAlways ("" too) or RestartNever
}

// When a command that has ended is started again.
const (
	RestartAlways = "always" // with the back-off of a failed parameter
	RestartNever  = "never"  // it is Present once it has ended with 0
)

// Underlay is where the tunnels of a peer begin. Either Port or Address is set.
type Underlay struct {
	Port    string     // a label of the node's ports: its first address, as config or node say
	Address netip.Addr // as it is
}

// Topology says which members have a tunnel between them.
type Topology string

// The topologies. In a mesh no frame goes from tunnel to tunnel, so that none circles.
const (
	Star Topology = "star" // each member and the leader
	Mesh Topology = "mesh" // each two
)

// Cluster describes a layer-2 network of peers.
type Cluster struct {
	Name     string
	ID       uuid.UUID // v5 of the name where the document does not say
	Leader   string    // a member's name; of a mesh too, where it has no role but in the status
	Topology Topology  // Star where the document does not say
	Members  map[string]Member
}

// Member is one peer of a cluster.
type Member struct {
	Interfaces []string // names of the peer's interfaces, sorted; none is allowed
	Underlay   string   // the name of one of the peer's underlays
}

// Deployment says that a cluster is wanted, and holds what was allocated for it. It is a
// document of its own: an edit of the cluster changes neither the numbers that stay in use
// nor whether it is deployed.
type Deployment struct {
	Cluster string            // name
	VNIs    map[string]uint32 // of each tunnel, by Pair: 24 bits, used by no other tunnel of the fleet
}

// Pair is the name of the tunnel between two peers, the same from either side.
func Pair(a, b string) string {
	if b < a {
		a, b = b, a
	}
	return a + " " + b
}
