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

// CheckEvery is how often all that is on the host is compared in full, of all networks at the same time.
const CheckEvery = time.Minute

// Type is the type of a network instance.
type Type string

// The types. (vpn is known to the configuration and refused there until it is built.)
const (
	Local  Type = "local"  // NAT, with DHCP and DNS of its own
	Switch Type = "switch" // a bridge alone, or with a port of the host in it
)

// IPv4Config is the IPv4 side of a network, complete: defaults are filled in.
type IPv4Config struct {
	Subnet    netip.Prefix // masked
	Gateway   netip.Addr   // the bridge's own address
	DHCPFirst netip.Addr   // first and last address of the range that generated addresses come from
	DHCPLast  netip.Addr
}

// DNSConfig is what a network's DNS server answers by itself and whom it asks.
type DNSConfig struct {
	Domain  Label                     // "" for none
	Servers []netip.Addr              // instead of the port's
	Hosts   map[Hostname][]netip.Addr // static names
}

// StaticRoute is one more route of the network's own table.
type StaticRoute struct {
	Name        string
	Destination netip.Prefix
	Gateway     netip.Addr // invalid: on link
	Port        string     // a label; "" for the network's port
}

// NetworkInstanceConfig is the wish for one network instance, with every default
// filled in (seed eve-bridge-manager; docs/configuration.md).
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
	// Tunnels and Members are further ports of a switch network's bridge: those of a cluster.
	// (omitempty: the digests of configs without them stay what they were.)
	Tunnels []Tunnel `json:",omitempty"` // by Name
	Members []IfName `json:",omitempty"` // links of the host, sorted
	// Sharers is Sharers of all adapters of the node.
	Sharers int `json:",omitempty"`
	// Observe has what others change on the host told and left as it is (sysParams.drift).
	Observe    bool   `json:",omitempty"`
	Generation uint64 // the generation in which this object last changed
}

// Tunnel is this node's end of a VXLAN tunnel (RFC 7348) that is a port of its network's bridge.
type Tunnel struct {
	Name     string     // what it is to people and in reports: the node at its other end
	VNI      uint32     // 24 bits
	Local    netip.Addr // invalid: not known yet, the tunnel waits
	Remote   netip.Addr // invalid: not known yet, the tunnel waits
	Port     uint16     // UDP
	MTU      int        // octets of what goes through
	Isolated bool       // no frame of another isolated port leaves by it
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

// ParseAdapterKey reads what String wrote.
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

// The actions that are built.
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
	// PortLabel stands for ports of the host as NetworkInstanceConfig.Port does: the
	// packet leaves (egress) or enters (ingress) the node by one of them. A label that
	// no port has matches nothing; "" matches every packet. (omitempty: the digests of
	// configs without it stay what they were.)
	PortLabel string `json:",omitempty"`
}

// AttachKind is how an adapter reaches its app.
type AttachKind string

// The kinds of attachment. The zero value is Veth.
const (
	Veth     AttachKind = "veth"     // a pair of links, one of them in the app's network namespace
	Tap      AttachKind = "tap"      // a tap device, for a virtual machine
	External AttachKind = "external" // a link that something else makes and deletes
)

// UnderlayNetworkConfig is the wish for one adapter's connection.
type UnderlayNetworkConfig struct {
	NetworkInstance uuid.UUID
	MAC             string     // "" generated
	IP              netip.Addr // invalid: allocated
	Kind            AttachKind // "" is Veth
	Netns           string     // veth: a name below /run/netns, or an absolute path
	IfName          IfName     // veth: the app's side
	HostIfName      IfName     // external: the link; tap: its name, "" for one of ours
	Hostname        Hostname   // the app's DNS label on this network
	ACL             []ACLRule
	// DHCPServer lets the app of a switch network answer other apps' DHCP. (omitempty: the
	// digests of configs without it stay what they were.)
	DHCPServer bool `json:",omitempty"`
	MaxFlows   int  `json:",omitempty"` // 0: DefaultMaxFlows
}

// AppAdapterConfig is one adapter's wish as its app network publishes it to the
// network instance's scope (seed "Application network"). It is a wish for no
// adapter while Activate is false.
type AppAdapterConfig struct {
	AppUUID        uuid.UUID
	UnderlayIndex  int
	TargetVersion  uint64
	Activate       bool
	UnderlayConfig UnderlayNetworkConfig
}

// Key is the topic key.
func (c AppAdapterConfig) Key() AdapterKey { return AdapterKey{c.AppUUID, c.UnderlayIndex} }

// UnderlayNetworkStatus is what an adapter got.
type UnderlayNetworkStatus struct {
	IP         netip.Addr // of a switch network: the lowest of Addresses
	Addresses  string     // of a switch network: all that the app was seen to use, by comma
	MAC        string
	IfName     IfName // the app's side
	HostIfName IfName
	Bridge     IfName
	// Dropped counts the packets that its bound MaxFlows has dropped lately; both are 0 without any.
	Dropped  uint64
	MaxFlows int
}

// AppAdapterStatus is a bridge manager's answer: TargetVersion echoes the config
// that it answers.
type AppAdapterStatus struct {
	AppUUID        uuid.UUID
	UnderlayIndex  int
	TargetVersion  uint64
	Activated      bool
	UnderlayStatus UnderlayNetworkStatus
	Error          string
	Waiting        bool // Error tells of what is waited for, not of a failure
	// CheckFailed: nothing failed that was done, Error tells of what was found then.
	CheckFailed bool `json:",omitempty"`
}

// Key is the topic key.
func (s AppAdapterStatus) Key() AdapterKey { return AdapterKey{s.AppUUID, s.UnderlayIndex} }

// NIState is the state of a network instance, spelled as in seed
// opendut-configuration-state-loop.
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

// NetworkInstanceStatus is what a bridge manager says of its network. The
// network is online from its first status until the key is withdrawn.
type NetworkInstanceStatus struct {
	UUID         uuid.UUID
	DisplayName  string
	State        NIState
	Bridge       IfName
	Number       int
	Generation   uint64 // the generation fully applied
	DesiredPorts string // PortsMeant of the ports that were applied with it
	Port         string // label of the port in use
	Error        string
	Warning      string // what the network does without and is Present all the same
	// Parts are the bridge, the tunnels and the members of a network that has Tunnels or Members.
	Parts []PartStatus `json:",omitempty"`
}

// The kinds of parts of a network.
const (
	PartBridge = "bridge"
	PartTunnel = "tunnel"
	PartMember = "member"
)

// Equal says whether two statuses say the same.
func (s NetworkInstanceStatus) Equal(o NetworkInstanceStatus) bool { return reflect.DeepEqual(s, o) }

// PartStatus is what a bridge manager says of one part of its network.
type PartStatus struct {
	Kind  string
	Name  string // of a tunnel or a member, as in the config; "" for the bridge
	State NIState
	Error string // also what is waited for
}

// PortConfig is the wish for one host interface.
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

// PortStatus is the seed's device network status of one port: its configuration
// and what the kernel says.
type PortStatus struct {
	PortConfig
	Exists    bool
	Up        bool // carrier
	LinkMTU   int
	Addresses []netip.Prefix
	// DefaultRoutes are those of the kernel's main table through the port, best metric first.
	DefaultRoutes []netstate.DefaultRoute
	Learnt        LearntDNS // where DNSServers are not configured
}
