// Package examples holds node configs that people read, the demo runs and the tests
// parse. It owns the files and nothing else; it never interprets them.
package examples

import _ "embed"

// Demo is the config of `edgespan demo` (demo.yaml): two apps on one NAT network, and a
// second network that one of them can move to.
//
//go:embed demo.yaml
var Demo []byte
