// Package doctor judges what is in the way of a node, and names a command that mends
// it. It owns the checks; each is a function over facts.
//
// It never looks at a machine and never mends anything.
//
// Read first: doctor.go.
package doctor
