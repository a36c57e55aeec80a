package fleetapi

import (
	"reflect"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/stateloop/peer"
)

// Documents is the body of a write of several descriptors.
type Documents struct {
	Documents []config.Object `json:"documents"`
}

// peerRows are the routes of peers, clusters and their descriptors.
func peerRows() []row {
	rows := []row{
		{method: "GET", path: "peers", role: Viewer, summary: "all peers: nodes that are described or have joined",
			query: []param{pLimit, pAfter}, answer: reflect.TypeFor[[]Peer](), serve: servePeers},
		{method: "GET", path: "peers/{peer}", role: Viewer,
			summary: "the state of one peer, its parameters and its descriptor", answer: reflect.TypeFor[PeerDetail](),
			serve: servePeer},
		{
			method: "GET", path: "peers/{peer}/watch", role: Viewer,
			summary: "the same at once and on each change, as server-sent events", events: true,
			answer: reflect.TypeFor[PeerDetail](), serve: watch(lookAtPeer, quietPeer),
		},
	}
	rows = append(rows, descriptorRows("peers/{peer}", "peer", "that no deployed cluster needs", peer.KindPeer,
		history.Peer)...)
	rows = append(
		rows,
		row{method: "GET", path: "clusters", role: Viewer, summary: "all clusters", query: []param{pLimit, pAfter},
			answer: reflect.TypeFor[[]Cluster](), serve: serveClusters},
		row{method: "GET", path: "clusters/{cluster}", role: Viewer,
			summary: "the state of one cluster, its members and its descriptor", answer: reflect.TypeFor[ClusterDetail](),
			serve: serveCluster},
		row{
			method: "GET", path: "clusters/{cluster}/watch", role: Viewer,
			summary: "the same at once and on each change, as server-sent events", events: true,
			answer: reflect.TypeFor[ClusterDetail](), serve: watch(lookAtCluster, quietCluster),
		},
	)
	rows = append(rows, descriptorRows("clusters/{cluster}", "cluster", "that is not deployed", peer.KindCluster,
		history.Cluster)...)
	return append(
		rows,
		row{
			method: "POST", path: "clusters/{cluster}/deploy", role: Operator, summary: "want a cluster on its members",
			effect: writes,
			serve: func(a *api, c *call) (reply, error) {
				return a.write(c, ops.Deploy{Clusters: []string{c.values["cluster"]}})
			},
		},
		row{
			method: "POST", path: "clusters/{cluster}/undeploy", role: Operator, summary: "want a cluster gone from its members",
			effect: writes,
			serve: func(a *api, c *call) (reply, error) {
				return a.write(c, ops.Undeploy{Clusters: []string{c.values["cluster"]}})
			},
		},
		row{
			method: "POST", path: "documents", role: Operator,
			summary: "write several descriptors of peers and clusters, all or none, as one revision", effect: writes,
			body: reflect.TypeFor[Documents](), serve: setDocuments,
		},
	)
}

// descriptorRows are the writes of one descriptor; free is which one may go.
func descriptorRows(path, what, free, kind string, layer history.Kind) []row {
	bound := func(c *call) []history.Layer { return layersOf(layer, []string{c.values[what]}) }
	return []row{
		{
			method: "PUT", path: path, role: Operator, summary: "write the descriptor of a " + what + ", whole", effect: writes,
			body: anObject, bound: bound, serve: setDescriptor(what, kind),
		},
		{
			method: "DELETE", path: path, role: Operator, summary: "delete the descriptor of a " + what + " " + free,
			effect: writes,
			bound:  bound, serve: func(a *api, c *call) (reply, error) {
				return a.write(c, ops.Undescribe{Kind: kind, Names: []string{c.values[what]}})
			},
		},
	}
}
