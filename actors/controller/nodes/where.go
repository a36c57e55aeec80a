package nodes

import (
	"time"

	"edgespan/config/fleet/pace"
	"edgespan/config/fleet/underlay"
)

// whereRule limits how often a node's address may change: if tunnels lead to the node, each change is a revision in the
// history, which is permanent.
var whereRule = pace.Rule{Still: 3 * time.Second, First: time.Minute, Max: time.Hour, Quiet: 6 * time.Hour}

// whereDue checks the address again.
type whereDue struct{}

// located records the address that the node connects from.
func (n *node) located(address string) {
	if address = underlay.Reachable(address); address == "" {
		return
	}
	if known := n.handle.LastAddress(); known != "" {
		n.where.Assume(known)
	}
	n.where.Set(n.d.Now(), address)
	n.locate()
}

// locate publishes the node's address once whereRule accepts it.
func (n *node) locate() {
	address, wait := n.where.Value(n.d.Now(), whereRule)
	n.dueIn(&n.whereDue, wait, whereDue{})
	if n.handle.from(address) {
		n.d.Tell(Located{n.id})
		if n.announced != nil {
			n.own() // publish the new address to the other replicas
		}
	}
}
