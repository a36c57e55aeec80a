package peer

import (
	"crypto/md5" //nolint:gosec // a digest for comparison, like that of configs
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/uuid"

	"edgespan/config/stateloop"
)

// Node holds the facts about a node that its descriptor does not have.
type Node struct {
	ID    uuid.UUID       // nil: it has not joined
	Ports map[string]Port // by label
}

// Port holds the facts about a port: from its config, else from the node's report.
type Port struct {
	Addresses []netip.Addr // the first of the needed family counts
	MTU       int          // octets; 0: not known
	PublicKey string       // of WireGuard, in base64; only under KeyLabel and NextKeyLabel
}

// Input holds the sources of one node's parameters.
type Input struct {
	Name     string
	Nodes    map[string]Node // by name: this node, and the members of its clusters
	Fleet    *Inventory
	Declared []stateloop.DesiredParameter // of its effective config (stateloop.DeclaredParameters)
	Gone     []Leftover                   // parameters that it had and may still have
}

// Leftover is a parameter of a node's earlier PeerConfiguration that the node has not reported absent since.
type Leftover struct {
	ID    string   `json:"id"`
	Kind  string   `json:"kind"`
	Needs []string `json:"needs,omitempty"` // the IDs that it depended on
}

// NetworkOf returns the ID of a cluster's network on a node.
func NetworkOf(cluster, node uuid.UUID) uuid.UUID { return uuid.NewSHA1(cluster, node[:]) }

// Derive returns the PeerConfiguration of a node. The same input gives the same result, without cycles and without
// unknown dependencies.
func Derive(in Input) Configuration {
	d := deriver{Input: in, all: map[string]DeclaredParameter{}}
	for _, w := range in.Declared {
		target := stateloop.ToBePresent
		if w.Target == stateloop.ToBeAbsent {
			target = stateloop.ToBeAbsent
		}
		d.all[w.ID] = DeclaredParameter{ID: w.ID, Kind: w.Kind, Target: target,
			Dependencies: slices.Sorted(slices.Values(w.Dependencies))}
	}
	for name, x := range in.Fleet.Peers[in.Name].Executors {
		v := ExecutorValue(x)
		d.add(DeclaredParameter{ID: ExecutorID(name), Kind: KindExecutor, Executor: &v})
	}
	if d.self().ID != uuid.Nil {
		for _, name := range in.Fleet.ClustersOf(in.Name) {
			d.addCluster(in.Fleet.Clusters[name], in.Fleet.Deployments[name])
		}
	}
	return configurationOf(d.all).With(in.Gone)
}

func configurationOf(all map[string]DeclaredParameter) Configuration {
	c := Configuration{Parameters: make([]DeclaredParameter, 0, len(all))}
	for _, id := range slices.Sorted(maps.Keys(all)) {
		c.Parameters = append(c.Parameters, all[id])
	}
	return c
}

// InterfaceID returns the ID of a peer's interface (configuration.go lists all IDs).
func InterfaceID(name string) string { return "interface/" + name }

// BridgeID returns the ID of a cluster's bridge.
func BridgeID(network uuid.UUID) string { return "bridge/" + network.String() }

// TunnelID returns the ID of the tunnel to a node.
func TunnelID(network, other uuid.UUID) string {
	return "tunnel/" + network.String() + "/" + other.String()
}

// JoinedID returns the ID of a link in a bridge, by the ID of that link.
func JoinedID(network uuid.UUID, link string) string {
	return "joined/" + network.String() + "/" + link
}

// ExecutorID returns the ID of an executor.
func ExecutorID(name string) string { return "executor/" + name }

// CheckID returns the ID of a check.
func CheckID(network, other uuid.UUID) string {
	return "check/" + network.String() + "/" + other.String()
}

type deriver struct {
	Input
	all map[string]DeclaredParameter
}

func (d *deriver) self() Node { return d.Nodes[d.Name] }

func (d *deriver) add(p DeclaredParameter) {
	p.Target = stateloop.ToBePresent
	slices.Sort(p.Dependencies)
	d.all[p.ID] = p
}

