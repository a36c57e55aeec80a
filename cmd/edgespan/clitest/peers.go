package clitest

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/stateloop/peer"
)

func (f *FleetBackend) Peers(context.Context) ([]fleetapi.Peer, error) {
	err := f.note("peers")
	f.Mu.Lock()
	defer f.Mu.Unlock()
	var out []fleetapi.Peer
	for _, p := range f.PeerList {
		out = append(out, p.Peer)
	}
	return out, err
}

func (f *FleetBackend) Peer(_ context.Context, name string) (fleetapi.PeerDetail, error) {
	if err := f.note("peer %s", name); err != nil {
		return fleetapi.PeerDetail{}, err
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for _, p := range f.PeerList {
		if p.Name == name {
			return p, nil
		}
	}
	return fleetapi.PeerDetail{}, &ops.NotFoundError{What: fmt.Sprintf("peer %q", name)}
}

func (f *FleetBackend) Clusters(context.Context) ([]fleetapi.Cluster, error) {
	err := f.note("clusters")
	f.Mu.Lock()
	defer f.Mu.Unlock()
	var out []fleetapi.Cluster
	for _, c := range f.ClusterList {
		out = append(out, c.Cluster)
	}
	return out, err
}

func (f *FleetBackend) Cluster(_ context.Context, name string) (fleetapi.ClusterDetail, error) {
	if err := f.note("cluster %s", name); err != nil {
		return fleetapi.ClusterDetail{}, err
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for _, c := range f.ClusterList {
		if c.Name == name {
			return c, nil
		}
	}
	return fleetapi.ClusterDetail{}, &ops.NotFoundError{What: fmt.Sprintf("cluster %q", name)}
}

// Changed waits for the next function in Changes and runs it.
func (f *FleetBackend) Changed(ctx context.Context, mark uint64) (uint64, error) {
	if mark == 0 {
		return 1, nil
	}
	select {
	case change := <-f.Changes:
		f.Mu.Lock()
		defer f.Mu.Unlock()
		change(f)
		return mark + 1, nil
	case <-ctx.Done():
		return mark, ctx.Err()
	}
}

const (
	LabID   = "6f1c9f0e-0000-4000-8000-000000000900"
	Edge1ID = "6f1c9f0e-0000-4000-8000-000000000001"
	Edge2ID = "6f1c9f0e-0000-4000-8000-000000000002"
)

// Network returns the ID of a cluster's network on a node.
func Network(cluster, node string) string {
	return peer.NetworkOf(uuid.MustParse(cluster), uuid.MustParse(node)).String()
}

// smallPeers returns two peers in a cluster, whose tunnel waits on one of them, and a node without a descriptor.
func smallPeers() ([]fleetapi.PeerDetail, []fleetapi.ClusterDetail) {
	at := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	next, age := at.Add(time.Minute), 2.5
	n := Network(LabID, Edge1ID)
	tunnel := peer.TunnelID(uuid.MustParse(n), uuid.MustParse(Edge2ID))
	edge1 := fleetapi.PeerDetail{
		Peer: fleetapi.Peer{
			Name: "edge-1", ID: Edge1ID, Described: true, Clusters: []string{"lab"}, Online: true, Health: "yellow",
			Why:    tunnel + " is WaitingForDependencies; 1 of 5 parameters are not in their final state",
			Counts: map[string]int{"Present": 3, "CreatingFailed": 1, "WaitingForDependencies": 1}, Desired: "a:7",
			Applied: "a:7", LastReport: &at, AgeSeconds: &age,
		},
		Descriptor: config.Object{"kind": "PeerDescriptor", "metadata": config.Object{"name": "edge-1"},
			"spec": config.Object{
				"interfaces": config.Object{"dut": config.Object{"ifName": "eth1", "kind": "ethernet"}},
				"underlays":  config.Object{"wan": config.Object{"port": "wan0"}},
				"executors":  config.Object{"collector": config.Object{"command": []any{"/usr/bin/collector", "-v"}}},
			}},
		Revision: 4,
		Parameters: []fleetapi.PeerParameter{
			{ID: "bridge/" + n, Kind: "ethernet-bridge", Target: "present", State: "Present", Reported: "Present", Review: "no",
				Since: &at},
			{ID: "executor/collector", Kind: "executor", Target: "present", State: "CreatingFailed", Reported: "CreatingFailed",
				Review: "yes", Reason: "exit status 1", Since: &at, Attempts: 3, NextTry: &next,
				Describes: "/usr/bin/collector -v"},
			{ID: "interface/dut", Kind: "device-interface", Target: "present", State: "Present", Reported: "Present",
				Review: "no", Since: &at, Describes: "eth1"},
			{ID: "joined/" + n + "/" + tunnel, Kind: "joined-interface", Target: "present", State: "Creating", Review: "no",
				Since: &at, Dependencies: []string{"bridge/" + n, tunnel}},
			{ID: "ni/5f1c9f0e-0000-4000-8000-000000000001", Kind: "network-instance", Target: "present", State: "Present",
				Reported: "Present", Review: "no", Since: &at},
			{ID: tunnel, Kind: "tunnel", Target: "present", State: "WaitingForDependencies", Reported: "WaitingForDependencies",
				Review: "no", Reason: "no route to 192.0.2.2", Since: &at, Describes: "vxlan 256 192.0.2.1 > 192.0.2.2"},
		},
		Ignored: []fleetapi.PeerParameter{{ID: "executor/mine", Kind: "executor", State: "Ignored", Reported: "Present",
			Review: "maybe", Reason: "Present"}},
	}
	edge2 := fleetapi.PeerDetail{
		Peer: fleetapi.Peer{
			Name: "edge-2", ID: Edge2ID, Described: true, Clusters: []string{"lab"}, Online: true, Health: "green", Ready: true,
			Counts:  map[string]int{"Present": 4},
			Desired: "a:9", Applied: "a:9", LastReport: &at, AgeSeconds: &age,
		},
		Descriptor: config.Object{"kind": "PeerDescriptor"}, Revision: 4,
		Parameters: []fleetapi.PeerParameter{{ID: "bridge/" + Network(LabID, Edge2ID), Kind: "ethernet-bridge",
			Target: "present", State: "Present", Reported: "Present", Review: "no", Since: &at}},
	}
	other := fleetapi.PeerDetail{Peer: fleetapi.Peer{Name: "other", ID: "6f1c9f0e-0000-4000-8000-000000000003",
		Health: "unknown", Why: "it is offline"}}
	lab := smallCluster(edge1.Peer, edge2.Peer, tunnel)
	return []fleetapi.PeerDetail{edge1, edge2, other}, []fleetapi.ClusterDetail{lab}
}

// smallCluster returns the cluster of both peers; one of them waits for its tunnel.
func smallCluster(edge1, edge2 fleetapi.Peer, tunnel string) fleetapi.ClusterDetail {
	return fleetapi.ClusterDetail{
		Cluster: fleetapi.Cluster{
			Name: "lab", ID: LabID, Leader: "edge-1", Topology: "star", Members: []string{"edge-1", "edge-2"}, Deployed: true,
			State: "deploying", Health: "yellow",
			Why: "edge-1: " + tunnel +
				" is WaitingForDependencies; 1 of 5 parameters are not in their final state; 1 of 2 members are not ready",
		},
		Descriptor: config.Object{"kind": "ClusterDescriptor", "metadata": config.Object{"name": "lab", "id": LabID},
			"spec": config.Object{"leader": "edge-1", "members": config.Object{
				"edge-1": config.Object{"interfaces": "dut", "underlay": "wan"}, "edge-2": config.Object{"underlay": "wan"},
			}}},
		Revision: 5, Peers: []fleetapi.Peer{edge1, edge2},
		Tunnels: []fleetapi.Tunnel{{Between: [2]string{"edge-1", "edge-2"}, VNI: 256,
			States: [2]string{"WaitingForDependencies", "Present"}, Reason: "edge-1: no route to 192.0.2.2"}},
	}
}
