// Package lint owns the check of metadata together with the base, firmware and hardware files that it describes, before
// they are shipped (seed, "New Configuration Fields": each field has a definition, metadata and a default).
//
// It never reads a file and never validates a user's layer: config/layers/metadata does that.
//
// Read lint.go first.
package lint
