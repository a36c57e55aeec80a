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
	"edgespan/netinst/probe"
)

// CheckEvery is the period of the full comparison with the host, for all networks at the same time.
const CheckEvery = time.Minute

// Type is the type of a network instance.
type Type string

// The types.
const (
	Local  Type = "local"  // NAT, with its own DHCP and DNS
	Switch Type = "switch" // only a bridge, or a bridge with a port of the host in it
	VPN    Type = "vpn"    // a local network whose only way out is its tunnel (vpn.go)
)

// IPv4Config is the IPv4 side of a network, with every default filled in.
type IPv4Config struct {
	Subnet    netip.Prefix // masked
	Gateway   netip.Addr   // the bridge's own address
	DHCPFirst netip.Addr   // first and last address of the range that generated addresses come from
	DHCPLast  netip.Addr
	// MayOverlap means that other networks may have the same subnet (subnets.go). (omitempty: the digests of configs
	// without it do not change.)
	MayOverlap bool `json:",omitempty"`
}

// IPv6Mode is how the apps of a network get their IPv6 addresses; a network without a mode has no IPv6.
type IPv6Mode string

const (
	SLAAC  IPv6Mode = "slaac"  // each makes its own from the prefix and its MAC (RFC 4862)
	DHCPv6 IPv6Mode = "dhcpv6" // RFC 8415
	// Bridged is the mode of a switch network that passes IPv6: stations of the segment assign the addresses.
	Bridged IPv6Mode = "bridged"
)

// IPv6Config is the IPv6 side of a network; its zero value is none.
type IPv6Config struct {
	Subnet  netip.Prefix // masked, of 64 bits
	Gateway netip.Addr   // the bridge's own address
	Mode    IPv6Mode
	NAT     bool // packets leave with the address of the port; otherwise other routers must know the subnet
}

// DNSConfig configures the names that a network's DNS server answers itself and the servers it asks.
type DNSConfig struct {
	Domain  Domain                    // "" for none
	Servers []netip.Addr              // instead of the port's
	Hosts   map[Hostname][]netip.Addr // static names
}

// StaticRoute is an additional route of the network's own table.
type StaticRoute struct {
	Name        string
	Destination netip.Prefix
	Gateway     netip.Addr // invalid: on link
	Port        string     // a label; "" for the network's port
	Cost        int        `json:",omitempty"` // 0 to 255; of several routes to one destination the lowest that works
}

// NetworkInstanceConfig is the config of one network instance, with every default filled in (seed eve-bridge-manager;
// docs/configuration.md).
type NetworkInstanceConfig struct {
	UUID        uuid.UUID
	DisplayName string
	Type        Type
	Inactive    bool   // activate: false: bridge, DHCP and DNS only, no adapter
	Port        string // a port's or a shared label, "uplink", "freeuplink" (uplinks of cost 0) or "all"; "" for none
	IPv4        IPv4Config
	DNS         DNSConfig
	NTPServers  []netip.Addr
	MTU         int // bytes; 0: the port's, else 1500
	SpoofGuard  bool
	FlowLog     bool `json:",omitempty"` // record its flows (package flowlog)
	ForwardLLDP bool `json:",omitempty"` // a switch passes LLDP (IEEE 802.1AB) between its ports
	// AccessPorts are the ports of a switch that carry only one VLAN, untagged; the others are trunks. VLANs are all
	// VLANs of the switch but that of untagged frames, sorted: those of its adapters and access ports.
	AccessPorts []AccessPort  `json:",omitempty"` // by Label
	VLANs       []int         `json:",omitempty"`
	Routes      []StaticRoute // by name
	Probe       probe.Config  `json:",omitzero"`
	IPv6        IPv6Config    `json:",omitzero"`
	Flows       FlowPolicy    `json:",omitempty"`
	Share       bool          `json:",omitempty"` // new flows are spread over equal uplinks
	// Tunnels and Members are further ports of a switch network's bridge: those of a cluster, which is a layer-2 network
	// across nodes (docs/peers.md). (omitempty: the digests of configs without them do not change.)
	Tunnels []Tunnel `json:",omitempty"` // by Name
	Members []IfName `json:",omitempty"` // links of the host, sorted
	// WireGuardPort is the UDP port at which the node listens for the other ends of its encrypted tunnels.
	WireGuardPort int `json:",omitempty"`
	// Over is the network of type vpn through whose tunnel those go; nil for none.
	Over uuid.UUID `json:",omitzero"`
	// ClusterKey is the public key by which the other ends of encrypted tunnels know this node; "" while it has none.
	ClusterKey string `json:",omitempty"`
	// Sharers is the number of equal shares into which half of the node's table of tracked flows is divided (FlowShare):
	// the result of function Sharers.
	Sharers int `json:",omitempty"`
	// Observe reports changes by other programs on the host and leaves them (sysParams.drift).
	Observe bool `json:",omitempty"`
	// Limits is what the helpers of the network may take; a zero value is the default (HelperLimits).
	Limits ProcessLimits `json:",omitzero"`
	// Mapped means that an app of the node has a port map, by which apps of all local networks may reach it.
	Mapped     bool       `json:",omitempty"`
	VPN        *VPNConfig `json:",omitempty"` // of a network of type vpn
	Generation uint64     // the generation in which this object last changed
}

