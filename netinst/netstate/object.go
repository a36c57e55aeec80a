package netstate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Kind is one kind of host object.
type Kind string

// The kinds of host objects. Each has one place in the order of a Plan.
const (
	KindSysctl  Kind = "sysctl"
	KindFile    Kind = "file"
	KindSet     Kind = "set"
	KindChain   Kind = "chain"
	KindLink    Kind = "link"
	KindAddress Kind = "address"
	KindPort    Kind = "port"
	KindRoute   Kind = "route"
	KindRule    Kind = "rule"
	KindProcess Kind = "process"
	// KindFlow is the kind of tracked connections. They are not objects of a State: it is used for a failure to delete
	// those that the rules deny.
	KindFlow Kind = "flow"
)

// ID names one host object of one owner.
type ID struct {
	Kind Kind
	Name string
}

func (id ID) String() string { return string(id.Kind) + " " + id.Name }

// Object is one thing on the host, desired or observed. Two objects with the same ID are equal exactly when their Text
// is.
type Object interface {
	ID() ID
	// Needs lists the objects that must exist before this one.
	Needs() []ID
	// Text is the canonical form, one or more lines, without a final newline.
	Text() string
}

// HostOwner is the Name of the owner of the host state, which belongs to no network instance: root chains, the chain
// that drops what no network accepted, nftables tables, the forwarding of ports, the tree of policy rules.
const HostOwner = "host"

// PortsOwner and PortsNumber are the Name and Number of the owner of what edgespan sets on the host's own interfaces:
// addresses and default routes of ports with addressing static.
const (
	PortsOwner  = "ports"
	PortsNumber = -1
)

// Owner is the owner of an object: the host state (Number 0), the ports' addresses (PortsNumber), or one network
// instance by its UUID and its number from 1 to 999.
type Owner struct {
	Name   string
	Number int
	// Unmarked is set for an owner found on the host whose chains were made by a release that does not mark accepted
	// packets.
	Unmarked bool
	// OldFrames is set for an owner found on the host whose frames are filtered by a table of its own, as by a release
	// that had no table for all networks.
	OldFrames bool
}

// RouteProtocol marks edgespan's routes and rules, and its addresses on foreign links (docs/architecture.md, law 3).
const RouteProtocol = 101

// File is a file below the run directory, or a folder if Dir is set. Files have mode 0644 and folders 0755, as dnsmasq
// reads them without privileges.
type File struct {
	Path    string // relative to the run directory, such as "ni/1/conf/dnsmasq.conf"
	Content string
	Dir     bool
}

func (f File) ID() ID { return ID{KindFile, f.Path} }
func (f File) Needs() []ID {
	return nil
}

func (f File) Text() string {
	if f.Dir {
		return "folder"
	}
	return f.Content
}

// RouteType is the kernel's route type.
type RouteType string

// The route types in use.
const (
	Unicast     RouteType = "unicast"
	Unreachable RouteType = "unreachable"
)

// MainTable is the kernel's main table (RT_TABLE_MAIN), in which edgespan has only default routes of ports.
const MainTable = 254

// Route is one route of protocol RouteProtocol in one of edgespan's tables, or a port's default route in MainTable.
type Route struct {
	Table  int
	Dst    string // "0.0.0.0/0" for the default route
	Type   RouteType
	Dev    string
	Via    string
	OnLink bool // Via is a neighbour on Dev, regardless of the subnets of Dev (RTNH_F_ONLINK)
	Src    string
	Metric int
	After  ID // the address that it needs; zero for none
}

func (r Route) ID() ID {
	return ID{KindRoute, fmt.Sprintf("%s table %d metric %d", r.Dst, r.Table, r.Metric)}
}

func (r Route) Needs() []ID {
	if r.Dev == "" {
		return nil
	}
	n := linkNeeds(KindPort, r.Dev) // fails only for edgespan's links; others are external
	if r.After != (ID{}) {
		n = append(n, r.After)
	}
	return n
}

func (r Route) Text() string {
	s := string(r.Type)
	if r.Via != "" {
		s += " via " + r.Via
	}
	if r.Dev != "" {
		s += " dev " + r.Dev
	}
	if r.OnLink {
		s += " onlink"
	}
	if r.Src != "" {
		s += " src " + r.Src
	}
	return s
}

// Counter is what a rule of a chain has counted since the chain was written.
type Counter struct{ Packets, Bytes uint64 }

// Family is the packet family of a Chain.
type Family string

// The families.
const (
	IPv4 Family = "ipv4" // of iptables
	// BridgeFamily, InetFamily, ARPFamily and IP6Family are families of nftables.
	BridgeFamily Family = "bridge"
	InetFamily   Family = "inet"
	ARPFamily    Family = "arp"
	IP6Family    Family = "ip6"
)

// Native reports whether chains of the family are written in nft's syntax, and not in that of iptables.
func (f Family) Native() bool {
	return f == BridgeFamily || f == InetFamily || f == ARPFamily || f == IP6Family
}

