// Package dnsmasq starts, reloads, replaces and stops the helper process of a network instance, which is dnsmasq, and
// checks that it works.
//
// It never writes or interprets a configuration. It signals only processes that it started itself, possibly in an
// earlier run of the daemon.
package dnsmasq
