// Package hieratree owns the mapping between the files below a node's /etc/hiera and ConfigDB: the resource, and the
// part of it, that each file stands for, by the naming of the seed (fuel-configdb-serialized-facts-api, "Data model")
// or of the task that uploaded them (reference fuel-configdb §4.1), and back; and the differences between files and
// resources.
//
// It never reads or writes a file and never queries ConfigDB: its input is texts by their paths.
//
// Read tree.go first.
package hieratree
