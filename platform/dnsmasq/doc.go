// Package dnsmasq starts, reloads, replaces and stops the long-running helper of a
// network instance, which is dnsmasq, and asks it whether it works.
//
// It never writes a configuration and never knows what one means; it signals only
// processes that it started itself, also in an earlier life.
package dnsmasq
