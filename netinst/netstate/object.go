package netstate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Kind is one kind of host object.
type Kind string

// The kinds of host objects. Each has one place in the order of a Plan.
const (
	KindSysctl  Kind = "sysctl"
	KindFile    Kind = "file"
	KindChain   Kind = "chain"
	KindLink    Kind = "link"
	KindAddress Kind = "address"
	KindPort    Kind = "port"
	KindRoute   Kind = "route"
	KindRule    Kind = "rule"
	KindProcess Kind = "process"
	// KindFlow is of tracked connections. They are no objects of a State: a failure to end
	// those that the rules deny is told under this kind.
	KindFlow Kind = "flow"
)

// ID names one host object of one owner.
type ID struct {
	Kind Kind
	Name string
}

func (id ID) String() string { return string(id.Kind) + " " + id.Name }

// Object is one thing on the host, wanted or observed. Two objects with the
// same ID are the same thing exactly when their Text is equal.
type Object interface {
	ID() ID
	// Needs lists what must be there before this object can be.
	Needs() []ID
	// Text is the canonical spelling, one or more lines, without a final newline.
	Text() string
}

// HostOwner is the Name of the owner of the ground that belongs to no network
// instance: root chains, the base drop chain, ip_forward.
const HostOwner = "host"

// Owner is who an object belongs to: the host ground (Number 0) or one network
// instance by its uuid and its number of 1 to 999.
type Owner struct {
	Name   string
	Number int
	// Unmarked says, of one that was found on the host, that its chains were made by a
	// release whose chains don't mark what they accept.
	Unmarked bool
}

// RouteProtocol marks our routes and rules (docs/architecture.md, law 3).
const RouteProtocol = 101

