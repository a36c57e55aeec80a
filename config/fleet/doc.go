// Package fleet owns the controller's judgement of the nodes that it configures: which of
// them needs a push, what is pushed, when, and why not (seed
// terragraph-configuration-management, sections Syncing Configuration and
// Interoperability; reference terragraph-config §1.13, §1.15).
//
//   - Node is the machine of one node. Step takes an event and answers with effects;
//     Explain says why the node is as it is, what happens next and when.
//   - Memory is what of it has to survive the controller: the last push, the configs that
//     failed, adoption. It is plain data, and Save asks for it to be stored.
//   - Fleet knows the wanted configs of all nodes and answers each change with the nodes
//     whose own config it touches; nobody else hears of it.
//   - Queries keeps the limits of asking nodes of unknown hardware.
//   - Generation names one wanted config of one node.
//
// It never talks to a node or the store, never reads a clock (the time comes with each
// event) and never looks into a config, save for sysParams.managedConfig and for what a
// first push would remove.
//
// Read first: event.go, then step.go.
package fleet
