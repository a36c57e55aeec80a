package peer

import (
	"fmt"
	"maps"
	"slices"

	"edgespan/config"
	"edgespan/netinst"
)

// Inventory holds all descriptors and deployments. It is immutable.
type Inventory struct {
	Peers       map[string]Peer
	Clusters    map[string]Cluster
	Deployments map[string]Deployment

	of map[string][]string // names of deployed clusters by member, sorted
}

// NewFleet builds the lookup of clusters by member. It ignores deployments of clusters without a descriptor.
func NewFleet(peers map[string]Peer, clusters map[string]Cluster, deployments map[string]Deployment) *Inventory {
	f := &Inventory{Peers: peers, Clusters: clusters, Deployments: deployments, of: map[string][]string{}}
	for _, name := range slices.Sorted(maps.Keys(deployments)) {
		for member := range clusters[name].Members {
			f.of[member] = append(f.of[member], name)
		}
	}
	return f
}

// ClustersOf returns the names of the deployed clusters that a peer is a member of, sorted.
func (f *Inventory) ClustersOf(name string) []string { return f.of[name] }

// ChangedNodes returns the names of the nodes whose parameters may differ between two fleets, sorted: those whose
// descriptor differs, and all members of a cluster that differs or has such a member.
func ChangedNodes(a, b *Inventory) []string {
	out := map[string]bool{}
	for name := range unionKeys(a.Peers, b.Peers) {
		if peerText(a.Peers, name) != peerText(b.Peers, name) {
			out[name] = true
		}
	}
	changed := maps.Clone(out)
	for name := range unionKeys(a.Deployments, b.Deployments) {
		was, now := a.Clusters[name], b.Clusters[name]
		differs := !sameCluster(was, now) || !maps.Equal(a.Deployments[name].VNIs, b.Deployments[name].VNIs) ||
			a.Deployments[name].WireGuardPort != b.Deployments[name].WireGuardPort ||
			hasKey(a.Deployments, name) != hasKey(b.Deployments, name)
		for member := range unionKeys(was.Members, now.Members) {
			differs = differs || changed[member]
		}
		if differs {
			for member := range unionKeys(was.Members, now.Members) {
				out[member] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(out))
}

func hasKey[T any](m map[string]T, name string) bool { _, ok := m[name]; return ok }

func unionKeys[T any](a, b map[string]T) map[string]bool {
	out := make(map[string]bool, len(a)+len(b))
	for k := range a {
		out[k] = true
	}
	for k := range b {
		out[k] = true
	}
	return out
}

func peerText(peers map[string]Peer, name string) string {
	if p, ok := peers[name]; ok {
		return fmt.Sprintf("%+v", p)
	}
	return ""
}

func sameCluster(a, b Cluster) bool { return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b) }

// Check returns all faults that prevent the deployment of a cluster: a member without a descriptor, an interface or an
// underlay that its peer does not have, a link that another deployed cluster uses. A deployed cluster is checked at
// each write.
func (f *Inventory) Check(name string) config.Faults {
	var faults config.Faults
	c, ok := f.Clusters[name]
	if !ok {
		return config.Faults{{Problem: "unknown cluster " + config.Quote(name),
			Expectation: "must be a described cluster"}}
	}
	for _, member := range slices.Sorted(maps.Keys(c.Members)) {
		at := []string{"spec", "members", member}
		p, ok := f.Peers[member]
		if !ok {
			faults.Add(at, "unknown peer", "must be a described peer")
			continue
		}
		m := c.Members[member]
		if _, ok := p.Underlays[m.Underlay]; !ok {
			faults.Add(config.Below(at, "underlay"), config.Invalid(m.Underlay)+", which peer "+member+" does not have",
				allowed(p.Underlays, "underlay"))
		}
		for _, name := range m.Interfaces {
			i, ok := p.Interfaces[name]
			if !ok {
				faults.Add(config.Below(at, "interfaces"), "has "+config.Quote(name)+", which peer "+member+" does not have",
					allowed(p.Interfaces, "interface"))
				continue
			}
			if other := f.findUser(member, name, c.Name); other != "" {
				faults.Add(config.Below(at, "interfaces"), fmt.Sprintf("has %s (%s), which cluster %s has",
					config.Quote(name), i.IfName, other), "must be an interface that no deployed cluster has")
			}
		}
	}
	return faults
}

// findUser returns the other deployed cluster that uses a peer's interface, "" for none.
func (f *Inventory) findUser(member, iface, but string) string {
	for _, name := range f.of[member] {
		if name != but && slices.Contains(f.Clusters[name].Members[member].Interfaces, iface) {
			return name
		}
	}
	return ""
}

func allowed[T any](of map[string]T, what string) string {
	if len(of) == 0 {
		return "it has no " + what
	}
	return config.OneOf(slices.Sorted(maps.Keys(of)))
}

// tunnels returns the pairs of members that have a tunnel, sorted.
func (c Cluster) tunnels() [][2]string {
	names := slices.Sorted(maps.Keys(c.Members))
	var out [][2]string
	for i, a := range names {
		for _, b := range names[i+1:] {
			if c.Topology == Mesh || a == c.Leader || b == c.Leader {
				out = append(out, [2]string{a, b})
			}
		}
	}
	return out
}

// The range of tunnel numbers: 24 bits (RFC 7348 §5), the first ones reserved for manual use.
const (
	FirstVNI = 256
	LastVNI  = 1<<24 - 1
)

// Deploy returns the deployment of a cluster: a tunnel keeps its number, and a new one gets the lowest number that is
// free in the fleet.
func (f *Inventory) Deploy(name string) (Deployment, config.Faults) {
	if faults := f.Check(name); len(faults) > 0 {
		return Deployment{}, faults
	}
	used := map[uint32]bool{}
	for _, d := range f.Deployments {
		for _, n := range d.VNIs {
			used[n] = true
		}
	}
	was := f.Deployments[name]
	d := Deployment{Cluster: name, VNIs: map[string]uint32{}}
	if f.Clusters[name].Encryption == EncryptionWireGuard {
		if d.WireGuardPort = f.freePort(was.WireGuardPort); d.WireGuardPort == 0 {
			return Deployment{}, config.Faults{{Problem: "no UDP port is left for WireGuard",
				Expectation: fmt.Sprintf("must be at most %d encrypted clusters", LastWireGuardPort-FirstWireGuardPort+1)}}
		}
	}
	next := uint32(FirstVNI)
	for _, t := range f.Clusters[name].tunnels() {
		pair := TunnelName(t[0], t[1])
		if n, ok := was.VNIs[pair]; ok {
			d.VNIs[pair] = n
			continue
		}
		for used[next] {
			next++
		}
		if next > LastVNI {
			return Deployment{},
				config.Faults{{Problem: "no number is left for tunnel " + pair,
					Expectation: fmt.Sprintf("must be at most %d tunnels", LastVNI-FirstVNI+1)}}
		}
		d.VNIs[pair], used[next] = next, true
	}
	return d, nil
}

// The range of UDP ports at which members of encrypted clusters listen. It ends before the ports that kernels choose
// for clients, and so does that of the VXLAN inside: the same number and vxlanAfter. No network of a node may listen at
// one of either range.
const (
	FirstWireGuardPort = netinst.FirstClusterPort
	LastWireGuardPort  = FirstWireGuardPort + vxlanAfter - 1
	vxlanAfter         = (netinst.LastClusterPort - netinst.FirstClusterPort + 1) / 2
)

// freePort returns the port that a cluster had, else the lowest that is free in the fleet, 0 without one.
func (f *Inventory) freePort(was int) int {
	if was != 0 {
		return was
	}
	used := map[int]bool{}
	for _, d := range f.Deployments {
		used[d.WireGuardPort] = true
	}
	for p := FirstWireGuardPort; p <= LastWireGuardPort; p++ {
		if !used[p] {
			return p
		}
	}
	return 0
}

// Document returns the stored form of the deployment.
func (d Deployment) Document() config.Object {
	vnis := config.Object{}
	for pair, n := range d.VNIs {
		vnis[pair] = int64(n)
	}
	doc := config.Object{"cluster": d.Cluster, "vnis": vnis}
	if d.WireGuardPort != 0 {
		doc["wireGuardPort"] = int64(d.WireGuardPort)
	}
	return doc
}

// ParseDeployment parses the output of Document.
func ParseDeployment(doc config.Object) (Deployment, config.Faults) {
	var r reader
	r.checkKeys(nil, doc, "cluster", "vnis", "wireGuardPort")
	d := Deployment{Cluster: r.readText(nil, doc, "cluster", true), VNIs: map[string]uint32{}}
	vnis := r.readObject(nil, doc, "vnis", true)
	for _, pair := range config.Keys(vnis) {
		n, ok := vnis[pair].(int64)
		if !ok || n < FirstVNI || n > LastVNI {
			r.faults.Add([]string{"vnis", pair}, config.InvalidValue(config.OneLine(vnis[pair])),
				fmt.Sprintf("must be %d to %d", FirstVNI, LastVNI))
		}
		d.VNIs[pair] = uint32(n)
	}
	if v, has := doc["wireGuardPort"]; has {
		n, ok := v.(int64)
		if !ok || n < FirstWireGuardPort || n > LastWireGuardPort {
			r.faults.Add([]string{"wireGuardPort"}, config.InvalidValue(config.OneLine(v)),
				fmt.Sprintf("must be %d to %d", FirstWireGuardPort, LastWireGuardPort))
		}
		d.WireGuardPort = int(n)
	}
	return d, r.faults
}
