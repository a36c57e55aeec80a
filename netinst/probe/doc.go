// Package probe chooses the uplinks of one network: which probes it needs, what their outcomes mean, and which port it
// takes (docs/adr/0060-uplinks-by-probing.md; seed eve-bridge-manager, "Bridge manager"). Begin with Chooser.
//
// It never sends a probe, reads a clock or changes a route: outcomes and times arrive as fields of events, and the
// decision is an effect.
package probe
