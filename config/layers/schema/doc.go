// Package schema owns the description of every field of edgespan's own configuration: its metadata and its base layer,
// which are files of this folder, embedded in every program. Validation, defaults and docs/configuration.md derive from
// them.
//
// It never validates a document: config/layers/metadata and config/nodeconf do.
//
// Read schema.go first.
package schema
