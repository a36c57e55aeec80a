package netstate

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// KindVPN is the kind of the tunnel of a network of type vpn.
const KindVPN Kind = "vpn"

// VPN is the tunnel of a network of type vpn: a link that exists and carries packets to its peers, and the process that
// keeps it, if it takes one. Addresses and routes of the link are objects of their own. Exactly one of WireGuard and
// IPsec is set.
//
// It holds secrets, so its Text does not have them: Generation stands for them. Never format it with %v or %+v.
type VPN struct {
	Name string // "ni/3/vpn": also its folder below the run directory
	Link string
	MTU  int
	// Mark is set on each packet that the tunnel itself sends or that its process sends: policy rules lead them by it to
	// the uplink of the network.
	Mark uint32
	// Generation is that of the network's config: of two with the same Generation, the secrets are the same.
	Generation uint64
	WireGuard  *WireGuard
	IPsec      *IPsec
	Limits     ProcessLimits // of the process with its children; a change of them needs no replacement
}

// WireGuard is the configuration of a WireGuard interface (https://www.wireguard.com/protocol).
type WireGuard struct {
	// PrivateKey is in base64, as wg(8) writes it; "": the node makes one and keeps it (Identity).
	PrivateKey string
	Identity   string // name of the key that the node keeps: the UUID of the network
	// PublicKey is the public half of the kept key where that may be replaced (ClustersIdentity), so that another key
	// is another tunnel; else "".
	PublicKey  string `json:",omitempty"`
	ListenPort int    // UDP, 0 for any
	Peers      []WireGuardPeer
}

// ClustersIdentity is the Identity of the node's key for all its encrypted clusters.
const ClustersIdentity = "clusters"

// KeptKey is a key that the node keeps, and the one that shall replace it.
type KeptKey struct {
	Public string    // base64
	Made   time.Time // by the wall clock
	Next   string    // public key of the one that shall replace it, base64; "" for none
	// Announced is when the next one was made; zero without one.
	Announced time.Time
	// Former is the public key of the one that it has replaced, base64, until it is proven; "" for none.
	Former string
	// Tried is the public key of the one that had replaced this one, base64, while this one is tried again since members
	// did not answer to it; "" otherwise.
	Tried string
}

// WireGuardPeer is one peer of a WireGuard interface.
type WireGuardPeer struct {
	Name         string // for people
	PublicKey    string // base64
	PresharedKey string // base64, "" for none
	// Endpoint is "host:port" or "address:port", "" for a peer that calls. A name is resolved by the node's resolver,
	// again while the peer is silent.
	Endpoint   string
	AllowedIPs []netip.Prefix
	Keepalive  int // seconds, 0 for none
	// Succeeds is the public key of another peer whose node has announced this one: what that peer has is this one's as
	// soon as it has shown itself by a handshake. "" for a peer of its own.
	Succeeds string `json:",omitempty"`
}

// IPsec is the configuration of one IKEv2 connection (RFC 7296) of a charon of its own.
type IPsec struct {
	Local, Remote IPsecEnd
	Address       string // the peer's host name or address; "" for a peer that calls
	Port          int    // UDP, of the peer: 0 for 500, and 4500 with NAT traversal
	Listen        bool   // answer peers that call, at UDP ports 500 and 4500; otherwise any free ports are used
	IKE, ESP      string // proposals, comma-separated as in swanctl.conf(5); "" for the defaults
	// VirtualIP asks the peer for addresses of the tunnel (RFC 7296 §2.19).
	VirtualIP bool
	// Policies means that the children select packets (policy-based); otherwise routes do, and the children are as wide as
	// the peers agree on.
	Policies bool
	Children []IPsecChild
	DPD      int // seconds of silence after which the peer is asked, 0 for never
	// Rekey are the lives of a CHILD_SA and of the IKE_SA in seconds, after which new keys are made; 0 for the defaults.
	RekeyChild, RekeyIKE int
	NoMOBIKE             bool // RFC 4555
	// Files are files that certificates or keys were read from. A change of one is a change of the tunnel.
	Files []string `json:",omitempty"`
}

