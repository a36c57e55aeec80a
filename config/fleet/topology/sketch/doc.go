// Package sketch owns generated topologies of networks that do not exist, for simulated nodes: of the kinds in the
// original's files, in any size.
//
// It never reads or changes an existing topology, and takes all randomness from its seed.
//
// Read sketch.go first.
package sketch
