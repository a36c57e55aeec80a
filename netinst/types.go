package netinst

import (
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"edgespan/netinst/netstate"
)

// CheckEvery is the period of the full comparison with the host, for all networks at the same time.
const CheckEvery = time.Minute

// Type is the type of a network instance.
type Type string

// The types. (The configuration knows vpn, and refuses it until it is implemented.)
const (
	Local  Type = "local"  // NAT, with its own DHCP and DNS
	Switch Type = "switch" // only a bridge, or a bridge with a port of the host in it
)

// IPv4Config is the IPv4 side of a network, with every default filled in.
type IPv4Config struct {
	Subnet    netip.Prefix // masked
	Gateway   netip.Addr   // the bridge's own address
	DHCPFirst netip.Addr   // first and last address of the range that generated addresses come from
	DHCPLast  netip.Addr
}

// DNSConfig configures the names that a network's DNS server answers itself and the servers it asks.
type DNSConfig struct {
	Domain  Label                     // "" for none
	Servers []netip.Addr              // instead of the port's
	Hosts   map[Hostname][]netip.Addr // static names
}

// StaticRoute is an additional route of the network's own table.
type StaticRoute struct {
	Name        string
	Destination netip.Prefix
	Gateway     netip.Addr // invalid: on link
	Port        string     // a label; "" for the network's port
}

// NetworkInstanceConfig is the config of one network instance, with every default filled in (seed eve-bridge-manager;
// docs/configuration.md).
type NetworkInstanceConfig struct {
	UUID        uuid.UUID
	DisplayName string
	Type        Type
	Inactive    bool   // activate: false: bridge, DHCP and DNS only, no adapter
	Port        string // a label, a shared label, "uplink", "freeuplink" or "all"
	IPv4        IPv4Config
	DNS         DNSConfig
	NTPServers  []netip.Addr
	MTU         int // bytes; 0: the port's, else 1500
	SpoofGuard  bool
	Routes      []StaticRoute // by name
	// Tunnels and Members are further ports of a switch network's bridge: those of a cluster. (omitempty: the digests of
	// configs without them do not change.)
	Tunnels []Tunnel `json:",omitempty"` // by Name
	Members []IfName `json:",omitempty"` // links of the host, sorted
	// Sharers is the result of Sharers for all adapters of the node.
	Sharers int `json:",omitempty"`
	// Observe reports changes by other programs on the host and leaves them (sysParams.drift).
	Observe    bool   `json:",omitempty"`
	Generation uint64 // the generation in which this object last changed
}

// Tunnel is this node's end of a VXLAN tunnel (RFC 7348) that is a port of its network's bridge.
type Tunnel struct {
	Name     string     // shown to people and in reports: the node at its other end
	VNI      uint32     // 24 bits
	Local    netip.Addr // invalid: unknown, the tunnel waits
	Remote   netip.Addr // invalid: unknown, the tunnel waits
	Port     uint16     // UDP
	MTU      int        // octets of payload
	Isolated bool       // frames of other isolated ports do not leave by it
}

// AdapterKey names one adapter: key of AppAdapterConfig and AppAdapterStatus.
type AdapterKey struct {
	AppUUID       uuid.UUID
	UnderlayIndex int
}

// String is the topic key, "<app>#<index>".
func (k AdapterKey) String() string { return k.AppUUID.String() + "#" + strconv.Itoa(k.UnderlayIndex) }

