// Package layerscli implements the commands `layers` and `state`. They compute, check, compare, change and explain
// configuration layers offline, on files, and derive a peer's state from a desired and a reported document.
//
// It never asks a daemon or a controller, and never decides what a layer means: config/layers and the packages next to
// it do. The package also parses files of layers and KEY=VALUE arguments for the commands that ask a controller.
//
// Read first: commands.go, then select.go and set.go.
package layerscli
