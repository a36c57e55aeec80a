// Package bisect finds the revision with which the health of a node went bad: which revisions change the node's config,
// which one to test next, what a test shows, and when the canary goes back to what it should have.
//
// A Record is one search and all that survives a restart; it is stored under the canary's id after each Step that
// changes it. While it has a Pin, the controller desires the config of that revision on the canary and never confirms
// it, so the node undoes it by itself if the controller falls silent.
//
// The package never pushes, stores or reads anything, and never reads a clock. A Record grows with the revisions that
// change the node, so their number is bounded (MaxCandidates).
//
// Read record.go first, then step.go.
package bisect
