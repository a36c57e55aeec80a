// Package doctor lists the problems of a node, each with a command that fixes it. It owns the checks; each is a
// function of facts.
//
// It never inspects a machine and never repairs anything.
//
// Read doctor.go first.
package doctor
