// Package lint owns the check of what belongs together before it is shipped: metadata, and
// the base, firmware and hardware files that it describes (seed, "New Configuration
// Fields": each field has a definition, metadata and a default).
//
// It never reads a file and never judges a user's layer: config/layers/metadata does that.
//
// Read first: lint.go.
package lint
