// Package metadata owns the file that describes every parameter of the configuration. It expands copy-blocks, compiles
// entries once, checks a config against them, selects the actions of a change, and merges a vendor's metadata.
//
// It never merges layers, never decides permissions, and never carries out an action. The format is the seed's ("Config
// Metadata"); edgespan adds the optional properties strict, secret and default.
//
// Read metadata.go first, then validate.go.
package metadata
