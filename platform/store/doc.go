// Package store owns the node's data on disk: atomic replacement of files, slots for values written with each push, the
// journal, the node's ID and its boot number (docs/architecture.md, laws 3, 8, 9 and 13; the TargetVersion of seed
// eve-bridge-manager never decreases, so a power failure must not lose it).
//
// It never decides which data to keep and never interprets a value. Acknowledged data is on disk; unreadable data is
// reported and left alone.
//
// Read file.go first (replacing a file), then journal.go and slots.go; buffered.go continues without a disk.
package store
