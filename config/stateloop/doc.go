// Package stateloop owns the derivation of the state of a node's declared parameters: what the
// controller wants of each (present or absent) beside what the node reported of it becomes
// one of the states of the seed opendut-configuration-state-loop, and whether somebody
// should look. It also says which parameters a config declares, what the dependencies of a
// set of parameters come to (Graph), what a person is shown of a node and of a cluster
// (PeerStatusReport, ClusterStatus), and reads the files of the offline derivation.
//
// Derive is a total function: for every target, or none, and every report, or none, there
// is one answer, which state-table.json has. Where the seed's tables have no row, the answer is:
//
//   - An error about the opposite of the target (RemovingFailed of what is to be present,
//     say) is from before the target changed: Creating or Removing, and the reason is the error
//     behind "stale report: ".
//   - What answers the config of another generation gives the same cell. It is not ready, and
//     its reason begins with "stale report: ".
//   - A node that is at it itself (Creating, Removing) is on its way to the target.
//   - A word that is not known is a check that failed.
//   - What a config declared before and the node still reports is to be absent (Removed): it is
//     Removing, or RemovingFailed, until the node reports it no more.
//   - WaitingForDependencies of a parameter that is not in the config is ignored, and no
//     matter for review.
//   - Of two reports about one parameter the newer counts, of one time the worse, then the one
//     whose message has the later bytes.
//   - A state dates from the report that it follows from; where there is none that counts,
//     from when the config became the wanted one.
//   - No parameters at all are ready.
//
// It never talks to a node, never decides what is wanted and has no clock.
//
// Read first: derive.go, then declare.go.
package stateloop
