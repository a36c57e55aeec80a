// Package fleet owns the controller's decisions about the nodes that it configures: which node needs a push, what is
// pushed, when, and why not (seed terragraph-configuration-management, sections Syncing Configuration and
// Interoperability; reference terragraph-config §1.13, §1.15).
//
//   - Node is the state machine of one node. Step takes an event and returns effects; Explain says why the node is in
//     its state, what happens next and when.
//   - Memory is the part of a Node that survives a restart of the controller: the last push, the configs that failed,
//     adoption. It is plain data; the effect Save asks the caller to store it.
//   - Fleet knows the desired configs of all nodes and answers each change with the nodes whose own config it affects;
//     no other node gets an event.
//   - Queries limits how often nodes of unknown hardware are queried.
//   - Generation numbers the desired configs of one node.
//
// It never talks to a node or the store, never reads a clock (each event comes with its time) and never looks into a
// config, except for sysParams.managedConfig and for the objects that a first push would remove.
//
// Read first: event.go, then step.go.
package fleet
