package ledger

import (
	"edgespan/config/facts"
	"edgespan/config/revision"
)

// State is all that the facts are at one revision of them, but for content and older versions: which
// components, definitions, environments, levels and nodes there are, and the newest version of each record.
// Nobody changes it, however long it is kept; the next one shares with it what did not change.
type State struct{}

// Load reads the state from the store. It lists, all as of one revision of the store, what it needs; a
// store that was compacted meanwhile answers revision.ErrCompacted: load again.
func Load(r Reader) (*State, error) { panic("soon") }

// Below is what Follow wants to see of the store: watch it after Seen.
const Below revision.Prefix = "facts/"

// Seen is the revision of the store up to which the state has seen everything.
func (s *State) Seen() revision.Revision { panic("soon") }

// Head is the revision of the store that wrote HeadKey() as the state knows it; 0: never written. A state
// is as new as every acknowledged write if the store says the same of the key now, and Unfinished says nothing against it.
func (s *State) Head() revision.Revision { panic("soon") }

// HeadKey is where all writes of the facts meet.
func HeadKey() revision.Key { return "facts/head" }

// Revision is that of the facts: it counts their writes.
func (s *State) Revision() uint64 { panic("soon") }

// Follow is the state after what one transaction of the store changed below Below, whoever wrote it. Batches come in
// their order; one that a state has from its own Plan already does no harm.
func (s *State) Follow(b revision.Batch) (*State, error) { panic("soon") }

// RecordOf is the record of a revision that an event of the store wrote, if it is one.
func RecordOf(e revision.Event) (Record, bool, error) { panic("soon") }

// Unfinished says that the newest write is too large for a transaction and not in its place yet. Everybody sees it already;
// Plan answers with the transactions of Forward before anything else.
func (s *State) Unfinished() bool { panic("soon") }

// Forward are the transactions that bring the newest write into its place, if Unfinished, to be
// carried out in their order until one does not succeed: then somebody else was faster, follow the store.
func (s *State) Forward() []revision.Txn { panic("soon") }

// Components are all, by their ids. Content is read.
func (s *State) Components(b Blobs) ([]Component, error) { panic("soon") }

func (s *State) Component(id int64, b Blobs) (Component, error) { panic("soon") }

// Definitions are all by their ids, or those of one component (*component nil: of none).
func (s *State) Definitions(component **int64, b Blobs) ([]Definition, error) { panic("soon") }

func (s *State) Definition(id int64, b Blobs) (Definition, error) { panic("soon") }

// Secrets are the declared keys of a definition.
func (s *State) Secrets(id int64) ([]string, error) { panic("soon") }

func (s *State) Environments() []Environment { panic("soon") }

func (s *State) Environment(id int64) (Environment, error) { panic("soon") }

func (s *State) Levels(environment int64) ([]Level, error) { panic("soon") }

func (s *State) Level(environment int64, level Ref) (Level, error) { panic("soon") }

func (s *State) Nodes(environment int64) ([]Node, error) { panic("soon") }

// Node finds a node by any of its names.
func (s *State) Node(environment int64, name string) (Node, error) { panic("soon") }

// ResolveResource is the definition that a name or an id means in an environment.
func (s *State) ResolveResource(environment int64, r Ref, b Blobs) (Definition, error) {
	panic("soon")
}

// Chain finds what an answer to a query is made of. It reads the store only for a version or a revision that is not the newest.
func (s *State) Chain(q Query, r Reader) (*Chain, error) { panic("soon") }

// Chain is what one answer is made of: contents in their order, and how they become one.
type Chain struct{}

// ETag names what the answer is made of, with quotes: the same on each replica and after a restart.
func (c *Chain) ETag() string { panic("soon") }

// Answer computes the answer. Its faults are of kind Conflict: a key that is missing, a template with a cycle.
func (c *Chain) Answer(b Blobs) (Answer, error) { panic("soon") }

// Unmodified is the answer without a body.
func (c *Chain) Unmodified() Answer { panic("soon") }

// Keys is keys/get on what the chain answers.
func (c *Chain) Keys(b Blobs, edit facts.KeysEdit) (Answer, error) { panic("soon") }

// Hiera finds what lookups are made of.
func (s *State) Hiera(q HieraQuery) (*Hiera, error) { panic("soon") }

// Hiera is what the answer to lookups is made of.
type Hiera struct{}

func (h *Hiera) ETag() string                   { panic("soon") }
func (h *Hiera) Unmodified() Answer             { panic("soon") }
func (h *Hiera) Answer(b Blobs) (Answer, error) { panic("soon") }

// Versions are those of a half of a record, the newest first.
func (s *State) Versions(q VersionsQuery, r Reader) ([]Version, error) { panic("soon") }

// Records are revisions of the facts, the newest first.
func (s *State) Records(q RecordsQuery, r Reader) ([]Record, error) { panic("soon") }
