// Package nodeconf owns the meaning of one effective node configuration: the schema as one data table, the parsing of
// YAML and JSON, and every check that needs no host.
//
// It never merges layers, reads a file or looks at a host, and it never returns a half-checked Config: it accepts a
// document as a whole or rejects it with all of its faults.
//
// Read nodeconf.go first, then table.go, the schema.
package nodeconf
