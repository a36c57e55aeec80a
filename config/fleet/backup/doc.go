// Package backup owns the format of a backup of the controller's store, its completeness checks, and the transactions
// that restore it (docs/adr/0019).
//
// It never opens a file or a store: it reads through a history.Reader and writes to an io.Writer, and a restore is a
// sequence of transactions that the caller executes. It has no clock.
//
// # The format
//
// One JSON object a line: a Header, every key, and a last line with the number of keys and the SHA-256 of all bytes
// before it. The keys are all keys of one revision of the store, except those with a lease: streams, requests and
// leadership. Processes write these about themselves, and no process outlives its store.
//
// # A restore
//
// A restore needs an empty store. The first transaction writes the key "restoring", the last one removes it, and all
// transactions between compare it. While it exists no controller starts; an interrupted restore is run again, and
// begins by removing what the first run wrote.
//
// A restored store is another authority of generations. This changes some values:
//
//   - generations/<uuid> become the first ones of the new store, for the same config. Nodes that run it get the number,
//     all others the config; no node has seen such a generation.
//   - pushes/<uuid> continue with numbers that no node has seen, because the numbers after the backup may have been
//     used.
//   - the barrier of an aborted rollout is a revision of the store: it becomes the revision up to which the same keys
//     are written. For that, keys are written in the order of their revisions, and no transaction contains keys from
//     both sides of a rollout.
//
// Read first: form.go, then restore.go.
package backup
