package nodeapi

import (
	"encoding/json"
	"net/netip"
	"strings"
	"time"
)

// The types of Resource.Spec and Resource.Status, by kind; a spec is {} if the object is no longer desired. The fields
// of specs and of PortStatus are in alphabetical order, as in earlier releases' answers.

// NetworkSpec is the desired state of a network; a switch has no IPv4, DNS, NTP servers or routes.
type NetworkSpec struct {
	Activate    bool                 `json:"activate"`
	DisplayName string               `json:"displayName"`
	DNS         *DNSSpec             `json:"dns,omitempty"`
	Flows       string               `json:"flows,omitempty"` // if it is not reset
	Generation  uint64               `json:"generation"`
	IPv4        *IPv4Spec            `json:"ipv4,omitempty"`
	IPv6        *IPv6Spec            `json:"ipv6,omitempty"`
	Members     []string             `json:"members,omitzero"`
	MTU         int                  `json:"mtu"`
	NTPServers  *string              `json:"ntpServers,omitempty"`
	Port        string               `json:"port"`
	Probe       *ProbeSpec           `json:"probe,omitempty"` // if it is not the default
	Routes      map[string]RouteSpec `json:"routes,omitzero"` // by name
	Share       bool                 `json:"share,omitempty"`
	SpoofGuard  bool                 `json:"spoofGuard"`
	FlowLog     bool                 `json:"flowLog,omitempty"`
	ForwardLLDP bool                 `json:"forwardLLDP,omitempty"`
	Tunnels     []TunnelSpec         `json:"tunnels,omitzero"`
	Type        string               `json:"type"`
	VPN         *VPNSpec             `json:"vpn,omitempty"`

	VLANAccessPorts map[string]int `json:"vlanAccessPorts,omitempty"` // VLANs by label
}

// DNSSpec is the DNS service of a network.
type DNSSpec struct {
	Domain  string            `json:"domain"`
	Hosts   map[string]string `json:"hosts"` // addresses by name
	Servers string            `json:"servers"`
}

// IPv4Spec is the addressing of a network.
type IPv4Spec struct {
	DHCPRange string       `json:"dhcpRange"`
	Gateway   netip.Addr   `json:"gateway"`
	Subnet    netip.Prefix `json:"subnet"`
	// MayOverlap means that other networks may have the same subnet.
	MayOverlap bool `json:"mayOverlap,omitempty"`
}

// IPv6Spec is the IPv6 of a network that has it.
type IPv6Spec struct {
	Mode   string       `json:"mode"`
	NAT    bool         `json:"nat"`
	Subnet netip.Prefix `json:"subnet,omitzero"`
}

// ProbeSpec is how a network probes its uplinks; 0 is no limit.
type ProbeSpec struct {
	Body         string `json:"body,omitempty"`
	FailAfter    int    `json:"failAfter"`
	HoldMs       int64  `json:"holdMs"`
	IntervalMs   int64  `json:"intervalMs"`
	MaxLatencyMs int64  `json:"maxLatencyMs"`
	MaxLoss      int    `json:"maxLoss"`
	Method       string `json:"method"`
	Quorum       int    `json:"quorum"`
	RecoverAfter int    `json:"recoverAfter"`
	Target       string `json:"target"`
	TimeoutMs    int64  `json:"timeoutMs"`
}

// RouteSpec is a static route of a network.
type RouteSpec struct {
	Cost        int          `json:"cost"`
	Destination netip.Prefix `json:"destination"`
	Gateway     netip.Addr   `json:"gateway"`
	Port        string       `json:"port"`
}

// TunnelSpec is this node's end of a tunnel.
type TunnelSpec struct {
	Isolated bool       `json:"isolated"`
	Local    netip.Addr `json:"local"` // "" while unknown, as Remote
	MTU      int        `json:"mtu"`
	Port     uint16     `json:"port"`
	Remote   netip.Addr `json:"remote"`
	To       string     `json:"to"`
	VNI      uint32     `json:"vni"`
}

// NetworkStatus is the state of a network.
type NetworkStatus struct {
	State       string       `json:"state"`
	DisplayName string       `json:"displayName"`
	Bridge      string       `json:"bridge"`
	Number      int          `json:"number"`
	Port        string       `json:"port"`
	Generation  uint64       `json:"generation"`
	Error       string       `json:"error"`
	Warning     string       `json:"warning"`
	Parts       []PartStatus `json:"parts,omitempty"`
}