// Hook is one way into a chain. Of iptables, it is a rule that is inserted first in Parent or, if Last is set, appended
// to it; Parent is a built-in chain or a chain of the host. Of nftables, it is an element of the host's map Parent.
type Hook struct {
	Parent string
	Match  string // such as "-i es1", "" matches every packet; or the element's key, such as `"es1a1"`
	Last   bool
}

// Chain is a chain with its hooks. Its rules are complete and in order, because a chain is always replaced as a whole.
//
// A native Chain without a Table is an nftables table named Name, of which Rules are the lines of the body. If chains
// of other owners are in that table, it is the rest of the table: the maps and the chains into which the others hook.
type Chain struct {
	Family Family
	Table  string // such as "filter"; "" for an nftables table
	Name   string
	Rules  []string // after "-A NAME "; or lines of nft
	Hooks  []Hook
}

// IsTable reports whether c is an nftables table, or the rest of one.
func (c Chain) IsTable() bool { return c.Family.Native() && c.Table == "" }

func (c Chain) ID() ID {
	if c.IsTable() {
		return ID{KindChain, string(c.Family) + "/" + c.Name}
	}
	return ID{KindChain, string(c.Family) + "/" + c.Table + "/" + c.Name}
}

// Needs are the sets that its rules name. All chains are written in one op: all or none.
func (c Chain) Needs() []ID { return setsOf(c.Rules) }

func (c Chain) Text() string {
	var b []string
	for _, h := range c.Hooks {
		at := "first in "
		switch {
		case c.Family.Native():
			at = "in "
		case h.Last:
			at = "last in "
		}
		b = append(b, strings.TrimSpace(fmt.Sprintf("%s%s: %s", at, h.Parent, h.Match)))
	}
	return strings.Join(append(b, c.Rules...), "\n")
}

// AskingAddr is the loopback address from which the node queries its own helpers, so that these packets can be told
// from all others of the host.
const AskingAddr = "127.101.115.1"

// Probe is how a process shows that it works: it answers a DNS query.
type Probe struct {
	Addr string // "10.1.0.1:53"
	Name string // the queried name, such as "gateway.edge."
	IP   string // the expected address; "" accepts any answer, for records of an earlier release
}

// Process is a long-running helper in its own session, which outlives the daemon. It counts as present if it answered
// its Probe. A change of Digest requires a replacement, a change of Reload only a SIGHUP. The command line is used for
// the next start: a process that was started with another one keeps running.
type Process struct {
	Name   string   // unique per owner, such as "ni/1/dnsmasq"; also its folder for pid, log and leases
	Argv   []string // Argv[0] is searched in PATH
	Digest string
	Reload string
	Probe  Probe
	Leases *Leases // nil: it has none; not compared, as Reload covers the reservations
	After  []ID
	// Limits is what it may take with its children; a change of them needs no replacement. Zero: no limits.
	Limits ProcessLimits
}

// ProcessLimits bound what the helper processes of one owner may take together.
type ProcessLimits struct {
	Memory    int `json:",omitempty"` // MiB
	Processor int `json:",omitempty"` // percent of one core
	Processes int `json:",omitempty"`
}

// Leases are the DHCP leases with which a Process must agree after its start and after each Reload. A lease of an
// address that is reserved for another client is dropped, as the server would refuse the address to its rightful
// client.
type Leases struct {
	File     string            // relative to the Process's folder, in dnsmasq's format
	Link     string            // the link that it serves
	Server   string            // its address there
	Reserved map[string]string // MAC by IPv4 address
	Clients  []Client          // clients that it must answer
}

// Client is a DHCP client whose reservation a Process must know.
type Client struct {
	Of   ID // the object that configures it; its owner gets the failure
	MAC  string
	Name string // the host name that it gets (RFC 2132 option 12), "" for none
}

func (p Process) ID() ID      { return ID{KindProcess, p.Name} }
func (p Process) Needs() []ID { return p.After }
func (p Process) Text() string {
	text := fmt.Sprintf("digest %s reload %s", p.Digest, p.Reload)
	if l := p.Limits; l != (ProcessLimits{}) {
		text += fmt.Sprintf(" memory %d processor %d processes %d", l.Memory, l.Processor, l.Processes)
	}
	return text
}

// State is a set of host objects of one owner.
type State map[ID]Object

// NewState returns a State of objects; a later one with the same ID wins.
func NewState(objs ...Object) State {
	s := State{}
	s.Add(objs...)
	return s
}

// Add adds objects to s.
func (s State) Add(objs ...Object) {
	for _, o := range objs {
		s[o.ID()] = o
	}
}

// IDs returns the objects' IDs in the order of String.
func (s State) IDs() []ID {
	ids := make([]ID, 0, len(s))
	for id := range s {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b ID) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Name, b.Name))
	})
	return ids
}

// String formats s for golden files, one paragraph per object.
func (s State) String() string {
	var b strings.Builder
	for _, id := range s.IDs() {
		fmt.Fprintf(&b, "== %s\n%s\n", id, s[id].Text())
	}
	return b.String()
}