// File is a file below the run directory, or a folder when Dir is set. Files
// are 0644 and folders 0755: dnsmasq reads them as nobody.
type File struct {
	Path    string // relative to the run directory, as "ni/1/conf/dnsmasq.conf"
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

// Address is an IPv4 or IPv6 address on a link, always without a prefix route:
// the connected route is a Route in the network's own table.
type Address struct {
	Link   string
	Prefix string // "10.1.0.1/24"
}

func (a Address) ID() ID       { return ID{KindAddress, a.Link + " " + a.Prefix} }
func (a Address) Needs() []ID  { return []ID{{KindLink, a.Link}} }
func (a Address) Text() string { return "noprefixroute" }

// sameSubnet says whether two addresses are of one subnet of one link.
func (a Address) sameSubnet(b Address) bool {
	p, _ := netip.ParsePrefix(a.Prefix)
	q, _ := netip.ParsePrefix(b.Prefix)
	return a.Link == b.Link && p.IsValid() && p.Masked() == q.Masked()
}

// RouteType is the kernel's route type.
type RouteType string

// The route types in use.
const (
	Unicast     RouteType = "unicast"
	Unreachable RouteType = "unreachable"
)

// Route is one route of protocol RouteProtocol in a table of ours.
type Route struct {
	Table  int
	Dst    string // "0.0.0.0/0" for the default route
	Type   RouteType
	Dev    string
	Via    string
	OnLink bool // Via is a neighbour on Dev, whatever subnets Dev has (RTNH_F_ONLINK)
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
	n := []ID{{KindPort, r.Dev}} // only met by links of ours; others are external
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

// Rule is one policy rule of protocol RouteProtocol.
type Rule struct {
	Priority int
	From, To string // prefixes, "" for any
	// OIF is the interface that a socket of the host is bound to (SO_BINDTODEVICE,
	// IP_UNICAST_IF), "" for any; what is forwarded is never bound to one.
	OIF   string
	DPort int // of UDP or TCP; 0 for any
	Table int
	After ID // the route that it leads to; zero for none
}

func (r Rule) ID() ID { return ID{KindRule, fmt.Sprint(r.Priority)} }
func (r Rule) Needs() []ID {
	if r.After == (ID{}) {
		return nil
	}
	return []ID{r.After}
}

func (r Rule) Text() string {
	s := ""
	if r.From != "" {
		s += "from " + r.From + " "
	}
	if r.To != "" {
		s += "to " + r.To + " "
	}
	if r.OIF != "" {
		s += "oif " + r.OIF + " "
	}
	if r.DPort != 0 {
		s += fmt.Sprintf("dport %d ", r.DPort)
	}
	return s + fmt.Sprintf("lookup %d", r.Table)
}

// Family is the packet family of a Chain.
type Family string

// The families.
const (
	IPv4 Family = "ipv4"
	// BridgeFamily is nftables' bridge family: such a Chain is one whole table
	// named Name, its Rules the lines of the table's body as nft takes them.
	BridgeFamily Family = "bridge"
	// InetFamily is nftables' inet family: a Chain of it is a whole table, too.
	InetFamily Family = "inet"
	// ARPFamily is nftables' arp family, with whole tables, too.
	ARPFamily Family = "arp"
)

// Whole says whether a Chain of the family is a whole table of nftables.
func (f Family) Whole() bool { return f == BridgeFamily || f == InetFamily || f == ARPFamily }

// Hook is one rule that leads into a chain, inserted first in (or, when Last,
// appended to) Parent: a built-in chain or a chain of host's.
type Hook struct {
	Parent string
	Match  string // as "-i es1"; "" matches every packet
	Last   bool
}

// Chain is a whole iptables chain with the rules that lead into it, each
// complete and in order, so that a chain is only ever replaced as a whole.
type Chain struct {
	Family Family
	Table  string // "filter", "nat"; of a whole table: ""
	Name   string
	Rules  []string // after "-A NAME "
	Hooks  []Hook
}

func (c Chain) ID() ID {
	if c.Family.Whole() {
		return ID{KindChain, string(c.Family) + "/" + c.Name}
	}
	return ID{KindChain, string(c.Family) + "/" + c.Table + "/" + c.Name}
}

func (c Chain) Needs() []ID { return nil } // chains go in one restore: all or none

func (c Chain) Text() string {
	var b []string
	for _, h := range c.Hooks {
		at := "first"
		if h.Last {
			at = "last"
		}
		b = append(b, strings.TrimSpace(fmt.Sprintf("%s in %s: %s", at, h.Parent, h.Match)))
	}
	return strings.Join(append(b, c.Rules...), "\n")
}

// AskingAddr is the address of the loopback link from which the node asks its own helpers: packets
// between it and them can be told from all others of the host.
const AskingAddr = "127.101.115.1"

// Probe is how a process proves that it works: it answers a DNS question.
type Probe struct {
	Addr string // "10.1.0.1:53"
	Name string // the question, as "gateway.edge."
	IP   string // the address that Name has; "" accepts any answer, as a record of a former release does
}

// Process is a long-running helper in a session of its own that outlives us.
// Present means that its Probe was answered. Digest changes when it must be
// replaced, Reload when SIGHUP is enough. Its command line says how the next one is
// started: one that was started by another goes on.
type Process struct {
	Name   string   // unique per owner, as "ni/1/dnsmasq": also its folder for pid, log, leases
	Argv   []string // Argv[0] is found through PATH
	Digest string
	Reload string
	Probe  Probe
	Leases *Leases // nil: it hands out none; not compared, Reload holds the reservations
	After  []ID
}

// Leases is what the DHCP leases of a Process must agree with after its start and
// after each Reload: one for another client than the one that its address is reserved
// for is dropped, since its server would refuse the address to everyone else.
type Leases struct {
	File     string            // relative to the Process's folder, as dnsmasq writes it
	Link     string            // the link that it serves
	Server   string            // its address there
	Reserved map[string]string // MAC by IPv4 address
	Clients  []Client          // that it must answer
}

// Client is one whose reservation the DHCP server of a Process must know.
type Client struct {
	Of   ID // the object that says so to the server: its owner is told when it does not
	MAC  string
	Name string // the host name that it is given (RFC 2132 option 12), "" for none
}

func (p Process) ID() ID      { return ID{KindProcess, p.Name} }
func (p Process) Needs() []ID { return p.After }
func (p Process) Text() string {
	return fmt.Sprintf("digest %s reload %s", p.Digest, p.Reload)
}

// State is a set of host objects of one owner.
type State map[ID]Object

// NewState makes a State of objects; a later one of the same ID wins.
func NewState(objs ...Object) State {
	s := State{}
	s.Add(objs...)
	return s
}

// Add puts objects into s.
func (s State) Add(objs ...Object) {
	for _, o := range objs {
		s[o.ID()] = o
	}
}

// IDs lists the objects' names in the order of String.
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

// String prints s as text for golden files: one object a paragraph.
func (s State) String() string {
	var b strings.Builder
	for _, id := range s.IDs() {
		fmt.Fprintf(&b, "== %s\n%s\n", id, s[id].Text())
	}
	return b.String()
}
