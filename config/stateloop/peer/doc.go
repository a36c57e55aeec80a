// Package peer owns peers and clusters and the parameters that follow from them for each node (seed
// opendut-configuration-state-loop; docs/adr/0020):
//
//   - descriptors: a node's settings outside its config (interfaces, executors, underlays: PeerDescriptor) and the
//     nodes that form one layer-2 network (ClusterDescriptor), parsed and checked, with all faults at once;
//   - the deployment of a cluster: the numbers that were allocated for its tunnels;
//   - the PeerConfiguration of one node: the complete set of its parameters, derived from descriptors, deployments and
//     its effective config;
//   - the graph of its parameters: its faults, and the order of creation and removal.
//
// It never talks to a node or to a store, never evaluates a node's report (config/stateloop does), and never decides
// how a parameter is created: the node does.
//
// Read descriptor.go first, then derive.go.
package peer
