package fleetapi

import (
	"edgespan/config"
	"edgespan/config/fleet/ops"
)

func servePeers(a *api, c *call) (reply, error) {
	ps, err := a.backend.Peers(c.Context())
	return answerPage(c, ps, func(p Peer) string { return p.Name }, err)
}

func serveClusters(a *api, c *call) (reply, error) {
	cs, err := a.backend.Clusters(c.Context())
	return answerPage(c, cs, func(one Cluster) string { return one.Name }, err)
}

func servePeer(a *api, c *call) (reply, error) {
	d, err := readPeer(a, c)
	return answerLive(d, d.Revision, err)
}

func serveCluster(a *api, c *call) (reply, error) {
	d, err := readCluster(a, c)
	return answerLive(d, d.Revision, err)
}

// answerLive answers with a state and the revision of its descriptor as the ETag, for If-Match. The state changes
// without the revision.
func answerLive[T any](v T, revision uint64, err error) (reply, error) {
	r, err := answer(v, err)
	r.ETag, r.Lively = revisionTag(revision), true
	return r, err
}

func readPeer(a *api, c *call) (PeerDetail, error) {
	return a.backend.Peer(c.Context(), c.values["peer"])
}

func readCluster(a *api, c *call) (ClusterDetail, error) {
	return a.backend.Cluster(c.Context(), c.values["cluster"])
}

// setDescriptor writes the descriptor that the path names. The document must have the same name.
func setDescriptor(what, kind string) func(*api, *call) (reply, error) {
	return func(a *api, c *call) (reply, error) {
		var faults config.Faults
		must := func(path []string, want string) {
			if got, _ := config.Lookup(c.body, path); got != want {
				text, _ := got.(string)
				faults.Add(path, config.Invalid(text), config.MustBe(config.Quote(want)+" here"))
			}
		}
		must([]string{"kind"}, kind)
		must([]string{"metadata", "name"}, c.values[what])
		if len(faults) > 0 {
			return reply{}, faults
		}
		return a.write(c, ops.Describe{Documents: []config.Object{c.body}})
	}
}

// setDocuments writes several descriptors. The schema has accepted the body.
func setDocuments(a *api, c *call) (reply, error) {
	var w ops.Describe
	list, _ := c.body["documents"].([]any)
	for _, v := range list {
		if o, ok := v.(config.Object); ok {
			w.Documents = append(w.Documents, o)
		}
	}
	return a.write(c, w)
}
