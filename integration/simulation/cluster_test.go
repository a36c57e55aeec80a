package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/nodeproto"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/stateloop/peer"
	"edgespan/netinst/netstate"
)

const (
	clusterNodes = 3
	// clusterPatience is long: an address that changed often counts ten minutes after its last change.
	clusterPatience = 40 * time.Minute
	clusterID       = "3d000000-0000-4000-8000-000000000001"
	clusterLink     = "dut" // a link of each host for the cluster
)

// clusters is what people want of the one cluster of a fleet, and of the process that each peer is to run.
type clusters struct {
	deployed bool
	mesh     bool
	members  []string // the first one leads
	process  bool
	known    bool // the controllers have it
	joined   map[string]bool
}

func newClustered() (*crowd, error) {
	f, err := newCrowd(clusterNodes, func(f *crowd) {
		f.verbs, f.patience = clusterVerbs, clusterPatience
		f.clusters = &clusters{joined: map[string]bool{}}
	})
	if err != nil {
		return nil, err
	}
	for _, m := range f.members {
		f.clusters.joined[m.name] = true
		f.give(m, scene{}, false) // its ports
	}
	return f, f.cluster()
}

// clusterVerbs are what can happen to a fleet with a cluster.
var clusterVerbs = func() map[string]func(*crowd, *rand.Rand) {
	all := maps.Clone(fleetVerbs)
	delete(all, "revert")
	all["cluster"] = (*crowd).changeCluster
	all["forget"] = (*crowd).forget
	all["join"] = func(f *crowd, _ *rand.Rand) { _ = f.rejoin() }
	all["process"] = (*crowd).disturbProcess
	all["move"] = func(f *crowd, rng *rand.Rand) { f.one(rng).setUplink(rng) }
	return all
}()

// changeCluster draws another cluster, or none. Nodes leave it, and come back.
func (f *crowd) changeCluster(rng *rand.Rand) {
	x := f.clusters
	x.members = nil
	for _, i := range rng.Perm(len(f.members))[:2+rng.IntN(clusterNodes-1)] {
		x.members = append(x.members, f.members[i].name)
	}
	x.deployed, x.mesh, x.process = rng.IntN(4) > 0, rng.IntN(2) == 0, rng.IntN(2) == 0
	_ = f.cluster() // the store may be away
}

// cluster writes what people want. It may be repeated.
func (f *crowd) cluster() error {
	x := f.clusters
	x.known = false
	var docs []config.Object
	for _, text := range x.documents(f.members) {
		doc, faults := config.ReadObject([]byte(text))
		if faults != nil {
			return fmt.Errorf("%v", faults)
		}
		docs = append(docs, doc)
	}
	writes := []ops.Write{ops.Describe{Documents: docs}}
	if len(x.members) > 0 {
		if x.deployed {
			writes = append(writes, ops.Deploy{Clusters: []string{"lab"}})
		} else {
			writes = append(writes, ops.Undeploy{Clusters: []string{"lab"}})
		}
	}
	for _, w := range writes {
		if err := f.write(w); err != nil {
			return err
		}
	}
	x.known = true
	return nil
}

// documents are the descriptors.
func (x *clusters) documents(nodes []*member) (list []string) {
	for _, m := range nodes {
		process := ""
		if x.process {
			process = ", executors: {collector: {command: /usr/bin/collector}}"
		}
		list = append(list, fmt.Sprintf("{kind: PeerDescriptor, metadata: {name: %s}, spec: {interfaces: {dut: {ifName: %s}}, "+
			"underlays: {wan: {port: wan}}%s}}", m.name, clusterLink, process))
	}
	if len(x.members) == 0 {
		return list
	}
	topology := "star"
	if x.mesh {
		topology = "mesh"
	}
	var members []string
	for _, name := range x.members {
		members = append(members, name+": {interfaces: dut, underlay: wan}")
	}
	return append(list, fmt.Sprintf("{kind: ClusterDescriptor, metadata: {name: lab, id: %s}, spec: {leader: %s, topology: %s, "+
		"members: {%s}}}", clusterID, x.members[0], topology, strings.Join(members, ", ")))
}

// forget forgets a node, as a person does with one that was stolen; it goes on with what it has.
func (f *crowd) forget(rng *rand.Rand) {
	m, r := f.one(rng), f.replica(0)
	if r == nil {
		return
	}
	f.clusters.joined[m.name] = false
	_ = r.c.Command(f.ctx, person, m.name, fleetapi.Forget) // the store may be away: it is joined again all the same
	m.link.set(func(l *link) {
		if l.stream != nil {
			l.stream.end() // its certificate is revoked
		}
	})
}

// rejoin joins the nodes that were forgotten anew.
func (f *crowd) rejoin() error {
	r := f.replica(0)
	if r == nil {
		return errors.New("no replica runs")
	}
	for _, m := range f.members {
		if f.clusters.joined[m.name] {
			continue
		}
		_ = r.c.Command(f.ctx, person, m.name, fleetapi.Forget) // if the first one failed
		invited, err := r.c.Invite(f.ctx, person, m.name, time.Hour, false)
		if err != nil {
			return err
		}
		if _, err := r.c.Join(f.ctx, nodeproto.Join{Token: invited.Token, Name: m.name, Node: m.id, Key: "key of " + m.name}); err != nil {
			return err
		}
		f.clusters.joined[m.name] = true
	}
	return nil
}

