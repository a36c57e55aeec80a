package api

import (
	"encoding/json"
	"time"

	"edgespan/appnet"
	"edgespan/config/httpapi/nodeapi"
	"edgespan/config/nodeconf"
	"edgespan/config/stateloop/nodestate"
	"edgespan/config/stateloop/peer/task"
	"edgespan/netinst"
	"edgespan/netinst/dhcpclient"
	"edgespan/netinst/manager"
	"edgespan/netinst/netstate"
	"edgespan/netinst/overlap"
	"edgespan/netinst/probe"
	"edgespan/pubsub"
)

// Source is where the running config came from.
type Source struct {
	Source     string // file, apply, controller, rollback or base; "" before the first was published
	Generation uint64 // the journal number of its record; 0 for a base
	MD5        string // of the config's canonical form
	FileDigest string // SHA-256 of the config file that was applied last; "" for none
	Error      string // why the file, or an apply that timed out, does not run
	Keep       bool   // this config must not remove anything from the host
	Valid      bool   // a config from a file, an apply or a push was published: orphans may be removed
}

// NodeRecord is what the config actor journals in addition to its configs.
type NodeRecord struct {
	Source     string                             `json:"source"`
	Generation uint64                             `json:"generation"`
	FileDigest string                             `json:"fileDigest"`
	MD5        string                             `json:"md5"`
	DocDigest  string                             `json:"docDigest,omitempty"` // as earlier versions stored it
	Networks   map[string]nodestate.ObjectVersion `json:"networks"`            // by uuid
	Ports      map[string]nodestate.ObjectVersion `json:"ports"`               // by label
	Tasks      map[string]nodestate.ObjectVersion `json:"tasks,omitempty"`     // executors, checks
}

// HostChange counts events of the objects of one network, or of the link of one of its adapters. A reader that missed
// values sees which counter has increased.
type HostChange struct {
	Touched uint64    // changes
	At      time.Time // of the last change
	Asked   uint64    // requested observations
	Moved   uint64    // changes by edgespan itself of what leads to the network
	Lost    uint64    // times when events, and so perhaps changes, were lost
	Ended   uint64    // processes that exited by themselves
	// HostRouting counts changes of the host's addresses and routes, for networks with tunnels.
	HostRouting uint64
}

// Trouble is what differs from the desired state of one owner: of a network, or of the host state.
type Trouble struct {
	Failing []manager.FailedOp
	Retry   time.Time // when it is retried
}

// Leases are the journalled addresses, MACs and numbers of one network.
type Leases = map[netinst.AdapterKey]netinst.Lease

// AppliedMark records the desired state that a network has fully applied while its drift is only observed. It is void
// after a reboot of the machine.
type AppliedMark struct {
	Machine string `json:"machine"` // boot id
	Mark    string `json:"mark"`    // "" for none
}

// Owners of topic keys that are not named after one object.
const (
	OwnerConfig  = "config"
	OwnerMonitor = "monitor"
	OwnerRouter  = "router"
	OwnerEvents  = "events"
	OwnerExec    = "exec"
	OwnerProbes  = "probes"
	OwnerPorts   = "ports"
)

// The keys of host-changed that are not the link of an adapter. Under NamespacesKey, in the scope "", every bridge
// manager learns that a network namespace was created or removed; the other scopes are numbers of networks.
const (
	NamespacesKey = "namespaces"
	NetworkKey    = "network"
)

// Topics are all topics of a node, with the owner of each key. The table in docs/protocol.md follows this file.
type Topics struct {
	NetworkConfig *pubsub.Topic[netinst.NetworkInstanceConfig] // key NI uuid; owner config
	AppConfig     *pubsub.Topic[appnet.AppNetworkConfig]       // key app uuid; owner config
	PortConfig    *pubsub.Topic[netinst.PortConfig]            // key label; owner config
	SysParams     *pubsub.Topic[nodeconf.SysParams]            // key "node"; owner config
	Source        *pubsub.Topic[Source]                        // key "node"; owner config
	AdapterConfig *pubsub.Topic[netinst.AppAdapterConfig]      // scope NI uuid, key app#index; owner the app network
	AdapterStatus *pubsub.Topic[netinst.AppAdapterStatus]      // scope NI uuid, key app#index; owner the bridge manager
	NetworkStatus *pubsub.Topic[netinst.NetworkInstanceStatus] // key NI uuid; owner the bridge manager
	AppStatus     *pubsub.Topic[appnet.AppNetworkStatus]       // key app uuid; owner the app network
	// scope NI uuid, key app uuid; owner the app network; the boot in which its first configs were published
	AppSynced *pubsub.Topic[uint64]
	// key NI uuid; owner config; the uuids of the apps that have an adapter there
	NetworkApps   *pubsub.Topic[[]string]
	PortStatus    *pubsub.Topic[netinst.PortStatus]  // key label; owner monitor
	SubnetOverlap *pubsub.Topic[overlap.Overlap]     // key NI uuid; owner monitor; says which subnet it compared
	Forwarding    *pubsub.Topic[netstate.Forwarding] // key "node"; owner monitor
	// scope NI number, key NetworkKey or a link; NamespacesKey; owner monitor
	HostChanged *pubsub.Topic[HostChange]
	TaskConfig  *pubsub.Topic[nodestate.TaskConfig] // key parameter id; owner config
	TaskStatus  *pubsub.Topic[task.Status]          // key parameter id; owner exec
	// key "node"; owner exec; the config up to which removals were done or tried
	TasksSwept *pubsub.Topic[uint64]
	Reported   *pubsub.Topic[nodestate.ParameterStatus] // key parameter id; owner config
	// key NI uuid, owner the bridge manager; key "host", owner router; key "ports", owner ports
	Trouble *pubsub.Topic[Trouble]
	// key NI uuid; owner the bridge manager; of networks of type vpn, renewed with each poll
	Tunnels *pubsub.Topic[netstate.TunnelStatus]
	Events  *pubsub.Topic[nodeapi.Event] // key a number that sorts; owner events
	Storage *pubsub.Topic[StorageHealth] // key "node"; owner router

	Probing

	Records
}

