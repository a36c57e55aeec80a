// Package hieratree owns what the files below a node's /etc/hiera are to ConfigDB: which resource, and which part of
// it, each file is, by the naming of the seed (fuel-configdb-serialized-facts-api, "Data model") or by that of the
// task that uploaded them (reference fuel-configdb §4.1), and back; and where files and resources differ.
//
// It never reads or writes a file and never asks ConfigDB: what it is given are texts by their paths.
//
// Read first: tree.go.
package hieratree
