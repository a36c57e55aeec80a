// Package stateloop owns the derivation of the state of a node's declared parameters. It compares the controller's
// target of each parameter (present or absent) with the node's report and derives one of the states of the seed (a
// requirements document, see docs/seeds.md) opendut-configuration-state-loop, and whether a user should look at it. It
// also lists the parameters that a config declares, orders them by their dependencies (Graph), summarises a node and a
// cluster for people (PeerStatusReport, ClusterStatus), and reads the two files that `edgespan layers state derive`
// compares without a controller.
//
// A peer is a node as a member of clusters, and a cluster is a set of peers joined by tunnels (docs/peers.md). The
// names EdgePeerConfigurationState (reported) and PeerConfigurationState (derived) are the seed's.
//
// Derive is a total function: for every target, or none, and every report, or none, there is one answer, a row of
// state-table.json. It also decides what the seed's tables leave open:
//
//   - An error about the opposite of the target (RemovingFailed for the target present, say) is from before the target
//     changed: the state is Creating or Removing, and the reason is "stale report: " followed by the error.
//   - A report that answers the config of another generation gives the state that it would give if it answered the
//     desired one. The parameter is not ready, and its reason begins with "stale report: ".
//   - A node that reports Creating or Removing is on its way to the target.
//   - An unknown reported state counts as a failed check.
//   - A report about a parameter that is not in the Config is Ignored; its review is in the table, and
//     WaitingForDependencies needs none. To have a network or adapter that is not declared removed instead, the
//     controller adds it to the Config first, with the target absent (RemovedParameters).
//   - Of two reports about one parameter the newer counts; of two with the same time, the worse; of two equally bad
//     ones, the one whose message sorts last.
//   - A state has the time of the report that it follows from; without such a report it has the time when the config
//     became the desired one.
//   - A node without parameters is ready.
//
// It never talks to a node, never changes a config, and has no clock.
//
// Read derive.go first, then declare.go.
package stateloop
