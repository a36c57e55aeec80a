// Package migrate owns the migration of a configuration from one version to the next: the keys that moved, and the new
// values (seed, "Breaking Changes").
//
// It never chooses a version and never writes a file. No version is recorded: the presence of the old key makes a
// migration due, so an old file, from a backup say, is migrated whenever it appears, and no record can be wrong. That
// binds every migration to one law, which a test enforces: a key never changes its meaning. A value whose unit or form
// changes gets a new key, and an old key is never used again.
//
// Read migrate.go first.
package migrate
