package nodes

import (
	"time"

	"edgespan/config/fleet/pace"
	"edgespan/config/fleet/underlay"
)

// whereRule is how often the address of a node may change: where tunnels lead to it that is a
// revision of the history, which stays for ever.
var whereRule = pace.Rule{Still: 3 * time.Second, First: time.Minute, Max: time.Hour, Quiet: 6 * time.Hour}

// whereDue is to look at the address again.
type whereDue struct{}

// located notes where the node comes from.
func (n *node) located(address string) {
	if address = underlay.Reachable(address); address == "" {
		return
	}
	if known := n.handle.Whereabouts(); known != "" {
		n.where.Assume(known)
	}
	n.where.Say(n.d.Now(), address)
	n.locate()
}

// locate tells where the node is, once that counts.
func (n *node) locate() {
	address, wait := n.where.Value(n.d.Now(), whereRule)
	n.dueIn(&n.whereDue, wait, whereDue{})
	if n.handle.from(address) {
		n.d.Tell(Located{n.id})
		if n.announced != nil {
			n.own() // the others were told of another one
		}
	}
}
