// Package arch holds the laws of the source tree as tests (docs/architecture.md, laws 1 and 2): which package may
// import which, what a pure package may not use, how long a file may be, and that documents name only what exists.
//
// It never checks behaviour, and nothing imports it.
package arch
