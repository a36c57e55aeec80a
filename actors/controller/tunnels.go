package controller

import (
	"maps"
	"slices"
	"time"

	"edgespan/actors/controller/rollouts"
	"edgespan/config"
	"edgespan/config/fleet/history"
	"edgespan/config/fleet/ops"
)

// tunnelGather is how long the fleet collects changed node addresses before it writes them to the tunnels that lead
// there: after a restart all nodes connect within seconds.
const tunnelGather = time.Second

// tunnelConfig is where a node's layer has its tunnels.
const tunnelConfig = "tunnelConfig"

type (
	// tunnelsDue ends the collection.
	tunnelsDue struct{}
)

// queueLocations collects nodes whose address changed.
func (a *fleetActor) queueLocations(ids ...string) {
	if a.d.Offline {
		return
	}
	if a.located == nil {
		a.located = map[string]bool{}
		a.d.After(tunnelGather, func() { a.d.Send(a.self, tunnelsDue{}) })
	}
	for _, id := range ids {
		a.located[id] = true
	}
}

// writeTunnelAddresses writes the addresses of the collected nodes into the tunnels that lead to them.
func (a *fleetActor) writeTunnelAddresses() {
	names := map[string]bool{}
	for id := range a.located {
		if m, ok := a.members[id]; ok {
			names[m.Name] = true
		}
	}
	ends := map[string]bool{}
	for _, own := range a.own {
		all, _ := own[tunnelConfig].(config.Object)
		for _, v := range all {
			tunnel, _ := v.(config.Object)
			if dst, ok := tunnel["dstNodeName"].(string); ok && names[dst] {
				ends[dst] = true
			}
		}
	}
	if len(ends) > 0 && a.d.MustWait(&a.d.waitTunnels) {
		a.d.After(rollouts.WaitCheck, func() { a.d.Send(a.self, tunnelsDue{}) })
		return
	}
	a.located = nil
	if len(ends) > 0 {
		changed := slices.Sorted(maps.Keys(ends))
		a.d.Leaf("tunnels", func() {
			a.d.setAuto("addresses of tunnels",
				func(w *ops.Snapshot) (ops.SetAuto, bool, error) { return w.TunnelAddresses(changed...) })
		})
	}
}

// queueTunnels collects the destinations of changed tunnels: imports and restores do not update their addresses as
// writes of overrides do.
func (a *fleetActor) queueTunnels(diffs []history.LayerDiff) {
	for _, d := range diffs {
		if d.Layer.Kind != history.Node || !slices.ContainsFunc(d.Values,
			func(v history.ValueDiff) bool { return len(v.Path) == 0 || v.Path[0] == tunnelConfig }) {
			continue
		}
		all, _ := d.After.Document[tunnelConfig].(config.Object)
		for _, v := range all {
			tunnel, _ := v.(config.Object)
			if dst, ok := tunnel["dstNodeName"].(string); ok && a.ids[dst] != "" {
				a.queueLocations(a.ids[dst])
			}
		}
	}
}
