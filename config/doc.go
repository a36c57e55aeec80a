// Package config owns the pure core of configuration: documents, their reading, their
// canonical form, and how two of them are merged and compared. The rooms below it give
// them a meaning: layers, metadata, edits, rollouts, optimisations, and nodeconf, which
// turns one effective document into the typed configs of networks, apps and ports.
//
// It never reads a file, a socket or a clock, it never touches a host, and it never
// changes a document in place: results share with what they were made of.
//
// Read first: document.go, then merge.go.
package config
