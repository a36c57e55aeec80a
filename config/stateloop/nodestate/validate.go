package nodestate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"edgespan/config"
	"edgespan/config/layers/metadata"
	"edgespan/config/nodeconf"
	"edgespan/config/nodeconf/commitconfirm"
	"edgespan/config/stateloop/peer"
	"edgespan/netinst"
)

// ValidatedConfig is the content of a document and its PeerConfiguration on this node.
type ValidatedConfig struct {
	nodeconf.Config // Networks include those of the clusters
	Peer            peer.Configuration
}

// Validator returns the validator of candidates. It checks a document from a person or a file against the node's own
// schema, and a pushed or merged one against the metadata, which vendors may have extended.
func Validator(m *metadata.Metadata) func(config.Object, string, commitconfirm.Source) commitconfirm.Verdict {
	return func(document config.Object, peers string, from commitconfirm.Source) commitconfirm.Verdict {
		if from == commitconfirm.File || from == commitconfirm.Apply {
			return withPeer(parse(document, nil), peers)
		}
		document = nodeconf.DropAbsent(document)
		report := m.Validate(document)
		v := parse(EdgespanPart(document), report.Err())
		for _, path := range report.Unknown {
			v.Warnings.Add(path, config.UnknownField, "")
		}
		v.Warnings.Sort()
		return withPeer(v, peers)
	}
}

// parse parses a document. It adds the faults to those already known, without a second one at the same path.
func parse(document config.Object, faults config.Faults) commitconfirm.Verdict {
	cfg, err := nodeconf.Parse(document)
	var own config.Faults
	errors.As(err, &own)
	for _, f := range own {
		if !slices.ContainsFunc(faults, func(x config.Fault) bool { return slices.Equal(x.Path, f.Path) }) {
			faults = append(faults, f)
		}
	}
	if len(faults) > 0 {
		faults.Sort()
		return commitconfirm.Verdict{Faults: faults}
	}
	return *AcceptedVerdict(cfg)
}

// AcceptedVerdict returns the verdict on a config without faults.
func AcceptedVerdict(cfg nodeconf.Config) *commitconfirm.Verdict {
	return &commitconfirm.Verdict{Config: ValidatedConfig{Config: cfg}, Warnings: cfg.Warnings}
}

// peerRoot is the first segment of paths in a PeerConfiguration, to separate them from those of the document.
const peerRoot = "peerConfiguration"

// withPeer adds the PeerConfiguration to a verdict: the networks of its clusters become networks of the node, and the
// faults of both are reported together.
func withPeer(v commitconfirm.Verdict, text string) commitconfirm.Verdict {
	if text == "" {
		return v
	}
	c, faults := peer.Decode([]byte(text))
	w, sound := v.Config.(ValidatedConfig)
	if sound && len(faults) == 0 {
		w.Peer = c
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

const maxNetworks = 999 // the numbers of networks end there (docs/architecture.md, law 3)

// addClusters adds the networks of clusters to those of the layers.
func (w *ValidatedConfig) addClusters(networks map[uuid.UUID]peer.Network) config.Faults {
	var faults config.Faults
	users := map[netinst.IfName]string{} // users of the host's links
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
			faults.Add([]string{"parameters", n.Bridge}, "duplicate network instance "+id.String()+", also in the config",
				"must be unique")
			continue
		}
		for _, link := range n.Config.Members {
			at := []string{"parameters", n.Members[string(link)], "interface", "ifName"}
			if user := users[link]; user != "" {
				faults.Add(at, fmt.Sprintf("invalid value %s, which %s", link, user), "must be a link that nothing else uses")
			}
			users[link] = "is in the bridge of cluster " + n.Config.DisplayName
		}
		n.Config.Sharers = w.Sharers
		w.Networks[id] = n.Config
	}
	if len(w.Networks) > maxNetworks {
		faults.Add([]string{"parameters"}, fmt.Sprintf("come to %d networks with those of the config", len(w.Networks)),
			fmt.Sprintf("must be at most %d", maxNetworks))
	}
	return faults
}

// EdgespanPart returns the part of a document that this node applies itself, without other vendors' keys.
func EdgespanPart(document config.Object) config.Object {
	out := config.Object{}
	for _, key := range nodeconf.Sections() {
		if v, has := document[key]; has {
			out[key] = v
		}
	}
	for _, e := range nodeconf.Schema() {
		group, name, below := strings.Cut(e.Path, ".")
		if !below || strings.Contains(name, ".") || slices.Contains(nodeconf.Sections(), group) {
			continue
		}
		if v, has := config.Lookup(document, []string{group, name}); has {
			owned, _ := out[group].(config.Object)
			if owned == nil {
				owned = config.Object{}
			}
			owned[name] = v
			out[group] = owned
		}
	}
	return out
}
