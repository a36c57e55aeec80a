// Package override owns writes to a layer: the network layer, or the node layers of many nodes at once, replaced,
// merged into, or with single keys removed. It makes every check that such a write must pass, and returns the changes
// on each node.
//
// It never writes a file or a store, never writes another layer than the one named, and never accepts a part of a
// write: all of it passes, or nothing does.
//
// # The checks
//
// All faults are reported at once, in this order of groups:
//
//  1. readOnly: the write would add or change a value at or below a read-only entry.
//  2. deprecated: the same for a deprecated entry. In both groups only new values count: repeating the present value,
//     or removing one, passes.
//  3. topology: a named node is not in the topology. Without a topology every name is accepted.
//  4. request: the layer of a node is not an object, a key to remove does not exist, the write is empty, or it would
//     replace an object by another type.
//  5. clash: a value of another type in one layer would replace an object of a lower layer.
//  6. the rules of the metadata (metadata.RuleType, …) and RuleTogether, the faults that the sections (Sections) find
//     between fields.
//
// Groups 5 and 6 check the effective config that each node would have, by its own base, firmware, hardware, auto,
// network and node layer. A fault that a node had before, at the same path, of the same rule and with the same value,
// does not count against the write. A write to the network layer is checked on every node of the inputs, and separately
// on each kind: a value of a wrong type is a fault even if every known node overrides it. Missing values and faults
// between fields count on nodes only, except for a kind without nodes.
//
// Read edit.go first, then validate.go.
package override
