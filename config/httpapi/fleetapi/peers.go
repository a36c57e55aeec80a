package fleetapi

import (
	"context"
	"time"

	"edgespan/config"
)

// Peers is the part of a Backend about peers and clusters (docs/adr/0020). An unknown name is an *ops.NotFoundError.
// Backend.Write writes descriptors: ops.Describe, Undescribe, Deploy, Undeploy.
type Peers interface {
	// Peers returns all nodes that have a descriptor or have joined, by name.
	Peers(ctx context.Context) ([]Peer, error)
	Peer(ctx context.Context, name string) (PeerDetail, error)
	Clusters(ctx context.Context) ([]Cluster, error)
	Cluster(ctx context.Context, name string) (ClusterDetail, error)
	// Changed waits until the results of Peers or Clusters may have changed since a mark, or ctx ends, and returns the
	// next mark. The first mark is 0, which returns at once. ErrBusy means that the controller is shutting down.
	Changed(ctx context.Context, mark uint64) (next uint64, err error)
}

// Peer is the summary of one peer (the seed's PeerStatusReport).
type Peer struct {
	Name       string         `json:"name"`
	ID         string         `json:"id,omitempty"` // "" before it has joined
	Described  bool           `json:"described"`    // it has a descriptor
	Clusters   []string       `json:"clusters"`     // the deployed ones that it is a member of
	Online     bool           `json:"online"`
	Health     string         `json:"health"` // green, yellow, red, unknown
	Ready      bool           `json:"ready"`
	Why        string         `json:"why,omitempty"` // why it is not ready, or not green
	Counts     map[string]int `json:"counts"`        // parameters by state
	Desired    string         `json:"wanted,omitempty"`
	Applied    string         `json:"applied,omitempty"` // the generation that it reports as fully applied
	LastReport *time.Time     `json:"lastReport,omitempty"`
	AgeSeconds *float64       `json:"ageSeconds,omitempty"` // of the last report
}

// PeerDetail is everything known about one peer.
type PeerDetail struct {
	Peer
	Descriptor config.Object   `json:"descriptor,omitempty"`
	Revision   uint64          `json:"revision,omitempty"` // that wrote the descriptor last
	Parameters []PeerParameter `json:"parameters"`         // by id
	Ignored    []PeerParameter `json:"ignored"`            // reported by the node and not desired
}

// PeerParameter is one parameter: its target, its state according to the node's reports, and why.
type PeerParameter struct {
	ID           string     `json:"id"`
	Kind         string     `json:"kind,omitempty"`
	Target       string     `json:"target,omitempty"` // present, absent
	State        string     `json:"state"`
	Reported     string     `json:"reported,omitempty"` // the state that the node reported last; "" for none
	Review       string     `json:"review"`             // no, maybe, yes
	Reason       string     `json:"reason,omitempty"`
	Since        *time.Time `json:"since,omitempty"`
	Dependencies []string   `json:"dependencies,omitempty"`
	Attempts     int        `json:"attempts,omitempty"`  // failed ones in a row
	NextTry      *time.Time `json:"nextTry,omitempty"`   // of the node
	Describes    string     `json:"describes,omitempty"` // its value, for people: "vxlan 256 192.0.2.1 > 192.0.2.2"
}

// Cluster is the summary of one cluster (the seed's ClusterStatus).
type Cluster struct {
	Name     string   `json:"name"`
	ID       string   `json:"id"`
	Leader   string   `json:"leader"`
	Topology string   `json:"topology"`
	Members  []string `json:"members"`
	Deployed bool     `json:"deployed"`
	State    string   `json:"state"`  // undeployed, deploying, deployed, undeploying
	Health   string   `json:"health"` // the worst of its members; unknown while undeployed
	Ready    bool     `json:"ready"`
	Why      string   `json:"why,omitempty"`
}

// ClusterDetail is everything known about one cluster.
type ClusterDetail struct {
	Cluster
	Descriptor config.Object `json:"descriptor"`
	Revision   uint64        `json:"revision"`
	Peers      []Peer        `json:"peers"` // its members
	Tunnels    []Tunnel      `json:"tunnels"`
}

// Tunnel is one tunnel of a deployed cluster.
type Tunnel struct {
	Between [2]string `json:"between"` // names, sorted
	VNI     uint32    `json:"vni"`
	States  [2]string `json:"states"` // at both ends, in the order of Between
	Reason  string    `json:"reason,omitempty"`
}
