// Package bolt is the store of a single controller: one bbolt file with all revisions since the last compaction
// (docs/adr/0016, docs/architecture.md "The store").
//
// It never acknowledges an unsynced write, never decides when to compact, and never shares its file: it holds the
// file's lock from Open to Close.
//
// The buckets of the file, numbers in them big-endian:
//
//	meta      format, id (the store's UUID), compacted, swept, lease (the last id)
//	versions  key 00 revision -> the entry at that revision: version, lease, value; version 0 is a delete
//	history   revision -> the keys that it changed, in order
//	leases    id -> time to live
//	leased    id key -> empty: the keys of a lease
//
// Keys contain no control characters, so the 00 keeps versions in the order of keys.
package bolt
