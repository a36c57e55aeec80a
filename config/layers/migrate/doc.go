// Package migrate owns the way of a configuration from one version to the next: which keys
// moved, and what becomes of their values (seed, "Breaking Changes").
//
// It never chooses a version and never writes a file. No version is recorded anywhere: a
// migration sees by the old key that it is due, so a file from a backup or an old hand is
// migrated whenever it turns up, and no record can be wrong. That binds every migration to
// one law, which a test holds: a key never changes its meaning. A value whose unit or form
// changes gets a new key, and an old key is never used again.
//
// Read first: migrate.go.
package migrate
