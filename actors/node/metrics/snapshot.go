package metrics

import (
	"time"

	"github.com/google/uuid"

	"edgespan/appnet"
	"edgespan/netinst"
	"edgespan/netinst/hits"
	"edgespan/netinst/netstate"
	"edgespan/netinst/probe"
	"edgespan/netinst/watched"
)

// Snapshot is a node at one moment. Maps are by the keys of their topics.
type Snapshot struct {
	Version    string
	Ready      bool
	Generation uint64
	Fault      string // why a config that was given does not run, "" if it does

	Networks        map[string]netinst.NetworkInstanceConfig
	NetworkStatuses map[string]netinst.NetworkInstanceStatus
	Choices         map[string]map[string]probe.Choice // by network and selector
	Apps            map[string]appnet.AppNetworkConfig
	Adapters        map[netinst.AdapterKey]netinst.AppAdapterStatus
	Ports           map[string]netinst.PortConfig
	PortStatuses    map[string]netinst.PortStatus
	Outcomes        []probe.Outcomes
	Tunnels         map[string]netstate.TunnelStatus // by network
	Failing         int                              // ops that fail

	// Hits returns the hits of an adapter on a network, as last read.
	Hits func(netinst.AdapterKey, uuid.UUID) (map[hits.Key]hits.Total, time.Time)

	// Watched has what was counted of DNS and DHCP, by network.
	Watched map[string]watched.Counts

	Links   map[string]netstate.LinkCounters // by name; nil: not read
	Helpers []netstate.HelperUsage
	Actors  []Actor
	Counts  Counts
	FlowLog FlowLog
}

// FlowLog has the counts of the flow log since the start of the process.
type FlowLog struct {
	Recorded map[string]uint64     // lines, by kind
	Lost     map[string]uint64     // lines that are missing, by reason
	Exports  map[string]FlowExport // by destination
}

// FlowExport has the counts of one destination of the flow log.
type FlowExport struct {
	Exported uint64 // records that were sent
	Dropped  uint64 // records that were not, because too many waited
	Failures uint64 // connections that failed
	Failing  bool
}

// Actor is one actor.
type Actor struct {
	ID, State string
	Waiting   int // messages in its mailbox
}
