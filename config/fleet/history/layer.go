package history

import (
	"fmt"
	"strings"

	"edgespan/config"
)

// Kind is the kind of a layer.
type Kind int

// The kinds of layers with a history. Base, firmware and hardware layers have none: they are files on the controller or
// learnt from a node.
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

// hasName reports whether layers of this kind have a name.
func (k Kind) hasName() bool { return k != Network && k != Topology && k != Metadata }

// Layer identifies one layer. Name is that of a node (Node, Auto and Peer), of a cluster (Cluster and Deployment), or
// of a file of the controller: "controller", "aggregator", and "controller/<replica>" for the part of one replica. The
// other kinds have no name.
type Layer struct {
	Kind Kind
	Name string
}

// String returns the layer as tables and keys show it: "network", "node/<name, escaped>".
func (l Layer) String() string {
	if l.Kind.hasName() {
		return l.Kind.String() + "/" + Escape(l.Name)
	}
	return l.Kind.String()
}

// MarshalText returns the text of String.
func (l Layer) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText parses like ParseLayer.
func (l *Layer) UnmarshalText(text []byte) error {
	read, err := ParseLayer(string(text))
	if err == nil {
		*l = read
	}
	return err
}

// ParseLayer parses the output of String.
func ParseLayer(s string) (Layer, error) {
	kind, name, hasName := strings.Cut(s, "/")
	for k, known := range kindNames {
		if kind != known || hasName != Kind(k).hasName() {
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