// IPsecEnd is how one end of an IKEv2 connection shows who it is.
type IPsecEnd struct {
	ID   string // identity; "" for the address or the certificate's subject
	Auth string // "psk", "pubkey" or "eap-mschapv2" (this node's end only)
	// Secret is the shared key, or the password of EAP.
	Secret  string
	EAPUser string
	// Certificate, Key and CA are PEM texts, or the paths of PEM files if they begin with '/'.
	Certificate, Key, CA string
}

// IPsecChild is one CHILD_SA: the traffic that it carries.
type IPsecChild struct {
	Name          string
	Local, Remote []netip.Prefix
}

// VPNUser is the user that the processes of tunnels become, if the machine has it.
const VPNUser = "edgespan-vpn"

// vpnLinkPrefix and a number are the name of a tunnel's link. Host state that is the same for every network matches the
// prefix and a digit.
const vpnLinkPrefix = "evpn"

// VPNLink returns the link of the tunnel of network n, and VPNName the name of the tunnel.
func VPNLink(n int) string { return vpnLinkPrefix + strconv.Itoa(n) }

// VPNAlias is the mark of ownership on the link of the tunnel of network n.
func VPNAlias(n int) string { return fmt.Sprintf("edgespan vpn %d", n) }

// VPNName returns the name of the tunnel of network n.
func VPNName(n int) string { return fmt.Sprintf("ni/%d/vpn", n) }

// VPNNumber returns the number of the network whose tunnel has a link, and whether it is the link of a tunnel.
func VPNNumber(link string) (int, bool) {
	digits, is := strings.CutPrefix(link, vpnLinkPrefix)
	n, err := strconv.Atoi(digits)
	return n, is && err == nil && n > 0 && VPNLink(n) == link
}

// VPNNameNumber returns the number of the network whose tunnel has a name, and whether it is the name of a tunnel.
func VPNNameNumber(name string) (int, bool) {
	digits := strings.TrimSuffix(strings.TrimPrefix(name, "ni/"), "/vpn")
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0 && VPNName(n) == name
}

// linkNeeds returns what must exist before something can be on one of edgespan's links; kind is what it takes of a link
// that is no tunnel's: the link of a tunnel is part of it, and up.
func linkNeeds(kind Kind, link string) []ID {
	if n, is := VPNNumber(link); is {
		return []ID{{KindVPN, VPNName(n)}}
	}
	return []ID{{kind, link}}
}

func (v VPN) ID() ID      { return ID{KindVPN, v.Name} }
func (v VPN) Needs() []ID { return nil }

// Text has no secret and no digest of one.
func (v VPN) Text() string {
	kind := "ipsec"
	if v.WireGuard != nil {
		kind = "wireguard"
		if v.WireGuard.PublicKey != "" {
			kind += " key " + v.WireGuard.PublicKey
		}
	}
	return fmt.Sprintf("%s link %s mtu %d mark %#x generation %d memory %d processor %d processes %d", kind, v.Link, v.MTU,
		v.Mark, v.Generation, v.Limits.Memory, v.Limits.Processor, v.Limits.Processes)
}

// TunnelStatus is what is observed of the tunnel of a network.
type TunnelStatus struct {
	Number int    // of the network instance
	Kind   string // "wireguard" or "ipsec"
	By     string // what carries the packets: "kernel" or "process"
	Link   string
	Up     bool // at least one peer can be reached: a handshake of the last 3 minutes, or an installed CHILD_SA
	// PublicKey is this node's WireGuard key.
	PublicKey string
	// Addresses and DNS are what an IPsec peer has assigned.
	Addresses []netip.Prefix
	DNS       []netip.Addr
	Peers     []TunnelPeer // by Name
	// Silent means that an IPsec peer has not answered what it was sent last.
	Silent bool
	Error  string // one sentence for people: why it is not up, "" if nothing is known or it is up
}

// TunnelPeer is what is observed of one peer of a tunnel.
type TunnelPeer struct {
	Name     string
	Identity string // public key, or IKE identity
	Endpoint string // address and port at which it was last heard
	Up       bool
	// LastHandshake is that of WireGuard, or when the IKE_SA or the youngest CHILD_SA was made.
	LastHandshake  time.Time
	SPIs           string // of IPsec's CHILD_SAs, "in/out" in hex, comma-separated
	Received, Sent uint64 // octets
	Rekeys         int    // since the process began, 0 if they are not counted
	Error          string // the last one, in a sentence for people
}