// AccessPort gives the ports of a label one VLAN: 2 to 4094, or netstate.NativeVLAN.
type AccessPort struct {
	Label string
	VLAN  int
}

// AdapterKey names one adapter: key of AppAdapterConfig and AppAdapterStatus.
type AdapterKey struct {
	AppUUID uuid.UUID
	Index   int
}

// String is the topic key, "<app>#<index>".
func (k AdapterKey) String() string { return k.AppUUID.String() + "#" + strconv.Itoa(k.Index) }

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
	Limit Action = "limit" // allows packets up to a rate and drops those above it
	// MapPort allows what arrives for ports of the host's that lead to the app.
	MapPort Action = "portmap"
)

// Direction is seen from the app: egress leaves it.
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
	// Host is a name that the remote end, or a name below it, has in the network's DNS; "" for any.
	Host Hostname `json:",omitempty"`
	// Set contains the remote end; nil for any.
	Set     *AddressSet `json:",omitempty"`
	Limit   RateLimit   `json:",omitzero"` // of action limit
	Portmap Portmap     `json:",omitzero"` // of action portmap; its PortLabel selects among the network's ports
}

// AttachKind is how an adapter is attached to its app.
type AttachKind string

// The kinds of attachment. The zero value is Veth.
const (
	Veth     AttachKind = "veth"     // a pair of links, one of them in the app's network namespace
	Tap      AttachKind = "tap"      // a tap device, for a virtual machine
	External AttachKind = "external" // a link that another program creates and deletes
)

// AdapterSpec is the config of one adapter: its network, its attachment, its addresses and its access rules.
type AdapterSpec struct {
	NetworkInstance uuid.UUID
	MAC             string     // "" generated
	IP              netip.Addr // invalid: allocated
	IP6             netip.Addr `json:",omitzero"` // invalid: from the MAC (EUI64)
	Kind            AttachKind // "" is Veth
	Netns           string     // veth: a name below /run/netns, or an absolute path
	IfName          IfName     // veth: the app's side
	HostIfName      IfName     // external: the link; tap: its name, "" for a generated one
	Hostname        Hostname   // the app's DNS label on this network
	ACL             []ACLRule
	// VLAN is the one of the untagged frames of an adapter of a switch network, 2 to 4094; 0 for that of the untagged
	// frames of the trunk ports. Trunk are the VLANs of its tagged frames, sorted.
	VLAN  int   `json:",omitempty"`
	Trunk []int `json:",omitempty"`
	// DHCPServer lets the app of a switch network answer other apps' DHCP. (omitempty: the digests of configs without it
	// do not change.)
	DHCPServer bool `json:",omitempty"`
	MaxFlows   int  `json:",omitempty"` // 0: DefaultMaxFlows; at most a share (FlowBound)
	// MaxFragments bounds the fragments sent in a second, of each family; 0: the default (FragmentBound).
	MaxFragments int `json:",omitempty"`
	// MaxNeighbours bounds the neighbours of ports that it sends to without an answer; 0: DefaultMaxNeighbours.
	MaxNeighbours int `json:",omitempty"`
	// Observe lets pass what ACL would deny between the adapter and hosts other than the node, and counts it
	// (targets.observing).
	Observe bool `json:",omitempty"`
}

