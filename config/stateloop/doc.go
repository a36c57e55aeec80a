// Package stateloop owns the derivation of the state of a node's declared parameters. It compares the controller's
// target of each parameter (present or absent) with the node's report and derives one of the states of the seed
// opendut-configuration-state-loop, and whether a user should look at it. It also lists the parameters that a config
// declares, orders them by their dependencies (Graph), summarises a node and a cluster for people (PeerStatusReport,
// ClusterStatus), and reads the files of the offline derivation.
//
// Derive is a total function: for every target, or none, and every report, or none, there is one answer, which
// state-table.json lists. Where the seed's tables have no row, the answer is:
//
//   - An error about the opposite of the target (RemovingFailed for the target present, say) is from before the target
//     changed: the state is Creating or Removing, and the reason is the error behind "stale report: ".
//   - A report that answers the config of another generation gives the same cell. The parameter is not ready, and its
//     reason begins with "stale report: ".
//   - A node that reports Creating or Removing is on its way to the target.
//   - An unknown word counts as a failed check.
//   - A parameter that a config declared before and the node still reports has the target absent (Removed): its state
//     is Removing or RemovingFailed until the node stops reporting it.
//   - WaitingForDependencies of a parameter that is not in the config is ignored and needs no review.
//   - Of two reports about one parameter the newer counts, of two with the same time the worse, then the one whose
//     message has the later bytes.
//   - A state has the time of the report that it follows from; without such a report it has the time when the config
//     became the desired one.
//   - A node without parameters is ready.
//
// It never talks to a node, never decides which parameters are desired, and has no clock.
//
// Read derive.go first, then declare.go.
package stateloop