// Probing are the topics about uplinks.
type Probing struct {
	ProbeRequest  *pubsub.Topic[probe.ID]       // scope NI uuid, key probe.ID.String; owner the bridge manager
	ProbeOutcomes *pubsub.Topic[probe.Outcomes] // key probe.ID.String; owner probes
	// key NI uuid; owner the bridge manager; by the selector of its config
	Uplinks *pubsub.Topic[map[string]probe.Choice]
}

// Records are the topics with a journal, which survive a restart.
type Records struct {
	Numbers    *pubsub.Topic[int]                  // key NI uuid; owner router
	Leases     *pubsub.Topic[Leases]               // key NI uuid; owner the bridge manager
	Applied    *pubsub.Topic[AppliedMark]          // key NI uuid; owner the bridge manager
	AppRecords *pubsub.Topic[appnet.JournalRecord] // key app uuid; owner the app network
	NodeRecord *pubsub.Topic[NodeRecord]           // key "node"; owner config
	// key NI uuid; owner the bridge manager
	UplinkRecords *pubsub.Topic[probe.Record]
	Drains        *pubsub.Topic[probe.Drain]      // key port label; owner router
	PortLeases    *pubsub.Topic[dhcpclient.Lease] // key port label; owner ports
	ProbeBudgets  *pubsub.Topic[probe.Budget]     // key port label; owner probes
}

// NewTopics creates the node's topics and loads the journal. If s is nil, an undecodable value is an error.
func NewTopics(j pubsub.Journal, s Storage) (*Topics, error) {
	t := &Topics{
		NetworkConfig: pubsub.NewTopic[netinst.NetworkInstanceConfig]("network-instance-config"),
		AppConfig:     pubsub.NewTopic[appnet.AppNetworkConfig]("app-network-config"),
		PortConfig:    pubsub.NewTopic[netinst.PortConfig]("port-config"),
		SysParams:     pubsub.NewTopic[nodeconf.SysParams]("sys-params"),
		Source:        pubsub.NewTopic[Source]("config-source"),
		AdapterConfig: pubsub.NewTopic("app-adapter-config", pubsub.WithStems[netinst.AppAdapterConfig]()),
		AdapterStatus: pubsub.NewTopic("app-adapter-status", pubsub.WithStems[netinst.AppAdapterStatus]()),
		NetworkStatus: pubsub.NewTopic[netinst.NetworkInstanceStatus]("network-instance-status"),
		AppStatus:     pubsub.NewTopic[appnet.AppNetworkStatus]("app-network-status"),
		NetworkApps:   pubsub.NewTopic[[]string]("network-apps"),
		AppSynced:     pubsub.NewTopic[uint64]("app-synced"),
		PortStatus:    pubsub.NewTopic[netinst.PortStatus]("port-status"),
		SubnetOverlap: pubsub.NewTopic[overlap.Overlap]("subnet-overlap"),
		Forwarding:    pubsub.NewTopic[netstate.Forwarding]("forwarding"),
		HostChanged:   pubsub.NewTopic[HostChange]("host-changed"),
		Trouble:       pubsub.NewTopic[Trouble]("trouble"),
		Tunnels:       pubsub.NewTopic[netstate.TunnelStatus]("tunnel-status"),
		Events:        pubsub.NewTopic[nodeapi.Event]("event"),
		Storage:       pubsub.NewTopic[StorageHealth]("storage"),
		Probing: Probing{
			ProbeRequest:  pubsub.NewTopic[probe.ID]("probe-request"),
			ProbeOutcomes: pubsub.NewTopic[probe.Outcomes]("probe-outcomes"),
			Uplinks:       pubsub.NewTopic[map[string]probe.Choice]("uplinks"),
		},
		TaskConfig: pubsub.NewTopic[nodestate.TaskConfig]("task-config"),
		TaskStatus: pubsub.NewTopic[task.Status]("task-status"),
		TasksSwept: pubsub.NewTopic[uint64]("tasks-swept"),
		Reported:   pubsub.NewTopic[nodestate.ParameterStatus]("reported-state"),
		Records:    newRecords(j),
	}
	return t, t.restore(s)
}

func newRecords(j pubsub.Journal) Records {
	return Records{
		Numbers:    journalled[int]("network-instance-number", j),
		Leases:     journalled[Leases]("network-instance-leases", j),
		Applied:    journalled[AppliedMark]("network-instance-stood", j), // the name in journals of former releases
		AppRecords: journalled[appnet.JournalRecord]("app-record", j),
		NodeRecord: journalled[NodeRecord]("node-record", j),

		UplinkRecords: journalled[probe.Record]("uplink-choice", j),
		Drains:        journalled[probe.Drain]("port-drain", j),
		PortLeases:    journalled[dhcpclient.Lease]("port-lease", j),
		ProbeBudgets:  journalled[probe.Budget]("probe-budget", j),
	}
}

func journalled[V any](name string, j pubsub.Journal) *pubsub.Topic[V] {
	return pubsub.NewTopic(name, pubsub.WithJournal(j,
		func(v V) ([]byte, error) { return json.Marshal(v) },
		func(b []byte) (v V, err error) { err = json.Unmarshal(b, &v); return v, err }))
}
