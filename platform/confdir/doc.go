// Package confdir owns the folders and files that layers are kept in: the base, firmware
// and hardware files in the layout of the system behind the seed, and the override files
// of the auto, network and node layers, which it writes whole or not at all.
//
// It never chooses a layer, never merges, and never takes a file that does not parse for
// an empty one.
package confdir
