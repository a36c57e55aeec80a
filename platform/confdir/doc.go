// Package confdir reads and writes the files of layers: the base, firmware and hardware files in the layout of the
// seed's system, and the override files of the auto, network and node layers, which it replaces atomically.
//
// It never chooses a layer, never merges, and never treats a file that does not parse as empty.
package confdir
