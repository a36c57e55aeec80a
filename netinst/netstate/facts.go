package netstate

import "net/netip"

// Facts are the properties of a machine, seen from the network namespace of the process, that can cause problems for a
// node. Unknown names what could not be read: its absence is no sign that all is well.
type Facts struct {
	Commands  map[string]bool // helper programs: whether PATH has them
	Features  map[string]bool // kernel modules: whether built in, loaded or loadable
	Listeners []Listener      // sockets that wait for packets or connections
	Networkd  bool            // systemd-networkd runs in the same network namespace
	Foreign   map[string]bool // its Manage… settings
	RPFilter  map[string]int  // by interface, "all" included
	Flows     FlowTable       // zero if nothing is tracked
	Daemons   []Daemon
	Outdated  []int    // PIDs of edgespan's dnsmasqs whose program has been replaced since they started
	Iptables  Iptables // zero if it was not examined
	// Flushable means that a flush of the ruleset by others removes edgespan's tables: the kernel has no tables that only
	// their owner can change and that persist without it (Linux before 6.9).
	Flushable bool
	// Helpers are the dnsmasqs of the node; HelperUser reports whether the machine has a user for them.
	Helpers    []Helper
	HelperUser bool
	Unlimited  []string // controllers of cgroups that limits of helpers need and the machine lacks
	AtLimit    []string // networks whose helpers have reached a limit, such as "ni-1: memory (3 times)"
	Unknown    []string
}

// HelperUser is the user that only dnsmasq runs as.
const HelperUser = "edgespan-dns"

// Helper is a running helper process and its privileges.
type Helper struct {
	PID        int
	OwnUser    bool // it runs as HelperUser
	NoNewPrivs bool
}

// FlowTable is the number of tracked flows (net.netfilter.nf_conntrack_*): Max of the machine, Count in this network
// namespace, and Established, the seconds for which an idle TCP flow is kept.
type FlowTable struct{ Max, Count, Established int }

// Iptables is the machine's iptables and its features.
type Iptables struct {
	Version     string // such as "1.8.9"
	Mode        string // "nf_tables" or "legacy"
	Wait        bool   // it can wait for the lock of the tables (-w)
	RandomFully bool   // MASQUERADE knows --random-fully
	Fault       string // why it could not be examined
}

// Listener is a socket that waits for packets or connections of anybody.
type Listener struct {
	Proto string // "udp", "tcp"
	Addr  netip.Addr
	Port  uint16
	Who   string // process as "name (pid)", "" if unknown
	Own   bool   // one of edgespan's dnsmasqs
}

// HostRoute is an IPv4 route of the main table. Via is invalid for a connected route, whose destinations are neighbours
// on the link.
type HostRoute struct {
	Dst netip.Prefix
	Dev string
	Via netip.Addr
}

// Daemon is a process of an edgespan node.
type Daemon struct {
	PID    int
	RunDir string // "" for the default
	Here   bool   // it runs in the same network namespace
}
