package netinst

import (
	"fmt"

	"edgespan/netinst/netstate"
)

// The names of what we make on a host (docs/architecture.md, law 3). n is the network
// instance's number of 1 to MaxNumber, k the adapter's number on that network.
const (
	MaxNumber      = 999
	tableBase      = 20000
	ruleFromBase   = 20000
	ruleToBase     = 21000
	ruleDNSBase    = 22000
	linkPrefix     = "es"
	chainPrefix    = "ES"
	aliasPrefix    = "edgespan ni "
	maxAdapterNums = 9999
)

// BridgeName is the bridge of network n.
func BridgeName(n int) IfName { return IfName(fmt.Sprintf("%s%d", linkPrefix, n)) }

// HostIfName is the host side of adapter k of network n.
func HostIfName(n, k int) IfName { return IfName(fmt.Sprintf("%s%da%d", linkPrefix, n, k)) }

// Table is the route table of network n.
func Table(n int) int { return tableBase + n }

// RunFolder is the run folder of network n, relative to the run directory.
func RunFolder(n int) string { return fmt.Sprintf("ni/%d", n) }

// BridgeAlias is the mark of ownership on the bridge of a network.
func BridgeAlias(o netstate.Owner) string { return aliasPrefix + o.Name }

// Root chains of host's, one jump each from the built-in chain of the same part.
const (
	RootForward     = "ES-FORWARD"
	RootInput       = "ES-INPUT"
	RootOutput      = "ES-OUTPUT"
	RootPostrouting = "ES-POSTROUTING"
	RootPrerouting  = "ES-PREROUTING" // of table raw
	// BaseChain drops any packet from or to our links that no adapter chain took.
	BaseChain = "ES-BASE"
	// ExitChain ends what an adapter sends out of a port: it drops what is meant
	// for another network's subnet and accepts the rest.
	ExitChain = "ES-EXIT"
)
