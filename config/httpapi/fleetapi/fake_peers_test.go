package fleetapi

import (
	"context"
	"fmt"
	"time"

	"edgespan/config"
	"edgespan/config/fleet/ops"
)

func aPeer(name string) Peer {
	age := 2.5
	return Peer{
		Name: name, ID: "6f1c9f0e-0000-4000-8000-000000000001", Described: true, Clusters: []string{"lab"}, Online: true,
		Health: "yellow",
		Why:    "1 of 2 parameters are not in their final state", Counts: map[string]int{"Present": 1, "Creating": 1},
		Desired: "a:7", Applied: "a:6", LastReport: new(at), AgeSeconds: &age,
	}
}

// Peers returns p1, whose descriptor was written at 4, and p2, which has none.
func (f *fake) Peers(context.Context) ([]Peer, error) {
	return []Peer{aPeer("p1"), {Name: "p2", Health: "unknown"}}, f.note("Peers")
}

func (f *fake) Peer(_ context.Context, name string) (PeerDetail, error) {
	if err := f.note("Peer %s", name); err != nil {
		return PeerDetail{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case name == "p2":
		return PeerDetail{Peer: Peer{Name: name, Health: "unknown"}}, nil
	case name != "p1" || f.gone:
		return PeerDetail{}, &ops.NotFoundError{What: fmt.Sprintf("peer %q", name)}
	}
	d := PeerDetail{
		Peer: aPeer(name), Descriptor: config.Object{"kind": "PeerDescriptor"}, Revision: 4,
		Parameters: []PeerParameter{{ID: "bridge/x", Kind: "ethernet-bridge", Target: "present", State: "Creating",
			Review: "no", Since: new(at), Dependencies: []string{"a"}}},
	}
	d.Why += f.pending
	if f.age > 0 {
		d.AgeSeconds, d.LastReport = new(f.age), new(at.Add(time.Hour))
	}
	return d, nil
}

func aCluster() Cluster {
	return Cluster{Name: "lab", ID: "6f1c9f0e-0000-4000-8000-000000000900", Leader: "p1", Topology: "star",
		Members: []string{"p1", "p2"}, Deployed: true, State: "deploying", Health: "yellow"}
}

func (f *fake) Clusters(context.Context) ([]Cluster, error) {
	return []Cluster{aCluster()}, f.note("Clusters")
}

func (f *fake) Cluster(_ context.Context, name string) (ClusterDetail, error) {
	if err := f.note("Cluster %s", name); err != nil {
		return ClusterDetail{}, err
	}
	if name != "lab" {
		return ClusterDetail{}, &ops.NotFoundError{What: fmt.Sprintf("cluster %q", name)}
	}
	return ClusterDetail{
		Cluster: aCluster(), Descriptor: config.Object{"kind": "ClusterDescriptor"}, Revision: 6, Peers: []Peer{aPeer("p1")},
		Tunnels: []Tunnel{{Between: [2]string{"p1", "p2"}, VNI: 256, States: [2]string{"Present", "Creating"}}},
	}, nil
}

// Changed waits for the next of changes; once that is closed it ends the watch.
func (f *fake) Changed(ctx context.Context, mark uint64) (uint64, error) {
	if mark == 0 {
		return 1, nil
	}
	if f.changes == nil {
		return mark, ErrBusy
	}
	select {
	case change, more := <-f.changes:
		if !more {
			return mark, ErrBusy
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		change(f)
		return mark + 1, nil
	case <-ctx.Done():
		return mark, ctx.Err()
	}
}
