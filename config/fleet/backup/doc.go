// Package backup owns the form of a backup of the controller's store, what makes one whole,
// and in which transactions it comes back (docs/adr/0019).
//
// It never opens a file or a store: it reads through a history.Reader, writes to an
// io.Writer, and a restore is transactions that somebody else carries out, in order. It has
// no clock.
//
// # The form
//
// One line of JSON each: a Header, every key, and a last line with the count of the keys and
// the SHA-256 of all bytes before it. The keys are all those of one revision of the store,
// but the ones that hang on a lease: who has which stream, what is asked of whom, who leads.
// They are what processes say of themselves, and no process outlives its store.
//
// # A restore
//
// It goes into an empty store. The first transaction puts the key "restoring", the last one
// removes it, and all between compare it. While it is there no controller starts; a restore
// that was interrupted is run again, and begins by removing what the first one wrote.
//
// A restored store is another authority of generations. What that means for values is here:
//
//   - generations/<uuid> become the first ones of the new store, for the same config. Nodes
//     that run it get a number, all others the config; none has heard of such a generation.
//   - pushes/<uuid> go on with numbers that nobody has seen, as those after the backup may
//     have been used.
//   - the barrier of an aborted rollout is a revision of the store, and becomes the one up to
//     which the same keys are written. To that end keys are written in the order of the
//     revisions that they had, and no two on different sides of a rollout in one transaction.
//
// Read first: form.go, then restore.go.
package backup
