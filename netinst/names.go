package netinst

import (
	"fmt"

	"edgespan/netinst/netstate"
)

// The names of objects that edgespan creates on a host (docs/architecture.md, law 3). n is the number of the network
// instance, from 1 to MaxNumber; k is the adapter's number on that network.
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

// Root chains of the host, with one jump each from the built-in chain of the same part.
const (
	RootForward     = "ES-FORWARD"
	RootInput       = "ES-INPUT"
	RootOutput      = "ES-OUTPUT"
	RootPostrouting = "ES-POSTROUTING"
	RootPrerouting  = "ES-PREROUTING" // of table raw
	// BaseChain drops any packet from or to edgespan's links that no adapter chain accepted.
	BaseChain = "ES-BASE"
	// ExitChain ends the path of a packet that an adapter sends out of a port: it drops packets for another network's
	// subnet and accepts the rest.
	ExitChain = "ES-EXIT"
)
