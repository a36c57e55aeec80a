package fleetapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
	"edgespan/config/stateloop/peer"
)

// Peers returns all nodes that have a descriptor or have joined, by name.
func (c *Client) Peers(ctx context.Context) ([]Peer, error) {
	return listAll[Peer](ctx, c, route("peers"), nil, 0)
}

// Peer returns one peer.
func (c *Client) Peer(ctx context.Context, name string) (PeerDetail, error) {
	return rest.Get[PeerDetail](ctx, c.Client, route("peers", name), nil)
}

// Clusters returns all clusters, by name.
func (c *Client) Clusters(ctx context.Context) ([]Cluster, error) {
	return listAll[Cluster](ctx, c, route("clusters"), nil, 0)
}

// Cluster returns one cluster.
func (c *Client) Cluster(ctx context.Context, name string) (ClusterDetail, error) {
	return rest.Get[ClusterDetail](ctx, c.Client, route("clusters", name), nil)
}

// WatchPeer calls tell with the state of a peer, at once and on each change, until the controller ends the watch, which
// is no error: the caller may watch again. An error of tell ends it too.
func (c *Client) WatchPeer(ctx context.Context, name string, tell func(PeerDetail) error) error {
	return watched(ctx, c, route("peers", name, "watch"), tell)
}

// WatchCluster is WatchPeer for a cluster.
func (c *Client) WatchCluster(ctx context.Context, name string, tell func(ClusterDetail) error) error {
	return watched(ctx, c, route("clusters", name, "watch"), tell)
}

func watched[T any](ctx context.Context, c *Client, path string, tell func(T) error) error {
	resp, err := c.Send(ctx, request{Method: http.MethodGet, Path: path})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only read from
	for text, err := range rest.Events(resp.Body, maxEvent) {
		if errors.Is(err, bufio.ErrTooLong) {
			return errors.New("an event of the controller is too long")
		} else if err != nil {
			return c.Failed(err)
		}
		var v T
		if err := c.Decode(text, &v); err != nil {
			return err
		}
		if err := tell(v); err != nil {
			return err
		}
	}
	return nil
}

// maxEvent bounds one event, in bytes.
const maxEvent = 64 << 20

// peerRequest returns the request for a write of peers and clusters.
func peerRequest(w ops.Write) (request, error) {
	v := url.Values{}
	post := func(names []string, what string) (request, error) {
		if len(names) != 1 {
			return request{}, fmt.Errorf("%s: %d clusters: must be one at a time", what, len(names))
		}
		return request{Method: http.MethodPost, Path: route("clusters", names[0], what), Query: v}, nil
	}
	switch w := w.(type) {
	case ops.Describe:
		if len(w.Documents) == 1 {
			if at := descriptorRoute(w.Documents[0]); at != "" {
				return newBodyRequest(http.MethodPut, at, v, w.Documents[0])
			}
		}
		docs := make([]any, len(w.Documents))
		for i, d := range w.Documents {
			docs[i] = d
		}
		return newBodyRequest(http.MethodPost, route("documents"), v, config.Object{"documents": docs})
	case ops.Undescribe:
		kinds := map[string]string{peer.KindPeer: "peers", peer.KindCluster: "clusters"}
		if len(w.Names) != 1 || kinds[w.Kind] == "" {
			return request{}, fmt.Errorf("delete %d of %s: must be one peer or cluster at a time", len(w.Names),
				config.Quote(w.Kind))
		}
		return request{Method: http.MethodDelete, Path: route(kinds[w.Kind], w.Names[0]), Query: v}, nil
	case ops.Deploy:
		return post(w.Clusters, "deploy")
	case ops.Undeploy:
		return post(w.Clusters, "undeploy")
	}
	return request{}, fmt.Errorf("write %T: has no route", w)
}

// descriptorRoute returns the route that a descriptor is put to, "" if the descriptor does not say: the controller then
// reports the fault.
func descriptorRoute(doc config.Object) string {
	at, _ := config.Lookup(doc, []string{"metadata", "name"})
	name, _ := at.(string)
	switch {
	case name == "":
		return ""
	case doc["kind"] == peer.KindPeer:
		return route("peers", name)
	case doc["kind"] == peer.KindCluster:
		return route("clusters", name)
	}
	return ""
}
