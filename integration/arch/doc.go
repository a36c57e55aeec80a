// Package arch holds the laws of the source tree as tests (docs/architecture.md, laws 1 and 2):
// which room may import which, what a pure room may not touch, how long a file may be,
// and that the documents name only what exists.
//
// It never looks at behaviour, and nothing imports it.
package arch
