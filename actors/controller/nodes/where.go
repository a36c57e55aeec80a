package nodes

import (
	"time"

	"edgespan/config/fleet/pace"
	"edgespan/config/fleet/underlay"
)

// whereRule limits how often a node's address may change: if tunnels lead to the node, each change is a revision in the
// history, which is permanent.
var whereRule = pace.DebounceRule{Still: 3 * time.Second, First: time.Minute, Max: time.Hour, Quiet: 6 * time.Hour}

// whereDue checks the address again.
type whereDue struct{}

// handleAddress records the address that the node connects from.
func (n *node) handleAddress(address string) {
	if address = underlay.ReachableAddress(address); address == "" {
		return
	}
	if known := n.handle.LastAddress(); known != "" {
		n.where.Assume(known)
	}
	n.where.Set(n.d.Now(), address)
	n.publishAddress()
}

// publishAddress publishes the node's address once whereRule accepts it.
func (n *node) publishAddress() {
	address, wait := n.where.Value(n.d.Now(), whereRule)
	n.scheduleOnce(&n.whereDue, wait, whereDue{})
	if n.handle.setAddress(address) {
		n.d.Notify(Located{n.id})
		if n.announced != nil {
			n.announceOwnership() // publish the new address to the other replicas
		}
	}
}