// disturbProcess ends the process of a peer, as the OOM killer does, or lets its start fail or hang.
func (f *crowd) disturbProcess(rng *rand.Rand) {
	m := f.one(rng)
	ids, _ := m.execs.List(f.ctx)
	if len(ids) == 0 {
		return
	}
	switch id := ids[0]; rng.IntN(4) {
	case 0:
		m.execs.Break(id, errFull)
	case 1:
		m.execs.Hang(id, true)
	}
	m.execs.Kill(ids[0])
}

// mendClusters ends all that is wrong with peers, and lets people do again what may not have happened.
func (f *crowd) mendClusters() error {
	if f.clusters == nil {
		return nil
	}
	for _, m := range f.members {
		m.execs.Mend()
	}
	if err := f.rejoin(); err != nil || f.clusters.known {
		return err
	}
	return f.cluster()
}

// wrongInClusters compares each host with the cluster that people want: a member has a bridge with its link, and a
// tunnel to the address of each other member that it is to reach, whose number both ends have; others have nothing of
// it.
func (f *crowd) wrongInClusters() (list []string) {
	x := f.clusters
	if x == nil {
		return nil
	}
	numbers := map[string]uint32{} // of the tunnel, by its ends
	for _, m := range f.members {
		got, fault := m.clusterOnHost()
		if fault != "" {
			list = append(list, fmt.Sprintf("%s: %s", m.name, fault))
		}
		want := map[netip.Addr]bool{}
		for _, other := range f.members {
			if x.reaches(m.name, other.name) {
				want[other.address()] = true
				n, known := numbers[other.name+" "+m.name]
				if numbers[m.name+" "+other.name] = got.tunnels[other.address()]; known && n != got.tunnels[other.address()] {
					list = append(list, fmt.Sprintf("the tunnel of %s and %s has two numbers", m.name, other.name))
				}
			}
		}
		if have := slices.Collect(maps.Keys(got.tunnels)); len(have) != len(want) ||
			slices.ContainsFunc(have, func(a netip.Addr) bool { return !want[a] }) {
			list = append(list, fmt.Sprintf("%s has tunnels to %v, want %v", m.name, have, slices.Collect(maps.Keys(want))))
		}
		if is := x.deployed && slices.Contains(x.members, m.name); got.bridge != is || got.link != is {
			list = append(list, fmt.Sprintf("%s: a bridge of the cluster: %v, its link in it: %v, want %v", m.name, got.bridge,
				got.link, is))
		}
		if ids, _ := m.execs.List(f.ctx); (len(ids) == 1) != x.process || len(ids) > 1 {
			list = append(list, fmt.Sprintf("%s runs %v, want one process: %v", m.name, ids, x.process))
		}
	}
	return list
}

// reaches reports whether a member has a tunnel to another one.
func (x *clusters) reaches(from, to string) bool {
	both := slices.Contains(x.members, from) && slices.Contains(x.members, to) && from != to
	return x.deployed && both && (x.mesh || from == x.members[0] || to == x.members[0])
}

// ofCluster reports whether a network is the part of a cluster on its node: its UUID is made of both names, of version 5.
func ofCluster(network string) bool { return len(network) == 36 && network[14] == '5' }

// clusterHost is what a host has of the cluster.
type clusterHost struct {
	bridge, link bool
	tunnels      map[netip.Addr]uint32 // numbers, by the remote address
}

func (m *member) clusterOnHost() (h clusterHost, fault string) {
	h.tunnels = map[netip.Addr]uint32{}
	owners, err := m.host.Owners(context.Background())
	if err != nil {
		return h, err.Error()
	}
	for _, o := range owners {
		for _, x := range m.host.State(o.Number) {
			switch x := x.(type) {
			case netstate.Link:
				if h.bridge = h.bridge || ofCluster(o.Name); x.Vxlan == nil {
					continue
				}
				if h.tunnels[x.Vxlan.Remote] = x.Vxlan.VNI; x.Vxlan.Local != m.address() || !ofCluster(o.Name) {
					fault = fmt.Sprintf("a tunnel of %s begins at %v, want %v", o.Name, x.Vxlan.Local, m.address())
				}
			case netstate.Port:
				h.link = h.link || x.Link == clusterLink && ofCluster(o.Name)
			}
		}
	}
	return h, fault
}

// address is where the tunnels of a node begin.
func (m *member) address() netip.Addr { return m.uplink(0).Addresses[0].Addr() }

// endClusters removes the cluster and all descriptors.
func (f *crowd) endClusters() error {
	x := f.clusters
	if x == nil {
		return nil
	}
	if len(x.members) > 0 {
		if err := f.write(ops.Undeploy{Clusters: []string{"lab"}}); err != nil {
			return err
		}
		if err := f.write(ops.Undescribe{Kind: peer.KindCluster, Names: []string{"lab"}}); err != nil {
			return err
		}
	}
	x.members, x.deployed, x.process = nil, false, false
	var names []string
	for _, m := range f.members {
		names = append(names, m.name)
	}
	return f.write(ops.Undescribe{Kind: peer.KindPeer, Names: names})
}
