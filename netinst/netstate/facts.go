package netstate

import "net/netip"

// Facts are what of a machine, seen from our network namespace, can be in the way of a
// node. Unknown names what could not be read: who judges must not take it for fine.
type Facts struct {
	Commands  map[string]bool // helper programs: found through PATH
	Features  map[string]bool // kernel modules: built in, loaded, or there to be loaded
	Listeners []Listener      // who listens on port 53
	Networkd  bool            // systemd-networkd runs in our namespace
	Foreign   map[string]bool // its settings Manage…, as they are set
	RPFilter  map[string]int  // by interface, "all" included
	Flows     FlowTable       // the zero value where nothing is tracked
	Daemons   []Daemon
	Outdated  []int    // pids of our dnsmasqs whose program was replaced on the disk since they began
	Iptables  Iptables // the zero value where nobody asked
	// Flushable says that tables of ours go with a flush of the ruleset by others: the kernel knows
	// no table that is its owner's alone and stays without it (Linux before 6.9).
	Flushable bool
	// Helpers are the dnsmasqs of our node, HelperUser says that the machine has a user for them.
	Helpers    []Helper
	HelperUser bool
	Unknown    []string
}

// HelperUser is the user that dnsmasq runs as, and nothing else does.
const HelperUser = "edgespan-dns"

// Helper is a running helper process, by what it may do.
type Helper struct {
	PID        int
	OwnUser    bool // it runs as the user that is made for it
	NoNewPrivs bool
}

// FlowTable is how many flows are tracked (net.netfilter.nf_conntrack_*): Max of the machine,
// Count in our network namespace, and for how many seconds one of TCP stays without a packet.
type FlowTable struct{ Max, Count, Established int }

// Iptables is the iptables of the machine and what it can do.
type Iptables struct {
	Version     string // as "1.8.9"
	Mode        string // "nf_tables" or "legacy"
	Wait        bool   // it can wait for the lock of the tables (-w)
	RandomFully bool   // MASQUERADE knows --random-fully
	Fault       string // why it could not be asked
}

// Listener is a socket that takes DNS questions.
type Listener struct {
	Proto string // "udp", "tcp"
	Addr  netip.Addr
	Who   string // process as "name (pid)", "" if not known
	Own   bool   // a dnsmasq of ours
}

// HostRoute is an IPv4 route of the main table. Via is invalid for a connected one, whose
// destinations are neighbours on the link.
type HostRoute struct {
	Dst netip.Prefix
	Dev string
	Via netip.Addr
}

// Daemon is a process that is an edgespan node.
type Daemon struct {
	PID    int
	RunDir string // "" for the default
	Here   bool   // it runs in our network namespace
}
