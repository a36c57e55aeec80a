// Package nodeconf owns the meaning of one effective node configuration: the
// schema as one data table, the reading of YAML and JSON, and every check that
// can be made without a host.
//
// It never merges layers, reads a file, or looks at a host, and it never hands
// out a half-checked Config: a document is taken whole or refused with all of
// its faults.
//
// Read first: nodeconf.go, then table.go, the schema.
package nodeconf
