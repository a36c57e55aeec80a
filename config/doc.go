// Package config owns the pure core of configuration: documents, their parsing, their canonical form, and how two of
// them are merged and compared. The packages below it give documents a meaning: layers, metadata, edits, rollouts,
// optimisations, and nodeconf, which turns one effective document into the typed configs of networks, apps and ports.
//
// It never reads a file, a socket or a clock, never touches a host, and never changes a document in place: a result
// shares memory with its inputs.
//
// Read document.go first, then merge.go.
package config
