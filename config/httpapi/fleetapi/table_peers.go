package fleetapi

import (
	"reflect"

	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
	"edgespan/config/httpapi/rest"
	"edgespan/config/stateloop/peer"
)

// Documents is the body of a write of several descriptors.
type Documents struct {
	Documents []config.Object `json:"documents"`
}

// peerRows are the routes of peers, clusters and their descriptors.
func peerRows() []row {
	rows := []row{
		{Method: "GET", Path: "peers", Role: Viewer,
			Summary: "all peers: nodes with a descriptor, and nodes that have joined",
			Query:   []param{pLimit, pAfter}, Answer: reflect.TypeFor[[]Peer](), Serve: servePeers},
		{Method: "GET", Path: "peers/{peer}", Role: Viewer,
			Summary: "the state of one peer, its parameters and its descriptor", Answer: reflect.TypeFor[PeerDetail](),
			Serve: servePeer},
		{
			Method: "GET", Path: "peers/{peer}/watch", Role: Viewer,
			Summary: "the same, at once and on each change, as server-sent events", Events: true,
			Answer: reflect.TypeFor[PeerDetail](), Serve: watch(readPeer, quietPeer),
		},
	}
	rows = append(rows, descriptorRows("peers/{peer}", "peer", "that no deployed cluster needs", peer.KindPeer,
		history.Peer)...)
	rows = append(
		rows,
		row{Method: "GET", Path: "clusters", Role: Viewer, Summary: "all clusters", Query: []param{pLimit, pAfter},
			Answer: reflect.TypeFor[[]Cluster](), Serve: serveClusters},
		row{Method: "GET", Path: "clusters/{cluster}", Role: Viewer,
			Summary: "the state of one cluster, its members and its descriptor", Answer: reflect.TypeFor[ClusterDetail](),
			Serve: serveCluster},
		row{
			Method: "GET", Path: "clusters/{cluster}/watch", Role: Viewer,
			Summary: "the same, at once and on each change, as server-sent events", Events: true,
			Answer: reflect.TypeFor[ClusterDetail](), Serve: watch(readCluster, quietCluster),
		},
	)
	rows = append(rows, descriptorRows("clusters/{cluster}", "cluster", "that is not deployed", peer.KindCluster,
		history.Cluster)...)
	return append(
		rows,
		row{
			Method: "POST", Path: "clusters/{cluster}/deploy", Role: Operator, Summary: "deploy a cluster to its members",
			Effect: rest.Writes,
			Serve: func(a *api, c *call) (reply, error) {
				return a.write(c, ops.Deploy{Clusters: []string{c.values["cluster"]}})
			},
		},
		row{
			Method: "POST", Path: "clusters/{cluster}/undeploy", Role: Operator, Summary: "remove a cluster from its members",
			Effect: rest.Writes,
			Serve: func(a *api, c *call) (reply, error) {
				return a.write(c, ops.Undeploy{Clusters: []string{c.values["cluster"]}})
			},
		},
		row{
			Method: "POST", Path: "documents", Role: Operator,
			Summary: "write several descriptors of peers and clusters, all or none, as one revision", Effect: rest.Writes,
			Body: reflect.TypeFor[Documents](), Serve: setDocuments,
		},
	)
}

// descriptorRows are the writes of one descriptor; free describes which one may be deleted.
func descriptorRows(path, what, free, kind string, layer history.Kind) []row {
	bound := func(c *call) []history.Layer { return layersOf(layer, []string{c.values[what]}) }
	return []row{
		{
			Method: "PUT", Path: path, Role: Operator, Summary: "write the descriptor of a " + what + ", whole",
			Effect: rest.Writes,
			Body:   anObject, Own: bound, Serve: setDescriptor(what, kind),
		},
		{
			Method: "DELETE", Path: path, Role: Operator, Summary: "delete the descriptor of a " + what + " " + free,
			Effect: rest.Writes,
			Own:    bound, Serve: func(a *api, c *call) (reply, error) {
				return a.write(c, ops.Undescribe{Kind: kind, Names: []string{c.values[what]}})
			},
		},
	}
}