// addCluster adds the parameters of a cluster on this node. It leaves out members that have not joined yet.
func (d *deriver) addCluster(c Cluster, deployed Deployment) {
	network := NetworkOf(c.ID, d.self().ID)
	mtu := 0
	var joined []string
	join := func(link string) string {
		id := JoinedID(network, link)
		d.add(DeclaredParameter{
			ID: id, Kind: KindJoined, Dependencies: []string{BridgeID(network), link},
			Joined: &JoinedValue{Network: network, Link: link},
		})
		joined = append(joined, id)
		return id
	}
	for _, t := range c.tunnels() {
		if size := d.mtu(c, t); mtu == 0 || size < mtu {
			mtu = size
		}
	}
	for _, t := range c.tunnels() {
		other := t[0]
		if other == d.Name {
			other = t[1]
		} else if t[1] != d.Name {
			continue
		}
		far := d.Nodes[other].ID
		if far == uuid.Nil {
			continue
		}
		local, remote := d.ends(c, d.Name, other)
		var encrypted *EncryptedValue
		port := VXLANPort
		if c.Encryption == EncryptionWireGuard {
			encrypted = d.Nodes[other].encrypted(deployed.WireGuardPort, remote)
			encrypted.Over = d.Fleet.Peers[d.Name].Underlays[c.Members[d.Name].Underlay].Network
			port = deployed.WireGuardPort + vxlanAfter
			local, remote = InnerAddress(c.ID, d.self().ID), InnerAddress(c.ID, far)
		}
		id := TunnelID(network, far)
		d.add(DeclaredParameter{ID: id, Kind: KindTunnel, Tunnel: &TunnelValue{
			Network: network, Peer: other, Type: TunnelVXLAN, VNI: deployed.VNIs[TunnelName(d.Name, other)],
			Local: local, Remote: remote, Port: port, MTU: mtu, Isolated: c.Topology == Mesh, Encrypted: encrypted,
		}})
		d.add(DeclaredParameter{
			ID: CheckID(network, far), Kind: KindCheck, Dependencies: []string{join(id)},
			Check: &CheckValue{Network: network, Peer: other, Local: local, Remote: remote},
		})
	}
	for _, name := range c.Members[d.Name].Interfaces {
		id := InterfaceID(name)
		d.add(DeclaredParameter{ID: id, Kind: KindInterface,
			Interface: &InterfaceValue{IfName: d.Fleet.Peers[d.Name].Interfaces[name].IfName}})
		join(id)
	}
	d.add(DeclaredParameter{ID: BridgeID(network), Kind: KindBridge,
		Bridge: &BridgeValue{Network: network, DisplayName: c.Name, MTU: mtu}})
	d.add(DeclaredParameter{ID: stateloop.NetworkID(network.String()), Kind: KindNetwork,
		Dependencies: []string{BridgeID(network)}})
}

// encrypted returns the WireGuard peer that this node is for others.
func (n Node) encrypted(port int, endpoint netip.Addr) *EncryptedValue {
	e := &EncryptedValue{ListenPort: port, PublicKey: n.Ports[KeyLabel].PublicKey, Endpoint: endpoint}
	if next := n.Ports[NextKeyLabel].PublicKey; next != e.PublicKey {
		e.NextKey = next
	}
	return e
}

// InnerAddress returns the address of a node inside the WireGuard tunnels of a cluster: one of a unique local /64 of
// the cluster (RFC 4193), which both ends compute alike.
func InnerAddress(cluster, node uuid.UUID) netip.Addr {
	net, host := sha256.Sum256(append([]byte("edgespan cluster "), cluster[:]...)),
		sha256.Sum256(append(cluster[:], node[:]...))
	a := [16]byte{0: 0xfd}
	copy(a[1:6], net[:])
	copy(a[8:], host[:])
	return netip.AddrFrom16(a)
}

