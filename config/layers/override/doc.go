// Package override owns how a layer is written to: the network layer, or the node layers of
// many nodes at once, replaced, merged into, or rid of single keys. It makes every check
// that such a write must pass, and says what the write changes on each node.
//
// It never writes a file or a store, never writes another layer than the one named, and
// never takes a part of a write: all of it passes, or nothing does.
//
// # The checks
//
// Faults come all at once, in this order of groups:
//
//  1. readOnly: a value at or below an entry that is read-only would be added or changed.
//  2. deprecated: the same for a deprecated entry. In both only what the layer did not say
//     before counts: the same value once more, and removing one, pass.
//  3. topology: a node that is named is not in the topology. Without a topology every name
//     is taken.
//  4. request: the layer of a node is no object, a key to remove is not there, the write
//     says nothing, or an object would be replaced by something else.
//  5. clash: an object of one layer would lie under something else of another layer.
//  6. the rules of the metadata (metadata.RuleType, …) and RuleTogether, what
//     the sections (Sections) find wrong between fields.
//
// Groups 5 and 6 look at the effective config that each node would have, by its own base,
// firmware, hardware, auto, network and node layer. A fault that a node had before, at the
// same path, of the same rule and with the same value, is not the write's and does not
// count. A write to the network layer is checked on every node of the world, and by itself
// on each kind: what is of a wrong type is wrong though every node that we know hides it.
// What it lacks, and what does not fit together, counts on nodes only, but for a kind
// without any.
//
// Read first: edit.go, then judge.go.
package override
