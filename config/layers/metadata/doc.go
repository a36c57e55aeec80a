// Package metadata owns what is known about configuration: the file that describes every
// parameter. It expands copy-blocks, compiles entries once, checks a config against them,
// says which actions a change takes, and merges a vendor's metadata into ours.
//
// It never merges layers, never decides who may write what, and never carries an action out.
// The format is the seed's ("Config Metadata"); of our own are the optional properties
// strict, secret and default.
//
// Read first: metadata.go, then validate.go.
package metadata