// Overhead of a tunnel in the MTU of its underlay (RFC 7348 §4.3): outer headers without the outer Ethernet header,
// and the inner Ethernet header.
const (
	overhead4 = 20 + 8 + 8 + 14
	overhead6 = 40 + 8 + 8 + 14
	// WireGuard's: outer headers of IPv4 or IPv6, UDP, its own header and its tag.
	overheadWireGuard4 = 20 + 8 + 16 + 16
	overheadWireGuard6 = 40 + 8 + 16 + 16
	defaultMTU         = 1500
	// Bounds of a port's MTU: one member's value sets the size of all members' tunnels. Every IPv6 link carries 1280
	// (RFC 8200 §5).
	minMTU = 1280
	maxMTU = 65535
)

// mtu returns the MTU inside a tunnel.
func (d *deriver) mtu(c Cluster, t [2]string) int {
	least := 0
	for _, name := range t {
		port := d.Nodes[name].Ports[d.Fleet.Peers[name].Underlays[c.Members[name].Underlay].PortLabel()]
		if size := min(max(port.MTU, minMTU), maxMTU); port.MTU > 0 && (least == 0 || size < least) {
			least = size
		}
	}
	if least == 0 {
		least = defaultMTU
	}
	local, _ := d.ends(c, t[0], t[1])
	switch {
	case c.Encryption == EncryptionWireGuard && local.Is4():
		return least - overheadWireGuard4 - overhead6
	case c.Encryption == EncryptionWireGuard:
		return least - overheadWireGuard6 - overhead6
	case local.Is6():
		return least - overhead6
	}
	return least - overhead4
}

// ends returns the addresses of a tunnel, both of one family: IPv4 if both nodes have it. Neither is valid while one is
// unknown.
func (d *deriver) ends(c Cluster, a, b string) (local, remote netip.Addr) {
	from, to := d.addresses(c, a), d.addresses(c, b)
	for _, match := range []func(netip.Addr) bool{netip.Addr.Is4, netip.Addr.Is6} {
		i, j := slices.IndexFunc(from, match), slices.IndexFunc(to, match)
		if i >= 0 && j >= 0 {
			return from[i], to[j]
		}
	}
	return netip.Addr{}, netip.Addr{}
}

func (d *deriver) addresses(c Cluster, name string) []netip.Addr {
	u := d.Fleet.Peers[name].Underlays[c.Members[name].Underlay]
	if u.Address.IsValid() {
		return []netip.Addr{u.Address}
	}
	return d.Nodes[name].Ports[u.PortLabel()].Addresses
}

// With returns the configuration together with the parameters to remove and the dependencies among these. They are
// removed in reverse (stateloop.Graph), and no parameter to create waits for them.
func (c Configuration) With(gone []Leftover) Configuration {
	if len(gone) == 0 {
		return c
	}
	all := make(map[string]DeclaredParameter, len(c.Parameters)+len(gone))
	for _, p := range c.Parameters {
		all[p.ID] = p
	}
	left := map[string]Leftover{}
	for _, g := range gone {
		if _, ok := all[g.ID]; !ok {
			left[g.ID] = g
		}
	}
	for id, g := range left {
		p := DeclaredParameter{ID: id, Kind: g.Kind, Target: stateloop.ToBeAbsent}
		for _, n := range g.Needs {
			if _, ok := left[n]; ok {
				p.Dependencies = append(p.Dependencies, n)
			}
		}
		all[id] = p
	}
	return configurationOf(all)
}

// Digest is a digest of the parameters to create; "" if they are only those that the effective config declares, which
// has a digest of its own.
func (c Configuration) Digest() string {
	var own []DeclaredParameter
	for _, p := range c.Parameters {
		if p.Target == stateloop.ToBePresent && p.hasValue() {
			own = append(own, p)
		}
	}
	if own == nil {
		return ""
	}
	text, err := json.Marshal(own)
	if err != nil {
		return "" // every value can be encoded
	}
	sum := md5.Sum(text) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

func (p DeclaredParameter) hasValue() bool {
	return p.Interface != nil || p.Bridge != nil || p.Tunnel != nil || p.Joined != nil || p.Executor != nil ||
		p.Check != nil
}
