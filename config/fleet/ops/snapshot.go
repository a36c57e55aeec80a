package ops

import (
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/migrate"
)

// Snapshot is the context in which operations are validated. It and its contents are immutable: a change makes a new
// Snapshot.
type Snapshot struct {
	// State holds the layers. The change of an Outcome applies to this state.
	State history.State
	// Hardware lists the base, firmware and hardware layers, and the configs reported by boards.
	Hardware fleet.Hardware
	// Layers returns the documents of a kind's Choice: base, firmware and hardware of the set, the others nil. The name
	// "" means no layer. Its error is a broken or missing file. An operation calls it once per kind, and it may cache
	// by Kind.Name.
	Layers func(fleet.Kind) (layers.Set, error)
	// Nodes holds all known nodes (in the topology, joined, or with an open token), by name.
	Nodes map[string]NodeFact
	// Metadata is the metadata of nodes, with the vendors' merged in; nil: no rules.
	Metadata *metadata.Metadata
	// Rules holds the metadata of boards with accepted metadata of their own, and Base that of all others: one board's
	// metadata does not apply to another. Metadata merges all of it, so that a value that is secret anywhere is masked
	// everywhere. If Base is nil, Metadata applies to all.
	Rules map[string]*metadata.Metadata
	Base  *metadata.Metadata
	// E2E holds the metadata of the files "controller" and "aggregator".
	E2E map[string]*metadata.Metadata
	// Own validates a change of the controller's own config as the running program does: faults are values that can
	// never work, notes are values that are stored without effect. Both documents are in normal form. asked is true if
	// a user wrote this file alone, rather than together with other layers. nil: only metadata applies.
	Own func(before, after config.Object, asked bool) (faults config.Faults, notes []string)
	// Migrated holds the versions to which the layers were migrated, for Import and Migrate.
	Migrated migrate.Done
	// Replica is this controller: it imports and exports its own files.
	Replica string
	// MaskKey keys the digest of documents with masked secrets, so that a reader can't verify guesses. It is the
	// fleet's key, so that digests agree between replicas.
	MaskKey []byte
	// Ended returns an error if a computation should stop because its caller has gone. nil: computations run to their end.
	Ended func() error
}

// NodeFact holds the facts about a node that are not in its layers.
type NodeFact struct {
	Versions layers.Versions // as reported last
	Reported bool            // it has reported since it became known
	Alive    bool            // a replica has its stream
	Address  string          // its IP address without a prefix; "" if unknown
	ID       string          // "" before it has joined
}
