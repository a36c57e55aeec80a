package main

import (
	"context"
	"fmt"

	"edgespan/config/httpapi/fleetapi"
	"edgespan/config/operate"
)

func (f *fleetBackend) Peers(context.Context) ([]fleetapi.Peer, error) {
	err := f.note("peers")
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []fleetapi.Peer
	for _, p := range f.peers {
		out = append(out, p.Peer)
	}
	return out, err
}

func (f *fleetBackend) Peer(_ context.Context, name string) (fleetapi.PeerDetail, error) {
	if err := f.note("peer %s", name); err != nil {
		return fleetapi.PeerDetail{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.peers {
		if p.Name == name {
			return p, nil
		}
	}
	return fleetapi.PeerDetail{}, &operate.NotFoundError{What: fmt.Sprintf("peer %q", name)}
}

func (f *fleetBackend) Clusters(context.Context) ([]fleetapi.Cluster, error) {
	err := f.note("clusters")
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []fleetapi.Cluster
	for _, c := range f.clusters {
		out = append(out, c.Cluster)
	}
	return out, err
}

func (f *fleetBackend) Cluster(_ context.Context, name string) (fleetapi.ClusterDetail, error) {
	if err := f.note("cluster %s", name); err != nil {
		return fleetapi.ClusterDetail{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.clusters {
		if c.Name == name {
			return c, nil
		}
	}
	return fleetapi.ClusterDetail{}, &operate.NotFoundError{What: fmt.Sprintf("cluster %q", name)}
}

// Changed makes the next change of the test, and tells of it.
func (f *fleetBackend) Changed(ctx context.Context, mark uint64) (uint64, error) {
	if mark == 0 {
		return 1, nil
	}
	select {
	case change := <-f.changes:
		f.mu.Lock()
		defer f.mu.Unlock()
		change(f)
		return mark + 1, nil
	case <-ctx.Done():
		return mark, ctx.Err()
	}
}
