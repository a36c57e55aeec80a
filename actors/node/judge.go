package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"edgespan/actors/agent"
	core "edgespan/config"
	"edgespan/config/layers/metadata"
	"edgespan/config/nodeconf"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/config/stateloop/peer"
	"edgespan/netinst"
)

// wish is what a document and its PeerConfiguration come to on this node.
type wish struct {
	nodeconf.Config // Networks are those of the clusters, too
	peer            peer.Configuration
}

// judgeBy is the agent's judge: a document of a person or a file is held to the node's own
// schema; one that was pushed or merged to the metadata, which others may have added to.
func judgeBy(m *metadata.Metadata) agent.Judge {
	return func(document core.Object, peers string, from commitconfirm.Source) agent.Verdict {
		if from == commitconfirm.File || from == commitconfirm.Apply {
			return withPeer(parsed(core.AppendCanonical(nil, document), nil), peers)
		}
		document = nodeconf.Present(document)
		report := m.Validate(document)
		v := parsed(core.AppendCanonical(nil, ownPart(document)), report.Err())
		for _, path := range report.Unknown {
			v.Warnings.Add(path, "is unknown", "")
		}
		v.Warnings.Sort()
		return withPeer(v, peers)
	}
}

// parsed reads a document; what is wrong with it already comes along, once.
func parsed(text []byte, faults core.Faults) agent.Verdict {
	cfg, err := nodeconf.Parse(text)
	var own core.Faults
	errors.As(err, &own)
	for _, f := range own {
		if !slices.ContainsFunc(faults, func(x core.Fault) bool { return slices.Equal(x.Path, f.Path) }) {
			faults = append(faults, f)
		}
	}
	if len(faults) > 0 {
		faults.Sort()
		return agent.Verdict{Faults: faults}
	}
	return agent.Verdict{Config: wish{Config: cfg}, Warnings: cfg.Warnings}
}

// peerRoot is where the faults of a PeerConfiguration stand beside those of the document.
const peerRoot = "peerConfiguration"

// withPeer adds the PeerConfiguration to a verdict: the networks of its clusters are networks
// of the node like any other, and all faults of both are told at once.
func withPeer(v agent.Verdict, text string) agent.Verdict {
	if text == "" {
		return v
	}
	c, faults := peer.Decode([]byte(text))
	w, sound := v.Config.(wish)
	if sound && len(faults) == 0 {
		w.peer = c
		w.Networks = maps.Clone(w.Networks)
		faults = append(faults, w.addClusters(c.Networks())...)
		v.Config = w
	}
	if len(faults) == 0 {
		return v
	}
	for i := range faults {
		faults[i].Path = append([]string{peerRoot}, faults[i].Path...)
	}
	v.Config, v.Faults = nil, append(v.Faults, faults...)
	v.Faults.Sort()
	return v
}

const mostNetworks = 999 // as the numbers of networks go (docs/architecture.md, law 3)

// addClusters adds the networks of clusters to those of the layers.
func (w *wish) addClusters(networks map[uuid.UUID]peer.Network) core.Faults {
	var faults core.Faults
	users := map[netinst.IfName]string{} // of links of the host, who has them in a bridge
	for label, p := range w.Ports {
		for _, n := range w.Networks {
			if n.Port == label || slices.Contains(p.Labels, n.Port) {
				users[p.IfName] = "is the port " + label + " of network instance " + n.UUID.String()
			}
		}
		if p.Uplink {
			users[p.IfName] = "is the uplink " + label
		}
	}
	for _, a := range w.Apps {
		for _, u := range a.Adapters {
			if u.Kind == netinst.External && u.HostIfName != "" {
				users[u.HostIfName] = "is an adapter of app " + a.UUID.String()
			}
		}
	}
	byText := func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }
	for _, id := range slices.SortedFunc(maps.Keys(networks), byText) {
		n := networks[id]
		if _, both := w.Networks[id]; both {
			faults.Add([]string{"parameters", n.Bridge}, "is network instance "+id.String()+", which the config has too",
				"a uuid of its own is allowed")
			continue
		}
		for _, link := range n.Config.Members {
			at := []string{"parameters", n.Members[string(link)], "interface", "ifName"}
			if user := users[link]; user != "" {
				faults.Add(at, fmt.Sprintf("is %s, which %s", link, user), "a link that nothing else uses is allowed")
			}
			users[link] = "is in the bridge of cluster " + n.Config.DisplayName
		}
		n.Config.Sharers = w.Sharers
		w.Networks[id] = n.Config
	}
	if len(w.Networks) > mostNetworks {
		faults.Add([]string{"parameters"}, fmt.Sprintf("come to %d networks with those of the config", len(w.Networks)),
			fmt.Sprintf("at most %d are allowed", mostNetworks))
	}
	return faults
}
