// Package peer owns what peers and clusters are and what follows from them for each node
// (seed opendut-configuration-state-loop; docs/adr/0020):
//
//   - descriptors: what a person says of a node beside its config (interfaces, executors,
//     underlays: PeerDescriptor) and which nodes are one layer-2 network (ClusterDescriptor),
//     read and checked, all faults at once;
//   - the deployment of a cluster: the numbers that were allocated for its tunnels;
//   - the PeerConfiguration of one node: the complete set of its parameters, derived from
//     descriptors, deployments and its effective config;
//   - the graph of its parameters: what is wrong with it, and in which order they are made
//     and removed.
//
// It never talks to a node or to a store, never judges what a node reported (config/stateloop
// does), and never decides how a parameter is made: the node does.
//
// Read first: descriptor.go, then derive.go.
package peer
