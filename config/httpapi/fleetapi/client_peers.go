package fleetapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"edgespan/config"
	"edgespan/config/fleet/ops"
	"edgespan/config/stateloop/peer"
)

// Peers are all nodes that are described or have joined, by name.
func (c *Client) Peers(ctx context.Context) ([]Peer, error) {
	return listAll[Peer](ctx, c, route("peers"), nil, 0)
}

// Peer is one of them.
func (c *Client) Peer(ctx context.Context, name string) (PeerDetail, error) {
	var out PeerDetail
	err := c.get(ctx, route("peers", name), nil, &out)
	return out, err
}

// Clusters are all clusters, by name.
func (c *Client) Clusters(ctx context.Context) ([]Cluster, error) {
	return listAll[Cluster](ctx, c, route("clusters"), nil, 0)
}

// Cluster is one of them.
func (c *Client) Cluster(ctx context.Context, name string) (ClusterDetail, error) {
	var out ClusterDetail
	err := c.get(ctx, route("clusters", name), nil, &out)
	return out, err
}

// WatchPeer tells how a peer is, at once and on each change, until the controller ends the
// watch, which is no error: who goes on asks again. An error of tell ends it too.
func (c *Client) WatchPeer(ctx context.Context, name string, tell func(PeerDetail) error) error {
	return watched(ctx, c, route("peers", name, "watch"), tell)
}

// WatchCluster is the same of a cluster.
func (c *Client) WatchCluster(ctx context.Context, name string, tell func(ClusterDetail) error) error {
	return watched(ctx, c, route("clusters", name, "watch"), tell)
}

func watched[T any](ctx context.Context, c *Client, path string, tell func(T) error) error {
	return c.stream(ctx, request{method: http.MethodGet, path: path}, &events{tell: func(text []byte) error {
		var v T
		if err := json.Unmarshal(text, &v); err != nil {
			return fmt.Errorf("read answer of %s: %w", c.base, err)
		}
		return tell(v)
	}})
}

// maxEvent bounds one event, in bytes.
const maxEvent = 64 << 20

// events takes a stream of server-sent events apart.
type events struct {
	tell func(data []byte) error
	rest []byte
}

var errEvent = errors.New("an event of the controller is too long")

func (e *events) Write(p []byte) (int, error) {
	e.rest = append(e.rest, p...)
	for {
		one, more, whole := bytes.Cut(e.rest, []byte("\n\n"))
		if !whole {
			break
		}
		var data []byte
		for line := range bytes.SplitSeq(one, []byte("\n")) {
			if text, is := bytes.CutPrefix(line, []byte("data: ")); is {
				data = append(data, text...)
			}
		}
		e.rest = more
		if data == nil {
			continue // a sign of life
		}
		if err := e.tell(data); err != nil {
			return 0, err
		}
	}
	if len(e.rest) > maxEvent {
		return 0, errEvent
	}
	return len(p), nil
}

// peerRequest is the route of a write of peers and clusters.
func peerRequest(w ops.Write) (request, error) {
	v := url.Values{}
	post := func(names []string, what string) (request, error) {
		if len(names) != 1 {
			return request{}, fmt.Errorf("%s: %d clusters: one at a time is allowed", what, len(names))
		}
		return request{method: http.MethodPost, path: route("clusters", names[0], what), query: v}, nil
	}
	switch w := w.(type) {
	case ops.Describe:
		if len(w.Documents) == 1 {
			if at := descriptorRoute(w.Documents[0]); at != "" {
				return bodied(http.MethodPut, at, v, w.Documents[0])
			}
		}
		docs := make([]any, len(w.Documents))
		for i, d := range w.Documents {
			docs[i] = d
		}
		return bodied(http.MethodPost, route("documents"), v, config.Object{"documents": docs})
	case ops.Undescribe:
		kinds := map[string]string{peer.KindPeer: "peers", peer.KindCluster: "clusters"}
		if len(w.Names) != 1 || kinds[w.Kind] == "" {
			return request{}, fmt.Errorf("delete %d of %s: one peer or cluster at a time is allowed", len(w.Names),
				config.Quote(w.Kind))
		}
		return request{method: http.MethodDelete, path: route(kinds[w.Kind], w.Names[0]), query: v}, nil
	case ops.Deploy:
		return post(w.Clusters, "deploy")
	case ops.Undeploy:
		return post(w.Clusters, "undeploy")
	}
	return request{}, fmt.Errorf("write %T: has no route", w)
}

// descriptorRoute is where a descriptor is put, "" for one that does not say what it is: the
// controller says what is wrong with it.
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
