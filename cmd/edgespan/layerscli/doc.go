// Package layerscli is the commands `layers` and `state`: configuration layers computed,
// checked, compared, changed and explained offline, on files, and a peer's state derived from
// what was wanted and reported.
//
// It never asks a daemon or a controller, and never decides what a layer means: config/layers
// and the packages beside it do. How a file of layers and KEY=VALUE on a command line are read
// stands here; the commands of a controller read them the same way.
//
// Read first: commands.go, then select.go and set.go.
package layerscli
