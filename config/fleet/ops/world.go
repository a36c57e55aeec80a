package ops

import (
	"edgespan/config"
	"edgespan/config/fleet"
	"edgespan/config/fleet/history"
	"edgespan/config/layers"
	"edgespan/config/layers/metadata"
	"edgespan/config/layers/migrate"
)

// World is what operations are judged in. Nobody changes it, nor what it holds, while one
// is judged: who has news makes another World.
type World struct {
	// State is the layers. The change of a Judge is for this state.
	State history.State
	// Hardware is which base, firmware and hardware layers there are, and what boards told.
	Hardware fleet.Hardware
	// Layers gives a kind the documents that its Choice names: base, firmware and hardware of
	// the set, the others nil. Names that are "" ask for nothing. Errors are files that are
	// broken or gone. It is asked once for each kind of one operation, and may be kept by
	// Kind.Name.
	Layers func(fleet.Kind) (layers.Set, error)
	// Nodes are all that are known (of the topology, joined, with an open token), by name.
	Nodes map[string]NodeFact
	// Metadata is the nodes', with what vendors said merged in; nil: no rules.
	Metadata *metadata.Metadata
	// Rules are the metadata of boards that brought more, which an operator has accepted, and Base
	// that of all others: what one board says is no rule for another. Metadata has it all, so that
	// what is secret anywhere is masked everywhere. Base nil: Metadata counts for all.
	Rules map[string]*metadata.Metadata
	Base  *metadata.Metadata
	// E2E is that of the files "controller" and "aggregator".
	E2E map[string]*metadata.Metadata
	// Own judges a change of the controller's own config as the program does that runs by it:
	// faults are what can never work, notes what is stored and does not count. Both documents are
	// in normal form. asked is that somebody wrote this file by itself, rather than brought it
	// along with other layers. nil: metadata alone counts.
	Own func(before, after config.Object, asked bool) (faults config.Faults, notes []string)
	// Migrated is up to which versions the layers were migrated. Import and Migrate go by it.
	Migrated migrate.Done
	// Replica is the controller that judges: the files that it imports and exports are its own.
	Replica string
	// MaskKey keys the digest of what has secrets masked, so that it can't be tried by guesses.
	// It is the fleet's, or digests would differ between replicas.
	MaskKey []byte
	// Ended says why a computation is to end before its time: nobody waits for it any more. nil: nothing ends it.
	Ended func() error
}

// NodeFact is what is known of a node beside its layers.
type NodeFact struct {
	Versions layers.Versions // as it reported last
	Reported bool            // it has reported since it is known
	Alive    bool            // a replica has its stream
	Address  string          // its IP address, without a prefix; "" where nobody knows it
	ID       string          // "" before it has joined
}
