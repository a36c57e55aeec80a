// Package bolt owns the store of a controller that is alone: one bbolt file with
// all revisions since the last compaction (docs/adr/0016, docs/architecture.md
// "The store").
//
// It never acknowledges what is not synced, never decides when to compact, and
// never shares its file: the lock on it is held from Open to Close.
//
// The buckets of the file, numbers in them big-endian:
//
//	meta      format, id (the store's UUID), compacted, swept, lease (the last id)
//	versions  key 00 revision -> what the key became: version, lease, value; version 0 is a delete
//	history   revision -> the keys that it changed, in order
//	leases    id -> time to live
//	leased    id key -> nothing: the keys that hang on a lease
//
// Keys hold no control character, so the 00 keeps versions in the order of keys.
package bolt