// PartStatus is the bridge, a tunnel or a member of a cluster's network.
type PartStatus struct {
	Kind  string `json:"kind"`
	Name  string `json:"name,omitempty"`
	State string `json:"state"`
	Error string `json:"error,omitempty"`
}

// AppSpec is the desired state of an app's networks.
type AppSpec struct {
	Activate    bool                   `json:"activate"`
	Adapters    map[string]AdapterSpec `json:"adapters"` // by index
	DisplayName string                 `json:"displayName"`
}

// AdapterSpec is the desired state of an adapter.
type AdapterSpec struct {
	ACL             []ACLSpec  `json:"acl"` // in evaluation order
	Attach          AttachSpec `json:"attach"`
	IP              netip.Addr `json:"ip"`
	IP6             netip.Addr `json:"ip6,omitzero"`
	MAC             string     `json:"mac"`
	NetworkInstance string     `json:"networkInstance"`
	Observe         bool       `json:"observe,omitempty"` // ACL only counts what it would deny
	Trunk           string     `json:"trunk,omitempty"`   // the VLANs of its tagged frames
	VLAN            int        `json:"vlan,omitempty"`    // of its untagged frames; absent: 1
}

// AttachSpec is how an adapter reaches its app: by a link of the host, or by one in a namespace.
type AttachSpec struct {
	HostIfName *string `json:"hostIfName,omitempty"`
	IfName     *string `json:"ifName,omitempty"`
	Kind       string  `json:"kind"`
	Netns      *string `json:"netns,omitempty"`
}

// ACLSpec is a rule of an adapter.
type ACLSpec struct {
	Action    string    `json:"action"`
	Direction string    `json:"direction"`
	Match     MatchSpec `json:"match"`
	Name      string    `json:"name"`
}

// MatchSpec selects the packets of a rule.
type MatchSpec struct {
	Host      string       `json:"host,omitempty"`
	IP        netip.Prefix `json:"ip"`
	LocalPort string       `json:"localPort"`
	Port      string       `json:"port"`
	PortLabel string       `json:"portLabel"`
	Protocol  string       `json:"protocol"`
	Set       string       `json:"set,omitempty"`
}

// AdapterStatus is the state of an adapter.
type AdapterStatus struct {
	Index           int    `json:"index"`
	NetworkInstance string `json:"networkInstance"`
	TargetVersion   uint64 `json:"targetVersion"`
	Activated       bool   `json:"activated"`
	IP              string `json:"ip"`
	Addresses       string `json:"addresses,omitempty"`
	MAC             string `json:"mac"`
	IfName          string `json:"ifName"`
	HostIfName      string `json:"hostIfName"`
	State           string `json:"state"` // that of its parameter
	Error           string `json:"error"`
	Warning         string `json:"warning,omitempty"`
	// Lease is what DHCP last said of the address: assigned, "mismatched" with the other address, released, declined or
	// refused; "" if nothing was observed.
	Lease string `json:"lease,omitempty"`
	// Hits are the access rules that were hit, as last read at HitsRead; at most MaxHits, the last ones hit.
	Hits     []RuleHits `json:"hits,omitempty"`
	HitsRead time.Time  `json:"hitsRead,omitzero"`
}

// MaxHits bounds AdapterStatus.Hits.
const MaxHits = 20

// AppStatus is the state of an app's networks.
type AppStatus struct {
	DisplayName   string          `json:"displayName"`
	Pending       bool            `json:"pending"`
	Activated     bool            `json:"activated"`
	TargetVersion uint64          `json:"targetVersion"`
	Error         string          `json:"error"`
	Adapters      []AdapterStatus `json:"adapters"`
}

// PortSpec is the desired state of a port of the host.
type PortSpec struct {
	Address    string     `json:"address,omitempty"`
	Addressing string     `json:"addressing,omitempty"` // absent if another program sets the addresses
	Cost       int        `json:"cost"`
	DNSServers string     `json:"dnsServers"`
	Gateway    netip.Addr `json:"gateway"`
	IfName     string     `json:"ifName"`
	Labels     string     `json:"labels"`
	Metered    bool       `json:"metered"`
	MTU        int        `json:"mtu"`
	NTPServers string     `json:"ntpServers"`
	ProbeBytes int        `json:"probeBytesPerDay,omitempty"` // of a metered port
	Uplink     bool       `json:"uplink"`
	VLAN       *VLANSpec  `json:"vlan,omitempty"`   // absent if another program creates the interface
	Weight     int        `json:"weight,omitempty"` // if it is not 1
}

