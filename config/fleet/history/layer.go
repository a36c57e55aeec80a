package history

import (
	"fmt"
	"strings"

	"edgespan/config"
)

// Kind is what a layer is of.
type Kind int

// The kinds of layers that have a history. Base, firmware and hardware layers are files
// beside the controller, or learnt from a node, and have none.
const (
	Network Kind = iota
	Node
	Auto
	Topology
	Metadata
	E2E
	Peer
	Cluster
	Deployment
)

var kindNames = [...]string{"network", "node", "auto", "topology", "metadata", "e2e", "peer", "cluster", "deployment"}

func (k Kind) String() string { return kindNames[k] }

// named says whether there is a layer of this kind for each of many names.
func (k Kind) named() bool { return k != Network && k != Topology && k != Metadata }

// Layer names one layer. Name is a node's (of Node, Auto and Peer), a cluster's (of Cluster and
// Deployment), or that of a file of the controller: "controller", "aggregator", and
// "controller/<replica>" for what of it is a replica's own. The other kinds have no name.
type Layer struct {
	Kind Kind
	Name string
}

// String is the layer as tables and keys have it: "network", "node/<name, escaped>".
func (l Layer) String() string {
	if l.Kind.named() {
		return l.Kind.String() + "/" + Escape(l.Name)
	}
	return l.Kind.String()
}

// MarshalText is String.
func (l Layer) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText is ParseLayer.
func (l *Layer) UnmarshalText(text []byte) error {
	read, err := ParseLayer(string(text))
	if err == nil {
		*l = read
	}
	return err
}

// ParseLayer reads what String spells.
func ParseLayer(s string) (Layer, error) {
	kind, name, hasName := strings.Cut(s, "/")
	for k, known := range kindNames {
		if kind != known || hasName != Kind(k).named() {
			continue
		}
		if !hasName {
			return Layer{Kind: Kind(k)}, nil
		}
		name, err := Unescape(name)
		if err != nil {
			return Layer{}, err
		}
		return Layer{Kind(k), name}, nil
	}
	return Layer{}, fmt.Errorf("layer: invalid value %s: must be network, topology, metadata, node/NAME, auto/NAME, "+
		"e2e/FILE, peer/NAME, "+
		"cluster/NAME or deployment/NAME", config.Quote(s))
}
