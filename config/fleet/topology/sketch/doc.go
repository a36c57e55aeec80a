// Package sketch owns topologies of networks that nobody has built: of the kinds that the
// files of the original have, in any size, for simulated nodes.
//
// It never reads or changes a topology that somebody has, and draws no chance but from its
// seed.
//
// Read first: sketch.go.
package sketch