// VLANSpec makes a port a VLAN of the interface Parent.
type VLANSpec struct {
	ID     int    `json:"id"`
	Parent string `json:"parent"`
}

// PortStatus is the observed state of a port. Probe, with what was measured, is how networks judge it; where they
// differ, Probe has each word, the worst first, and the rest is of the worst.
type PortStatus struct {
	Addresses    []string      `json:"addresses"`
	Changed      time.Time     `json:"changed,omitzero"` // when Probe changed, since the daemon's start
	DefaultRoute string        `json:"defaultRoute"`
	DNSServers   string        `json:"dnsServers"`
	DNSSkipped   string        `json:"dnsSkipped"`
	DNSSource    string        `json:"dnsSource"`
	Drained      bool          `json:"drained,omitempty"`
	DrainedUntil time.Time     `json:"drainedUntil,omitzero"` // absent: until it is undrained
	Error        string        `json:"error"`
	Exists       bool          `json:"exists"`
	Gateways     string        `json:"gateways"`
	LatencyMs    float64       `json:"latencyMs,omitempty"` // 0: unknown
	Loss         int           `json:"loss,omitempty"`      // percent
	MTU          int           `json:"mtu"`
	Probe        string        `json:"probe,omitempty"` // "" if no network selects the port
	Up           bool          `json:"up"`
	UsedBy       []NetworkName `json:"usedBy,omitempty"`
}

// NetworkName names a network.
type NetworkName struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"` // its display name
}

// String returns the display name, or the first part of the UUID.
func (n NetworkName) String() string {
	if n.Name != "" {
		return n.Name
	}
	first, _, _ := strings.Cut(n.ID, "-")
	return first
}

// ParamSpec is the desired state of a parameter.
type ParamSpec struct {
	Kind   string `json:"kind"`
	Target string `json:"target"`
}

// ParamStatus is the state of a parameter.
type ParamStatus struct {
	ID         string    `json:"id"`
	Kind       string    `json:"kind"`
	Target     string    `json:"target"`
	State      string    `json:"state"`
	Generation uint64    `json:"generation"`
	Error      string    `json:"error"`
	Since      time.Time `json:"since"`              // when it entered its state
	Attempts   int       `json:"attempts,omitempty"` // failed ones in a row
	NextTry    time.Time `json:"nextTry,omitzero"`
}

// ActorStatus is the state of one actor.
type ActorStatus struct {
	ID       string    `json:"id"`
	State    string    `json:"state"` // running, restarting
	Crashes  int       `json:"restarts"`
	Last     string    `json:"error"` // the last crash
	LastAt   time.Time `json:"-"`
	Next     string    `json:"next"` // current back-off
	Messages uint64    `json:"messages"`
	Waiting  int       `json:"waiting,omitempty"` // messages in its mailbox
	// Now is the message that it handles, and what it does for that; "" for none. NowSince is when that began.
	Now      string    `json:"now,omitempty"`
	NowSince time.Time `json:"nowSince,omitzero"`
}

// SourceStatus is the origin of the running config.
type SourceStatus struct {
	Source     string `json:"source"`
	Generation uint64 `json:"generation"`
	MD5        string `json:"md5"`
	FileDigest string `json:"fileDigest"`
	Error      string `json:"error"`
	// Journal is Journalled, or NotJournalled while changes are in memory only.
	Journal      string     `json:"journal"`
	JournalError string     `json:"journalError,omitempty"`
	JournalSince *time.Time `json:"journalSince,omitempty"`
	Unsaved      int        `json:"unsaved,omitempty"` // changes in memory only
	Found        []string   `json:"found,omitempty"`   // what this start found in the state folder
	Fallback     bool       `json:"fallback,omitempty"`
}

// As converts a spec or a status of a Resource to its type. Missing fields, and fields of another type from another
// version's daemon, are taken from otherwise.
func As[T any](v any, otherwise T) T {
	if text, err := json.Marshal(v); err == nil {
		_ = json.Unmarshal(text, &otherwise)
	}
	return otherwise
}
