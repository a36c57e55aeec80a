// Package schema owns what is known of every field of edgespan's own configuration: its
// metadata and its base layer, which are files of this folder and embedded in every program.
// Validation, defaults and docs/configuration.md are made from them.
//
// It never judges a document: config/layers/metadata and config/nodeconf do.
//
// Read first: schema.go.
package schema
