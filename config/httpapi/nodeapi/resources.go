package nodeapi

import (
	"encoding/json"
	"net/netip"
	"time"
)

// What Resource.Spec and Resource.Status are, by its kind; a spec is {} where nothing is asked for any more. The specs
// and PortStatus have their fields in the order of their names, which the answers always had.

// NetworkSpec is what is asked of a network; a switch has no IPv4, DNS, NTP servers or routes.
type NetworkSpec struct {
	Activate    bool                 `json:"activate"`
	DisplayName string               `json:"displayName"`
	DNS         *DNSSpec             `json:"dns,omitempty"`
	Generation  uint64               `json:"generation"`
	IPv4        *IPv4Spec            `json:"ipv4,omitempty"`
	Members     []string             `json:"members,omitzero"`
	MTU         int                  `json:"mtu"`
	NTPServers  *string              `json:"ntpServers,omitempty"`
	Port        string               `json:"port"`
	Routes      map[string]RouteSpec `json:"routes,omitzero"` // by name
	SpoofGuard  bool                 `json:"spoofGuard"`
	Tunnels     []TunnelSpec         `json:"tunnels,omitzero"`
	Type        string               `json:"type"`
}

// DNSSpec is what a network's apps are answered.
type DNSSpec struct {
	Domain  string            `json:"domain"`
	Hosts   map[string]string `json:"hosts"` // addresses by name
	Servers string            `json:"servers"`
}

// IPv4Spec are a network's addresses.
type IPv4Spec struct {
	DHCPRange string       `json:"dhcpRange"`
	Gateway   netip.Addr   `json:"gateway"`
	Subnet    netip.Prefix `json:"subnet"`
}

// RouteSpec is a static route of a network.
type RouteSpec struct {
	Destination netip.Prefix `json:"destination"`
	Gateway     netip.Addr   `json:"gateway"`
	Port        string       `json:"port"`
}

// TunnelSpec is this node's end of a tunnel.
type TunnelSpec struct {
	Isolated bool       `json:"isolated"`
	Local    netip.Addr `json:"local"` // "" while it is not known, as the other end
	MTU      int        `json:"mtu"`
	Port     uint16     `json:"port"`
	Remote   netip.Addr `json:"remote"`
	To       string     `json:"to"`
	VNI      uint32     `json:"vni"`
}

// NetworkStatus is what became of a network.
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

// AppSpec is what is asked of an app's networks.
type AppSpec struct {
	Activate    bool                   `json:"activate"`
	Adapters    map[string]AdapterSpec `json:"adapters"` // by index
	DisplayName string                 `json:"displayName"`
}

// AdapterSpec is what is asked of an adapter.
type AdapterSpec struct {
	ACL             []ACLSpec  `json:"acl"` // in the order in which the rules are tried
	Attach          AttachSpec `json:"attach"`
	IP              netip.Addr `json:"ip"`
	MAC             string     `json:"mac"`
	NetworkInstance string     `json:"networkInstance"`
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

// MatchSpec is which packets a rule is for.
type MatchSpec struct {
	IP        netip.Prefix `json:"ip"`
	LocalPort string       `json:"localPort"`
	Port      string       `json:"port"`
	PortLabel string       `json:"portLabel"`
	Protocol  string       `json:"protocol"`
}

// AdapterStatus is what became of an adapter.
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
	State           string `json:"state"` // as that of its parameter
	Error           string `json:"error"`
	Warning         string `json:"warning,omitempty"`
}

// AppStatus is what became of an app's networks.
type AppStatus struct {
	DisplayName   string          `json:"displayName"`
	Pending       bool            `json:"pending"`
	Activated     bool            `json:"activated"`
	TargetVersion uint64          `json:"targetVersion"`
	Error         string          `json:"error"`
	Adapters      []AdapterStatus `json:"adapters"`
}

// PortSpec is what is asked of a port of the host.
type PortSpec struct {
	Cost       int        `json:"cost"`
	DNSServers string     `json:"dnsServers"`
	Gateway    netip.Addr `json:"gateway"`
	IfName     string     `json:"ifName"`
	Labels     string     `json:"labels"`
	MTU        int        `json:"mtu"`
	NTPServers string     `json:"ntpServers"`
	Uplink     bool       `json:"uplink"`
}

// PortStatus is what the host says of a port.
type PortStatus struct {
	Addresses    []string `json:"addresses"`
	DefaultRoute string   `json:"defaultRoute"`
	DNSServers   string   `json:"dnsServers"`
	DNSSkipped   string   `json:"dnsSkipped"`
	DNSSource    string   `json:"dnsSource"`
	Error        string   `json:"error"`
	Exists       bool     `json:"exists"`
	Gateways     string   `json:"gateways"`
	MTU          int      `json:"mtu"`
	Up           bool     `json:"up"`
}

// ParamSpec is what is asked of a parameter.
type ParamSpec struct {
	Kind   string `json:"kind"`
	Target string `json:"target"`
}

// ParamStatus is a parameter and what became of it.
type ParamStatus struct {
	ID         string    `json:"id"`
	Kind       string    `json:"kind"`
	Target     string    `json:"target"`
	State      string    `json:"state"`
	Generation uint64    `json:"generation"`
	Error      string    `json:"error"`
	Since      time.Time `json:"since"`              // when it came to its state
	Attempts   int       `json:"attempts,omitempty"` // that failed, one after the other
	NextTry    time.Time `json:"nextTry,omitzero"`
}

// ActorStatus is what is known of one actor.
type ActorStatus struct {
	ID       string    `json:"id"`
	State    string    `json:"state"` // running, restarting
	Crashes  int       `json:"restarts"`
	Last     string    `json:"error"` // the last crash
	LastAt   time.Time `json:"-"`
	Next     string    `json:"next"` // back-off under way
	Messages uint64    `json:"messages"`
}

// SourceStatus is where the running config came from.
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

// As is a spec or a status of a Resource as its type. Fields that it lacks, and those of a daemon that has another type
// for them, are as in otherwise.
func As[T any](v any, otherwise T) T {
	if text, err := json.Marshal(v); err == nil {
		_ = json.Unmarshal(text, &otherwise)
	}
	return otherwise
}