// MarshalText is String, so that a map by key can be journalled as JSON.
func (k AdapterKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is ParseAdapterKey.
func (k *AdapterKey) UnmarshalText(b []byte) error {
	var err error
	*k, err = ParseAdapterKey(string(b))
	return err
}

// ParseAdapterKey parses the result of String.
func ParseAdapterKey(s string) (AdapterKey, error) {
	app, index, _ := strings.Cut(s, "#")
	id, err := uuid.Parse(app)
	n, err2 := strconv.Atoi(index)
	if err != nil || err2 != nil {
		return AdapterKey{}, fmt.Errorf("adapter key %q: must be <app uuid>#<index>", s)
	}
	return AdapterKey{id, n}, nil
}

// Action is what an ACL rule does with a packet.
type Action string

// The implemented actions.
const (
	Allow Action = "allow"
	Drop  Action = "drop"
)

// Direction is seen from the application: egress leaves it.
type Direction string

// The directions.
const (
	Egress  Direction = "egress"
	Ingress Direction = "ingress"
	Both    Direction = "both"
)

// PortRange is one port or a range of them, first to last inclusive.
type PortRange struct{ First, Last uint16 }

// ACLRule is one rule of an adapter; the list is in order, first match wins.
type ACLRule struct {
	Name      string
	Direction Direction
	Action    Action
	IP        netip.Prefix // remote end; invalid: any
	Protocol  string       // "tcp", "udp", "icmp", a number as text, "" for any
	Ports     []PortRange  // remote ports, tcp and udp only
	LocalPort []PortRange  // the adapter's ports
	// PortLabel selects ports of the host as NetworkInstanceConfig.Port does: the packet leaves (egress) or enters
	// (ingress) the node by one of them. A label that no port has matches nothing; "" matches every packet. (omitempty:
	// the digests of configs without it do not change.)
	PortLabel string `json:",omitempty"`
}

// AttachKind is how an adapter is attached to its app.
type AttachKind string

// The kinds of attachment. The zero value is Veth.
const (
	Veth     AttachKind = "veth"     // a pair of links, one of them in the app's network namespace
	Tap      AttachKind = "tap"      // a tap device, for a virtual machine
	External AttachKind = "external" // a link that another program creates and deletes
)

// UnderlayNetworkConfig is the config of one adapter's connection.
type UnderlayNetworkConfig struct {
	NetworkInstance uuid.UUID
	MAC             string     // "" generated
	IP              netip.Addr // invalid: allocated
	Kind            AttachKind // "" is Veth
	Netns           string     // veth: a name below /run/netns, or an absolute path
	IfName          IfName     // veth: the app's side
	HostIfName      IfName     // external: the link; tap: its name, "" for a generated one
	Hostname        Hostname   // the app's DNS label on this network
	ACL             []ACLRule
	// DHCPServer lets the app of a switch network answer other apps' DHCP. (omitempty: the digests of configs without it
	// do not change.)
	DHCPServer bool `json:",omitempty"`
	MaxFlows   int  `json:",omitempty"` // 0: DefaultMaxFlows
}

// AppAdapterConfig is one adapter's config as its app network publishes it to the network instance's scope (seed
// "Application network"). While Activate is false, no adapter is desired.
type AppAdapterConfig struct {
	AppUUID        uuid.UUID
	UnderlayIndex  int
	TargetVersion  uint64
	Activate       bool
	UnderlayConfig UnderlayNetworkConfig
}

// Key is the topic key.
func (c AppAdapterConfig) Key() AdapterKey { return AdapterKey{c.AppUUID, c.UnderlayIndex} }

// UnderlayNetworkStatus is the current state of an adapter's connection.
type UnderlayNetworkStatus struct {
	IP         netip.Addr // of a switch network: the lowest of Addresses
	Addresses  string     // of a switch network: all that the app was observed to use, comma-separated
	MAC        string
	IfName     IfName // the app's side
	HostIfName IfName
	Bridge     IfName
	// Dropped counts the packets that its limit MaxFlows has dropped recently; both are 0 without any.
	Dropped  uint64
	MaxFlows int
}

// AppAdapterStatus is a bridge manager's answer: TargetVersion echoes that of the config it answers.
type AppAdapterStatus struct {
	AppUUID        uuid.UUID
	UnderlayIndex  int
	TargetVersion  uint64
	Activated      bool
	UnderlayStatus UnderlayNetworkStatus
	Error          string
	Waiting        bool // Error describes what it waits for, not a failure
	// CheckFailed means that no op failed: Error describes what was found afterwards.
	CheckFailed bool `json:",omitempty"`
}

// Key is the topic key.
func (s AppAdapterStatus) Key() AdapterKey { return AdapterKey{s.AppUUID, s.UnderlayIndex} }

// NIState is the state of a network instance, spelled as in the seed opendut-configuration-state-loop.
type NIState string

// The states.
const (
	Creating               NIState = "Creating"
	Present                NIState = "Present"
	Removing               NIState = "Removing"
	CreatingFailed         NIState = "CreatingFailed"
	RemovingFailed         NIState = "RemovingFailed"
	CheckPresentFailed     NIState = "CheckPresentFailed"
	CheckAbsentFailed      NIState = "CheckAbsentFailed"
	WaitingForDependencies NIState = "WaitingForDependencies"
	Unclaimed              NIState = "Unclaimed"
)

// NetworkInstanceStatus is the status of a network, published by its bridge manager. The network is online from its
// first status until the key is withdrawn.
type NetworkInstanceStatus struct {
	UUID         uuid.UUID
	DisplayName  string
	State        NIState
	Bridge       IfName
	Number       int
	Generation   uint64 // the generation that is fully applied
	DesiredPorts string // result of DesiredPorts for the ports applied with it
	Port         string // label of the port in use
	Error        string
	Warning      string // problems of a network that is Present nevertheless
	// Parts are the bridge, the tunnels and the members of a network that has Tunnels or Members.
	Parts []PartStatus `json:",omitempty"`
}

// The kinds of parts of a network.
const (
	PartBridge = "bridge"
	PartTunnel = "tunnel"
	PartMember = "member"
)

// Equal reports whether two statuses are equal.
func (s NetworkInstanceStatus) Equal(o NetworkInstanceStatus) bool { return reflect.DeepEqual(s, o) }

// PartStatus is the status of one part of a network.
type PartStatus struct {
	Kind  string
	Name  string // of a tunnel or a member, as in the config; "" for the bridge
	State NIState
	Error string // also what it waits for
}

// PortConfig is the config of one host interface.
type PortConfig struct {
	Label      string
	IfName     IfName
	Uplink     bool
	Cost       int // 0 to 255
	Labels     []string
	DNSServers []netip.Addr
	NTPServers []netip.Addr
	MTU        int // 0: as found
	// Gateway overrides the default gateway found in the kernel's main table.
	Gateway    netip.Addr
	Generation uint64 // the generation in which this port last changed
}

// PortStatus is the seed's device network status of one port: its configuration and the kernel's state.
type PortStatus struct {
	PortConfig
	Exists    bool
	Up        bool // carrier
	LinkMTU   int
	Addresses []netip.Prefix
	// DefaultRoutes are those of the kernel's main table through the port, best metric first.
	DefaultRoutes []netstate.DefaultRoute
	Learnt        LearntDNS // if DNSServers is not configured
}
