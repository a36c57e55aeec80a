// Package config owns the pure core of configuration: what a node is wished to
// be, before it is known what that means on a host. Its room nodeconf turns one
// effective document into the typed configs of networks, apps and ports.
//
// It never reads a file, a socket or a clock, and it never touches a host.
package config