// AppAdapterConfig is one adapter's config as its app network publishes it for the network instance, in a topic whose
// scope is the network's UUID (seed "Application network"). TargetVersion counts the desired states of the app. While
// Activate is false, no adapter is desired.
type AppAdapterConfig struct {
	AppUUID       uuid.UUID
	Index         int
	TargetVersion uint64
	Activate      bool
	Spec          AdapterSpec
}

// Key is the topic key.
func (c AppAdapterConfig) Key() AdapterKey { return AdapterKey{c.AppUUID, c.Index} }

// AdapterLink is the current state of an adapter: its addresses and its link on both sides.
type AdapterLink struct {
	IP         netip.Addr // of a switch network: the lowest of Addresses
	Addresses  string     // several: of a switch network, all that the app was observed to use; comma-separated
	MAC        string
	IfName     IfName // the app's side
	HostIfName IfName
	Bridge     IfName
	// Lease is what DHCP last said of the address: assigned, "mismatched" with the address, released, declined or refused;
	// "" if nothing was observed.
	Lease string `json:",omitempty"`
	// Dropped are the packets that its limits have dropped recently, the others its limits of flows, of fragments a second
	// and of neighbours; all are 0 if there are none.
	Dropped                               Drops
	MaxFlows, MaxFragments, MaxNeighbours int
}

// AppAdapterStatus is a bridge manager's answer: TargetVersion echoes that of its config.
type AppAdapterStatus struct {
	AppUUID       uuid.UUID
	Index         int
	TargetVersion uint64
	Activated     bool
	Link          AdapterLink
	Error         string
	Waiting       bool // Error describes what it waits for, not a failure
	// CheckFailed means that no op failed: Error describes what was found afterwards.
	CheckFailed bool `json:",omitempty"`
}

// Key is the topic key.
func (s AppAdapterStatus) Key() AdapterKey { return AdapterKey{s.AppUUID, s.Index} }

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

// NetworkInstanceStatus is published by a network's bridge manager. The network is online from its first status until
// that is removed from its topic.
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

// Addressing is how a port gets its addresses and its default route.
type Addressing string

// The kinds of addressing. External is empty, as it is the default and was the only one in former releases.
const (
	AddressingExternal Addressing = "" // another program sets them
	AddressingStatic   Addressing = "static"
	AddressingDHCP     Addressing = "dhcp"
)

// VLAN makes a port a sub-interface: VLAN ID (IEEE 802.1Q, 1 to 4094) of the host's interface Parent.
type VLAN struct {
	Parent IfName
	ID     int
}

// PortConfig is the config of one host interface.
type PortConfig struct {
	Label      string
	IfName     IfName
	Uplink     bool
	Cost       int      // 0 to 255
	Labels     []string // shared labels: several ports may have the same
	DNSServers []netip.Addr
	NTPServers []netip.Addr
	MTU        int // 0: that of the interface
	// Gateway overrides the default gateway found in the kernel's main table.
	Gateway netip.Addr
	// Addressing says who sets the interface's addresses; Static are those of AddressingStatic.
	Addressing Addressing     `json:",omitempty"`
	Static     []netip.Prefix `json:",omitempty"`
	Metered    bool           `json:",omitempty"` // its traffic costs: probes are rare
	VLAN       VLAN           `json:",omitzero"`  // edgespan creates the interface; zero: another program does
	ProbeBytes int            `json:",omitempty"` // of all probes of a metered port in a day; 0: the default
	Weight     int            `json:",omitempty"` // of its share of the flows of networks with Share; 0: 1
	Generation uint64         // the generation in which this port last changed
}

// PortStatus is the status of one port: its configuration and the kernel's state (the device network status of the seed
// eve-bridge-manager).
type PortStatus struct {
	PortConfig
	Exists bool
	Up     bool // carrier
	// PointToPoint means that its link has no neighbours.
	PointToPoint bool `json:",omitempty"`
	// Tunnel means that it is the tunnel of a network of type vpn, for that network alone.
	Tunnel    bool `json:",omitempty"`
	LinkMTU   int
	Addresses []netip.Prefix
	// DefaultRoutes are those of the kernel's main table through the port, best metric first.
	DefaultRoutes []netstate.DefaultRoute
	Learnt        LearntDNS // if DNSServers is not configured
	NoParent      bool      `json:",omitempty"` // it is a VLAN of an interface that does not exist
}
